"""What the documentation shows is run: README, the pages of the site, and the example of every public name."""

import ast
import doctest
import inspect
import pkgutil
import re
import sys
from operator import attrgetter
from pathlib import Path

import numpy as np
import pages
import printed
import pytest

import tokenfield as tkf
from tokenfield.atlas.runner import all_claims

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS / "_ext"))
import api_pages  # noqa: E402
import typeset  # noqa: E402

MADE = {"_build", "api", "gallery"}
PAGES = {
    str(path.relative_to(DOCS)): path
    for path in sorted(DOCS.rglob("*.md"))
    if not MADE & set(path.relative_to(DOCS).parts)
}
PROGRAMS = [
    name
    for name, path in PAGES.items()
    if {"python", "sh"} & {block.kind for block in pages.blocks(path.read_text(encoding="utf-8"))}
]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROGRAMS, key=lambda name: name != "start/index.md"))
def test_page_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = pages.expected(PAGES[name])
    try:
        printed = pages.run(PAGES[name])
    except ValueError as error:
        if "make models" in str(error):
            pytest.skip(str(error))
        raise
    assert {block.line: text for block, text in printed} == said


def cited(option, role):
    """What `checked` blocks and roles of all pages name."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES.values())
    listed = [word for line in re.findall(rf"^:{option}: (.*)$", text, re.MULTILINE) for word in line.split(", ")]
    return {*listed, *re.findall(rf"{{{role}}}`(?:[^`<]*<)?([^`>]*)>?`", text)}


def test_theory_names_functions_tests_and_claims_that_exist():
    assert cited("claims", "claim") == {claim.id for claim in all_claims()}
    public = {name.removeprefix("tokenfield.") for page in api_pages.PAGES.values() for name in api_pages.names(page)}
    assert cited("functions", "name") <= public
    for test in cited("tests", "test"):
        file, _, function = test.partition("::")
        body = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
        assert not function or function in {each.name for each in body if isinstance(each, ast.FunctionDef)}, test


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("theory/")])
def test_every_formula_is_linked_to_functions_tests_and_a_claim(name):
    """Each block has all three, or says why no claim measures the formula; each section with formulas has a block."""
    text = PAGES[name].read_text(encoding="utf-8")
    for block in re.findall(r"```{checked}\n(.*?)```", text, re.DOTALL):
        options = set(re.findall(r"^:([\w-]+): \S", block, re.MULTILINE))
        assert options in ({"functions", "tests", "claims"}, {"functions", "tests", "no-claim"}), block
    sections = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    parts = zip(sections[1::2], sections[2::2], strict=True)
    assert [title for title, body in parts if "$$" in body and "{checked}" not in body] == []


def test_every_public_name_has_a_page(tmp_path):
    api_pages.write(tmp_path)
    assert "Softmax\n" in (tmp_path / "models.rst").read_text(encoding="utf-8")


def test_formulas_of_docstrings_are_told_from_code():
    assert doctest.testmod(typeset) == (0, 3)


def test_readme_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        (ten, said), (gradient, found), _ = pages.run(ROOT / "README.md")
    except ValueError as error:
        if "make models" in str(error):
            pytest.skip(str(error))
        raise
    sizes, energy = said.splitlines()
    assert f"# {sizes}" in ten.text
    assert f"# {float(energy):.3f}" in ten.text
    for number in found.split():
        assert f"# {float(number):.5f}" in gradient.text
    assert (tmp_path / "clusters.png").stat().st_size > 10_000
    assert tkf.load(tmp_path / "run.zarr").times[-1] == 40.0
    assert (tmp_path / "runs/first/report.html").exists()


def contributing(file):
    """Run the block of CONTRIBUTING.md that shows a file of the package, in the package; return its names."""
    (text,) = [each.text for each in pages.blocks((ROOT / "CONTRIBUTING.md").read_text()) if f"# {file}\n" in each.text]
    names = {"__name__": Path(file).stem, "__package__": str(Path(file).parent).replace("/", ".")}
    exec(compile(text, file, "exec"), names)
    return names


def test_contributing_shows_a_kernel_that_works():
    kernel = contributing("tokenfield/attention/softplus.py")["Softplus"]
    x = np.asarray(tkf.uniform_sphere(5, 3, seed=0).x)
    naive = np.array([[np.log(1 + np.exp(2.0 * (x[i] @ x[j]))) / 5 for j in range(5)] for i in range(5)])
    np.testing.assert_allclose(tkf.attention_matrix(tkf.Tokens(x), kernel(beta=2.0)), naive, rtol=1e-14)
    rows = tkf.attention_matrix(tkf.Tokens(x), kernel(beta=2.0, normalized=True))
    np.testing.assert_allclose(rows, naive / naive.sum(axis=1, keepdims=True), rtol=1e-14)


def test_contributing_shows_all_that_a_norm_needs():
    norm = contributing("tokenfield/normalization/my_ln.py")["MyLN"]
    assert not inspect.isabstract(norm)
    assert norm().title == "My-LN"
    methods = {name: each for name, each in vars(norm).items() if inspect.isfunction(each) and name[0] != "_"}
    for name, method in methods.items():
        base = getattr(tkf.normalization.AbstractDirectionNorm, name)
        assert list(inspect.signature(method).parameters) == list(inspect.signature(base).parameters), name
    assert set(tkf.normalization.AbstractDirectionNorm.__abstractmethods__) < set(methods)


def test_contributing_shows_a_claim_that_holds():
    claim = contributing("tokenfield/atlas/claims/my_claim.py")["CLAIM"]
    (check,) = claim.measure(True).checks
    assert check.holds
    assert float(check.measured) == pytest.approx(2.0, rel=1e-3)


def test_the_version_to_cite_is_this_one():
    for path in (DOCS / "howto" / "cite.md", ROOT / "CITATION.cff"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^ *version(?::| =) [{]?([^\s},]+)", text, re.MULTILINE) == [tkf.__version__], path


def is_program(text):
    """True for commands, and for text that Python can read."""
    if text.startswith(("tokenfield ", "make ", "pip ")):
        return True
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def test_no_program_is_left_out():
    """A block without a kind is not run: it is a drawing, not a program."""
    for path in (ROOT / "README.md", *PAGES.values()):
        plain = [
            each for each in pages.blocks(path.read_text(encoding="utf-8")) if each.kind in ("", "bash", "console")
        ]
        assert [each.line for each in plain if is_program(each.text)] == [], path


def test_commands_in_text_and_tables_exist():
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES.values())
    ]
    found = [words for text in texts for words in pages.inline(text)]
    assert len(found) > 20
    assert [words for words in found if pages.unknown(words)] == []
    assert pages.unknown(["tokenfield", "sweep", "runn"]) == ["runn"]
    assert pages.unknown(["tokenfield", "predict", "--betta"]) == ["--betta"]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda path: path.stem
)
def test_links_to_files_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    named = re.findall(
        r"`((?:docs/(?!_build)|tests/|tokenfield/|tools/|examples/)[\w./-]+)`", path.read_text(encoding="utf-8")
    )
    local = [each for each in targets if "://" not in each] + (named if path.stem != "CHANGELOG" else [])
    assert [each for each in local if not (ROOT / each).exists()] == []


def test_installs_work_from_a_clone_and_leave_it_editable():
    sources = [ROOT / "README.md", *PAGES.values(), *(ROOT / "tokenfield").rglob("*.py")]
    wrong = {path.name: pages.wrong_installs(path.read_text(encoding="utf-8")) for path in sources}
    assert {name: found for name, found in wrong.items() if found} == {}


def public_callables():
    skipped = {"NoClosedEquation", "SolverError", "Event"}
    return [name for name in tkf.__all__ if name not in skipped]


def theory_callables():
    tuples = {
        "TerminalLaw",
        "Prediction",
        "GammaChoice",
        "CriticalSteps",
        "DensitySteps",
        "GaussianSteps",
        "LayerCurve",
        "PeriodTwo",
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
        "Alignment",
        "Phase",
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
    assert printed.faults(text, name) == []


def other_examples():
    """Docstrings with examples of all other names of the reference, and of methods; each once."""
    seen = {attrgetter(name)(tkf).__doc__ for name in (*public_callables(), *theory_callables())}
    for name in (name for page in api_pages.PAGES.values() for name in api_pages.names(page)):
        value = pkgutil.resolve_name(name)
        methods = [(f"{name}.{each}", inspect.getattr_static(value, each)) for each in dir(value) if each[0] != "_"]
        for label, found in [*(methods if isinstance(value, type) else ()), (name, value)]:
            found = getattr(found, "fget", None) or getattr(found, "__func__", None) or inspect.unwrap(found)
            ours = (getattr(found, "__module__", None) or "").startswith("tokenfield")
            if ours and ">>> " in (found.__doc__ or "") and found.__doc__ not in seen:
                seen.add(found.__doc__)
                yield pytest.param(found.__doc__, id=label.removeprefix("tokenfield."))


@pytest.mark.slow
@pytest.mark.parametrize("text", list(other_examples()))
def test_examples_of_methods_and_figures_run(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed.faults(text, "example") == []


@pytest.mark.slow
def test_every_example_shows_its_output_or_draws():
    draws = re.compile(r"SKIP|savefig|[Pp]lot|panel|figure|animate|histograms|write_|image\(|table\(|use_style|export")
    silent = []
    for path in sorted((ROOT / "tokenfield").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None
            for example in doctest.DocTestParser().get_examples(text or ""):
                shows = isinstance(ast.parse(example.source).body[-1], ast.Expr)
                if shows and not example.want and not draws.search(example.source):
                    silent.append(f"{path.name}: {example.source.strip()}")
    assert silent == []


def test_outputs_are_compared_number_by_number():
    assert doctest.testmod(printed) == (0, 2)


def test_names_of_the_package_are_complete():
    assert {"Softmax", "PostLN", "Tokens", "simulate", "layers", "clusters", "load"} <= set(dir(tkf))
    with pytest.raises(AttributeError, match="no attribute 'Softmx'"):
        tkf.Softmx  # noqa: B018
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", tkf.__version__)
    assert np.asarray(tkf.uniform_sphere(2, 2).x).dtype == np.float64
