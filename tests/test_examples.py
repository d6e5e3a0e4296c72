"""The gallery: every example has its form, some of them run here, and together they use the names of the package."""

import ast
import io
import pkgutil
import re
import runpy
import sys
import tokenize
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import tokenfield as tkf

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs" / "_ext"))
import api_pages  # noqa: E402

EXAMPLES = sorted(ROOT.glob("examples/*/plot_*.py"))
NOT_SHOWN = {
    # Results, errors and tables, which functions return or raise; examples use their methods.
    **dict.fromkeys(("Ensemble", "Event", "Pretrained", "Solution", "Trajectory"), "result"),
    **dict.fromkeys(
        ("probe.PositionInfluence", "probe.ProbeResult", "sweep.SweepResult", "theory.Predictions"), "result"
    ),
    **dict.fromkeys(("lipschitz.Adversarial", "lipschitz.Exponents", "lipschitz.Growth"), "result"),
    **dict.fromkeys(("lipschitz.LocalConstant", "lipschitz.NetworkConstant"), "result"),
    **dict.fromkeys(("NoClosedEquation", "SolverError"), "error"),
    # Defaults, and what examples use by another name.
    "Projected": "Transformer(..., space=...) makes it",
    "probe.model_path": "tkf.probe and tkf.from_pretrained take the name of the model",
    "sweep.Plan": "read_plan and tkf.sweep take plain data",
    "theory.predict": "tkf.predict",
    **dict.fromkeys(("plotting.Sheet", "plotting.overview"), "traj.plot() returns it"),
    "plotting.animate": "traj.animate(path)",
    "plotting.compare": "tkf.compare",
    "plotting.field_figure": "traj.plot_field()",
    # What an example of a few seconds cannot show.
    **dict.fromkeys(("explorer.explore", "explorer.open_run"), "they open a page in a browser or a notebook"),
    "plotting.probe_smoothness": "Lipschitz constants of a real model take minutes",
    # Base classes of base classes, and those that take more than 40 lines: architecture.md says what they need.
    **dict.fromkeys(
        ("attention.AbstractAttention", "attention.AbstractHead", "normalization.AbstractNorm"), "base of base classes"
    ),
    **dict.fromkeys(("normalization.AbstractSphereNorm", "spaces.AbstractBrownianSpace"), "base of base classes"),
    **dict.fromkeys(("attention.AbstractGeneralHead", "attention.AbstractRotation"), "long"),
    **dict.fromkeys(("normalization.AbstractGainNorm", "normalization.AbstractTokenMap"), "long"),
    **dict.fromkeys(("solver.AbstractMethod", "flows.AbstractFlow"), "long"),
}
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """Lines that hold code: neither blank nor comment, nor part of the docstring."""
    docstring = ast.parse(text).body[0].end_lineno
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = (range(t.start[0], t.end[0] + 1) for t in tokens if t.type not in SILENT and t.start[0] > docstring)
    return len({line for lines in used for line in lines})


def faults(path: Path) -> list[str]:
    """What is wrong with the form of an example."""
    text = path.read_text(encoding="utf-8")
    title, rule, blank, *story = (ast.get_docstring(ast.parse(text)) or "\n\n").split("\n")
    prose = " ".join(re.findall(r"^# (?!%%)(.*)$", text, re.MULTILINE))
    checks = {
        "no title underlined with =": bool(title) and rule == "=" * len(title) and not blank,
        "no story below the title": len(" ".join(story).split()) >= 25,
        "no block of prose after # %%": "\n# %%\n# " in text,
        "prose that does not say what one sees": len(prose.split()) >= 40,
        f"{code_lines(text)} lines of code, above 40": code_lines(text) <= 40,
        "it does not end with the picture": text.rstrip().endswith(("plt.show()", "figure.show()")),
        "no figure": bool(re.search(r"^ *figure(, .*)? = |\.plot\(|animate\(", text, re.MULTILINE)),
        "it writes into the working directory": not re.search(r"savefig\(|\.save\(\"", text),
    }
    return [f"{path.parent.name}/{path.name}: {what}" for what, passed in checks.items() if not passed]


def test_form_of_every_example():
    assert len(EXAMPLES) >= 30
    assert [fault for path in EXAMPLES for fault in faults(path)] == []
    for folder in {path.parent for path in EXAMPLES} | {ROOT / "examples"}:
        title, rule = (folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8").split("\n")[:2]
        assert len(title) == len(rule) > 0


def used_names():
    """Full names that examples use: `tkf.theory.fold` and names imported from the package."""
    used = set()
    for path in EXAMPLES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tokenfield"):
                used |= {f"{node.module}.{each.name}" for each in node.names}
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("tkf."):
                used.add(f"tokenfield.{ast.unparse(node).removeprefix('tkf.')}")
    return used


def test_examples_use_every_public_name():
    """Every name of the API reference has an example, so that its page can show one."""
    used, reference = used_names(), {name for page in api_pages.PAGES.values() for name in api_pages.names(page)}
    called = {name: re.sub(r"\.(sweep|probe)\.run\.\1$", r".\1", name) for name in reference}  # as in `tkf.sweep(plan)`
    missing = {name for name, each in called.items() if not any(f"{other}.".startswith(f"{each}.") for other in used)}
    missing -= {name for name in missing if is_result(name)}
    assert missing == {f"tokenfield.{name}" for name in NOT_SHOWN}


def is_result(name):
    """True for a class whose objects are returned by functions and not made by users."""
    value = pkgutil.resolve_name(name)
    return isinstance(value, type) and issubclass(value, tuple)


def test_examples_cover_the_table_of_readme():
    """Each name of each row of "What there is" is used in an example."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## What there is")[2].partition("Good to know")[0]
    rows = dict(re.findall(r"^\| ([a-z ]+) \| (.*) \|$", table, re.MULTILINE))
    assert {"attention", "noise", "theory", "real models", "command line"} <= rows.keys()
    shown = "\n".join(path.read_text(encoding="utf-8") for path in EXAMPLES)
    missing = {
        row: [name for name in table_names(row, text) if not re.search(rf"{re.escape(name)}\b", shown)]
        for row, text in rows.items()
    }
    assert {row: names for row, names in missing.items() if names} == {}


def table_names(row, text):
    """Names in a row of the table, as examples write them: `Softmax`, `theory.fold`, `.save`, `tokenfield sweep`, ...."""
    code = [re.sub(r"\(.*\)", "", each) for each in re.findall(r"`([^`]*)`", text)]
    if row == "command line":
        return [each for each in code if each.startswith("tokenfield ")]
    names = {each.removeprefix("tkf").rstrip("=") for each in code if re.fullmatch(r"[\w.]+=?", each)}
    package = f"{row}." if row in ("theory", "lipschitz") else ""
    listed = names - set(NOT_SHOWN) - {"ProbeResult"}
    return sorted(each if each.startswith(".") else package + each for each in listed)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an example and return what it leaves behind, with its one figure drawn."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)

    def run(name):
        with matplotlib.rc_context():
            (path,) = ROOT.glob(f"examples/*/plot_{name}.py")
            left = runpy.run_path(str(path))
            (number,) = plt.get_fignums()
            plt.figure(number).savefig(tmp_path / "figure.png", dpi=50)
        assert (tmp_path / "figure.png").stat().st_size > 4000
        assert [each.name for each in tmp_path.iterdir()] == ["figure.png"]
        return left

    yield run
    plt.close("all")


pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


@pytest.mark.slow
def test_save_and_load_prints_the_merger(run, capsys):
    assert run("save_and_load")["end"].time == pytest.approx(328.364, abs=1e-2)  # FORMULAS §9
    assert "one cluster at t = 328.364" in capsys.readouterr().out


@pytest.mark.slow
def test_positions_are_seen_in_the_matrices(run):
    found = run("positions")["matrices"]
    for matrix in found.values():
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    assert np.triu(found["causal"], 1).max() == 0
    np.testing.assert_array_equal(
        found["causal, window and sink"][20] > 0, [k == 0 or 12 <= k <= 20 for k in range(32)]
    )


def test_leaders_stand_still(run):
    left = run("hardmax_leaders")
    z, lead = left["z"], left["lead"]
    assert np.abs(z[-1, lead] - z[0, lead]).max() < 1e-5 < np.abs(z[-1] - z[0]).max()


@pytest.mark.slow
def test_merge_tree_is_a_sheet(run):
    """A `Sheet` is handed to pyplot by `show`."""
    assert isinstance(run("merge_tree")["figure"], tkf.plotting.Sheet)
