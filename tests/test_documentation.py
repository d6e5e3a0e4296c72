"""What the documentation shows is run: README, examples, and the example of every public name."""

import doctest
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import tokenfield as tkf

ROOT = Path(__file__).parent.parent


def test_readme_example_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    exec(code, {})
    sizes, energy = capsys.readouterr().out.strip().splitlines()
    assert f"# {sizes}" in code
    assert f"# {float(energy):.3f}" in code
    assert (tmp_path / "clusters.png").stat().st_size > 10_000
    assert tkf.load(tmp_path / "run.zarr").times[-1] == 40.0


def test_readme_gradient_prints_what_it_says(capsys):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    exec(code, {})
    time, slope = map(float, capsys.readouterr().out.split())
    assert f"# {time:.5f}" in code
    assert f"# {slope:.5f}" in code


def public_callables():
    skipped = {"NoClosedEquation", "SolverError", "Event"}
    return [name for name in tkf.__all__ if name not in skipped]


def theory_callables():
    tuples = {
        "TerminalLaw",
        "Prediction",
        "GammaChoice",
        "LayerCurve",
        "SoftmaxMoments",
        "SCALES",
        "Bounds",
        "DataBounds",
        "LocalConstant",
        "NetworkConstant",
        "Exponents",
        "Growth",
        "PowerLaw",
        "Adversarial",
        "SaddleMerge",
        "StationaryState",
        "Branch",
        "LimitRanks",
        "InfluenceFit",
    }
    packages = {"theory": tkf.theory, "lipschitz": tkf.lipschitz, "studies": tkf.studies, "clustering": tkf.clustering}
    return [
        f"{package}.{name}" for package, module in packages.items() for name in module.__all__ if name not in tuples
    ]


@pytest.mark.parametrize("name", [*public_callables(), *theory_callables()])
def test_every_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "load":
        model = tkf.Transformer(tkf.Softmax(), tkf.PostLN())
        tkf.simulate(model, tkf.uniform_sphere(4, 3), 0.1, save_at=2).save("run.zarr")
    text = attrgetter(name)(tkf).__doc__
    assert text, f"{name} has no docstring"
    examples = doctest.DocTestParser().get_examples(text)
    assert 2 <= len(examples) <= 4, f"the docstring of {name} needs an example of two to four lines"
    scope = {}
    for example in examples:
        if not example.options.get(doctest.SKIP):  # it needs a file that only its user has
            exec(compile(example.source, name, "exec"), scope)


def test_names_of_the_package_are_complete():
    assert {"Softmax", "PostLN", "Tokens", "simulate", "layers", "clusters", "load"} <= set(dir(tkf))
    with pytest.raises(AttributeError, match="no attribute 'Softmx'"):
        tkf.Softmx  # noqa: B018
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", tkf.__version__)
    assert np.asarray(tkf.uniform_sphere(2, 2).x).dtype == np.float64
