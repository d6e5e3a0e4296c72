"""What commands print for people: a run in five lines, what to open, nothing under --quiet, examples that work."""

import io
import json
import math
import re
import shlex

import numpy as np
import pytest
import typer
from commands import assert_one_line_error, linked_files, tokenfield_here

import tokenfield as tkf
from tokenfield._quiet import quietly, shows_progress
from tokenfield.cli.app import app
from tokenfield.cli.examples import EXAMPLES
from tokenfield.cli.run_lines import run_lines
from tokenfield.driver.progress import Progress
from tokenfield.observables.cluster_text import cluster_text
from tokenfield.report import summary
from tokenfield.report.run_comparisons import comparisons
from tokenfield.results.moments import moment_text

TOP = typer.main.get_command(app).commands
COMMANDS = {name: command for name, command in TOP.items() if name != "sweep"}
COMMANDS |= {f"sweep {name}": command for name, command in TOP["sweep"].commands.items()}
CHEAP = (
    "simulate --norm pre",
    "predict",
    "lipschitz --n 64",
    "phase-diagram --d 2",
    "sweep plans",
    "kinds",
)


def labels(ended):
    assert ended.returncode == 0, ended.stderr
    return dict(line.split(maxsplit=1) for line in ended.stdout.splitlines())


@pytest.mark.slow
def test_a_run_ends_in_five_lines(capsys, tmp_path):
    flags = ["--n", 20, "--d", 8, "--t1", 20, "--save-at", 81, "--no-animation", "--out", tmp_path / "run"]
    lines = labels(tokenfield_here(capsys, "simulate", *flags))
    assert list(lines) == ["ran", "events", "end", "theory", "open"]
    assert lines["ran"].startswith("20 tokens in dimension 8, softmax attention (SA) with β = 1 and Post-LN, ")
    assert lines["events"] == "none until t = 20"
    assert lines["end"].startswith("1 cluster of all 20 tokens; order parameter 1;")
    assert lines["theory"].startswith(
        "rate at which 1 − mean cosine falls at the end, like e^-rate t: predicted 2; measured 2"
    )
    assert lines["open"] == str(tmp_path / "run" / "report.html")
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    "attention", [tkf.Softmax(1.0, causal=True), tkf.Hardmax(), tkf.ReLU(1.0), tkf.Softmax(A=np.diag([1.0, 2.0, 3.0]))]
)
def test_a_run_without_a_formula_ends_in_five_lines_too(attention):
    run = tkf.layers(tkf.Transformer(attention, tkf.PostLN()), tkf.uniform_sphere(6, 3, seed=0), 2)
    lines = dict(run_lines(run, summary(run), "report.html"))
    assert list(lines) == ["ran", "events", "end", "theory", "open"]
    assert lines["theory"].startswith("no closed formula to compare this run with")


def test_the_command_that_a_run_suggests_works(capsys):
    run = tkf.layers(tkf.Transformer(tkf.Softmax(beta=1.0), tkf.NGPT(2.0)), tkf.uniform_sphere(6, 3, seed=0), 2)
    program, *suggested = shlex.split(dict(run_lines(run, summary(run), None))["theory"])
    assert program == "tokenfield"
    assert suggested[-4:] == ["--norm", "ngpt", "--alpha", "2"]
    assert "softmax, ngpt, n = 6, d = 3, beta = 1" in tokenfield_here(capsys, *suggested).stdout


def test_times_beyond_doubles_are_shown_by_their_logarithm(capsys, tmp_path):
    flags = ["--beta", 8000, "--n", 3, "--d", 2, "--seed", 1, "--t1", "inf", "--no-animation", "--out", tmp_path]
    lines = labels(tokenfield_here(capsys, "simulate", *flags, "--overwrite"))
    assert lines["theory"] == "time of the last merge: predicted 10^5336; measured 10^5336; less than 0.01 % apart"
    first, last, end = lines["events"].split("; ")
    assert first == "merge at log10 t = 846.1"  # e^1948.24
    assert last == "merge at log10 t = 5336"
    assert end == "one cluster at log10 t = 5336"
    report = (tmp_path / "report.html").read_text()
    start, *exponents, _, _ = re.findall(r'"label":"([^"]*)","method":"animate"', report)  # the slider and its buttons
    run = tkf.load(tmp_path / "trajectory.zarr")
    later = run.dataset.attrs["events"].replace('"log_time": 12287.', '"log_time": 12288.')
    (row,) = comparisons(tkf.Trajectory(run.dataset.assign_attrs(events=later)), summary(run))
    assert (row.agrees, row.remark) == (False, "172 % apart")  # e - 1
    exact = run.log_times / math.log(10)
    exact = exact[np.linspace(0, len(exact) - 1, 40).round().astype(int)]
    assert start == "\\u2212\\u221e"
    assert [float(each) for each in exponents] == pytest.approx(exact[1:], rel=1e-5)
    assert "merge at log10 t = 846.109" in report
    assert "exp(12288)" not in report


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((2.5,), "t = 2.5"),
        ((1.0, 100.0), "log10 t = 43.4294"),
        ((0.0, 5000.0, 1000 * math.log(10)), "log10 t = 1000"),
        ((0.0, 5000.0), "t = 0"),
    ],
)
def test_moments(arguments, text):
    assert moment_text(*arguments) == text


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([4], "1 cluster of all 4 tokens"),
        ([1], "no clusters: 1 single token"),
        ([5, 1], "1 cluster (5 tokens) and 1 single token"),
        ([5, 3], "2 clusters (sizes 5, 3)"),
        ([5, *[2] * 9, 1, 1], "10 clusters (largest: 5 tokens) and 2 single tokens"),
    ],
)
def test_clusters_in_words(sizes, text):
    assert cluster_text(sizes) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "figure"),
    [
        (["norms", "--d", 8, "--n", 4, "--depth", 2, "--seeds", 2], "norms.png"),
        (["phase-diagram", "--points", 4, "--runs", 0], "phase_diagram.png"),
        (["lipschitz", "--lengths", "4,8", "--repeats", 2, "--d", 3], "growth.png"),
    ],
)
def test_the_last_line_says_what_to_open(arguments, figure, capsys, tmp_path):
    ended = tokenfield_here(capsys, *arguments, "--out", tmp_path / "new")
    assert ended.stdout.splitlines()[-1] == f"open {tmp_path / 'new' / 'report.html'}"
    assert (tmp_path / "new" / "report.html").exists()
    ended = tokenfield_here(capsys, *arguments, "--out", tmp_path / "quiet", "--quiet")
    assert ended == (0, "", "")
    assert (tmp_path / "quiet" / figure).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["phase-diagram", "--points", 4, "--runs", 0], {"phase_diagram.svg"}),
        (["norms", "--d", 8, "--n", 4, "--depth", 2, "--seeds", 2], {"norms.pdf"}),
        (["lipschitz", "--lengths", "4,8", "--repeats", 2, "--d", 3], {"growth.pdf"}),
        (["simulate", "--n", 4, "--t1", 1, "--animation", "html"], {"overview.pdf", "animation.html"}),
    ],
)
def test_reports_link_the_figures_in_their_format(arguments, files, capsys, tmp_path):
    format = "svg" if "phase_diagram.svg" in files else "pdf"
    ended = tokenfield_here(capsys, *arguments, "--format", format, "--out", tmp_path / "new")
    assert ended.returncode == 0, ended.stderr
    assert files <= linked_files(tmp_path / "new")
    begins = {".pdf": b"%PDF", ".svg": b"<?xml", ".html": b"<!doctype"}
    for file in files:
        path = tmp_path / "new" / file
        assert path.read_bytes().startswith(begins[path.suffix])


def test_an_unknown_format_is_refused(capsys):
    assert_one_line_error(tokenfield_here(capsys, "phase-diagram", "--format", "gif"), "--format")


def test_every_command_that_draws_has_formats():
    drawing = ("simulate", "norms", "lipschitz", "phase-diagram", "probe", "sweep run", "sweep figures", "atlas")
    assert all(any("--format" in option.opts for option in COMMANDS[name].params) for name in drawing)


def test_quiet_keeps_json_and_errors(capsys):
    ended = tokenfield_here(capsys, "predict", "--quiet", "--json")
    assert json.loads(ended.stdout)["inputs"]["n"] == 256
    assert ended.stderr == ""
    ended = tokenfield_here(capsys, "predict", "--quiet", "--n", 0)
    assert ended == (2, "", "tokenfield: n must be a whole number >= 1, got 0\n")


def test_every_command_can_be_quiet():
    for name in COMMANDS.keys() - {"completion"}:  # which does nothing but print
        assert any("--quiet" in option.opts for option in COMMANDS[name].params), name


def test_quiet_hides_bars_and_notices(monkeypatch):
    from tokenfield import _cost

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    assert shows_progress()
    with quietly(), Progress(None, "working", 3, "things") as bar:
        bar.update(1)
        _cost.announce("a run", 1e30)
        assert not shows_progress()
    assert screen.getvalue() == ""
    _cost.announce("a run", 1e30)
    assert "a run takes about" in screen.getvalue()


def test_predictions_that_apply_come_first_and_alone(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    out = tokenfield_here(capsys, "predict", "--n", 256, "--d", 3, "--beta", 9).stdout
    rows = tkf.predict(256, 3, 9.0)
    others = [row.key for row in rows if not row.valid]
    assert "NO:" not in out
    assert out.splitlines()[-1] == f"{len(others)} more do not apply here (--all shows why): {', '.join(others)}"
    everything = tokenfield_here(capsys, "predict", "--n", 256, "--d", 3, "--beta", 9, "--all").stdout
    assert everything.count("NO:") == len(others)
    assert everything.rindex("yes") < everything.index("NO:")


@pytest.mark.parametrize(
    ("name", "extra"), [("probe", "models"), ("explore", "explore"), ("sweep run", "dask"), ("sweep export", "netcdf")]
)
def test_help_names_the_extra_of_a_command(name, extra, capsys):
    shown = " ".join(tokenfield_here(capsys, *name.split(), "--help").stdout.split())
    assert f'pip install -e ".[{extra}]" in the folder of tokenfield' in shown


def test_every_help_has_examples(capsys):
    assert set(EXAMPLES) == {"", "sweep", *COMMANDS}
    for name, lines in EXAMPLES.items():
        shown = tokenfield_here(capsys, *name.split(), "--help").stdout
        assert 2 <= len(lines) <= 3
        assert all(f"    {line}\n" in shown for line in lines), name
        assert not re.search(r"list\[|Path|range>|\{[a-z]+\}", shown), name


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_parse(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "TEXT.txt").write_text("a text")
    _, _, arguments = line.partition("tokenfield ")
    name, *flags = shlex.split(re.split(r"\)|\|", arguments)[0])
    if name == "sweep":
        name, flags = f"sweep {flags[0]}", flags[1:]
    COMMANDS[name].make_context(name, flags)


@pytest.mark.parametrize(
    "line",
    [line for lines in EXAMPLES.values() for line in lines if line.startswith(tuple(f"tokenfield {s}" for s in CHEAP))],
)
def test_cheap_examples_run(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = tokenfield_here(capsys, *shlex.split(line)[1:])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_a_flag_that_the_norm_does_not_take_names_one_that_exists(capsys):
    refused = tokenfield_here(capsys, "simulate", "--norm", "post", "--alpha", 1, "--n", 4)
    assert_one_line_error(refused, "--alpha: post takes no alpha; it takes gain: give --set norm.gain=VALUE")
    flags = ["--set", "norm.gain=0.7071067811865476", "--n", 4, "--d", 2, "--t1", 0.1, "--save-at", 2, "--json"]
    assert tokenfield_here(capsys, "simulate", *flags).returncode == 0
