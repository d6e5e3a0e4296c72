"""Bad flags and files: one line on standard error and exit code 2, never a raw error, whatever is given."""

import sys

import numpy as np
import pytest
from refusals import LONGEST, Hangs, in_time, raw, report

import tokenfield.cli as cli

CALLS = 160
LONG = "x" * 5000
NUMBERS = [
    "nan", "inf", "-inf", "-1", "0", "-0", "1e400", "1e-320", "1e30",
    "1e308", "-1e308", "abc", "1e", "0x1", "١٢", "1_0", " ", "None", "true",
    "[1]", "[/b]", "[bold]", "9" * 400, "9" * 5000, LONG,
    "é" * 300, "\udcff", "a\nb", "--", "-", "=", "1,2", "1.5", "99999999999999999999",
    "9223372036854775807", "-99999999999999999999", "%s", "{}", "$HOME", "'", '"',
]  # fmt: skip
WORDS = [
    "softmax",
    "post",
    "Softmax",
    "softmx",
    "unnormalized",
    "hardmax",
    "sinkhorn",
    "gaussian",
    "sphere",
    "tsit5",
    "euler",
    "coarsen",
    "math:sin",
    "nothing:x",
    "circle_density",
    "mean_cosine",
]
PATHS = ["none", ".", "/dev/null", "/proc/self/mem", "text.csv", "text.npy", "empty.npy", "object.npy", "cube.npy",
         "nan.npy", "complex.npy",
         "huge.npy", "row.csv", "x[/b]", "a/b/c.npy", "", LONG, "\udcff", "a\nb", "~nobody/x", "folder.npy"]  # fmt: skip
SETS = ["axes.gamma=['a','b']", "axes.beta=[1e30]", f"axes.beta=[{10**30}]", "axes.n=[0]", "axes=1",
        "run.t1=nan", "run.t1=2020-01-01",
        "=1", "a", "axes.beta=", "run.tokens.n=1e99", "repeats=0", "record.r='x'", "record=[]", "name='a/b'", f"a={'9' * 5000}",
        "axes.é=[1]"]  # fmt: skip
KEYS = [
    "attention.beta=x",
    "attention.beta=[1]",
    "norm.gain=-1",
    "norm=1",
    "=",
    "norm.",
    "a.b.c=1",
    "attention.positions=[1]",
    "attention.positions={kind='rope'}",
    "tokens.weights=[1]",
    "state.kind='gaussian'",
    "noise.g='math:sin'",
    "norm.alpha=0",
    "attention.A='cube.npy'",
    "attention.A='huge.npy'",
    "attention.kind='bad:x'",
    "observe.m='mean_cosine'",
    "mlp={}",
]
JSON = ["--json"]
COMMANDS = {
    "simulate": (
        [*JSON, "--n", "4", "--t1", "0.5", "--save-at", "3"],
        "beta tau alpha n d seed rho k spread kappa noise-seed fisher-rao depth step save-at rtol atol dt merge-tolerance",
        "attention norm tokens noise state observe method stop-when",
        "file weights positions",
    ),
    "predict": (JSON, "n d beta radius R rho0 angle kappa tau alpha", "norm attention", "A V"),
    "norms": ([*JSON, "--d", "8", "--n", "4", "--depth", "2", "--seeds", "2"], "d n depth seeds beta rho tau alpha", "rule", ""),
    "lipschitz": (
        [*JSON, "--n", "4", "--d", "3"],
        "beta n d R lengths repeats starts steps top-k rtol max-products seed",
        "attention data",
        "A V",
    ),
    "phase-diagram": ([*JSON, "--points", "4", "--runs", "0"], "d beta-max kappa-min kappa-max points seed", "attention", ""),
    "sweep": (["plan.toml", "--dry-run"], "workers dask-local", "set", ""),
    "probe": ([*JSON, "./no/model", "--text", "text.csv"], "batch max-tokens windows iterations lengths seed", "", "text"),
    "atlas": (["--only", "none"], "jobs", "only", ""),
}  # fmt: skip
LONG_RUNS = {("simulate", "depth"), ("norms", "seeds"), ("lipschitz", "lengths")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with files of all kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.csv").write_text("not, a\nmatrix")
    (tmp_path / "text.npy").write_text("not an array")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "row.csv").write_text("1,2,3\n")
    (tmp_path / "folder.npy").mkdir()
    np.save(tmp_path / "object.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "nan.npy", np.full((3, 3), np.nan))
    np.save(tmp_path / "complex.npy", np.eye(3) * 1j)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    (tmp_path / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    (tmp_path / "plan.toml").write_text('run = {t1 = 1.0}\naxes.beta = [1.0]\nrecord = {r = "mean_cosine"}\n')
    return tmp_path


def draw(rng: np.random.Generator) -> list[str]:
    """A command with one to three bad values."""
    command = str(rng.choice(list(COMMANDS)))
    base, numbers, words, paths = COMMANDS[command]
    kinds = [(flag, NUMBERS) for flag in numbers.split()] + [(flag, WORDS + NUMBERS) for flag in words.split()]
    kinds += [("set", SETS)] if command == "sweep" else []
    kinds += [("set", KEYS)] if command in ("simulate", "predict", "norms", "lipschitz") else []
    kinds += [(flag, PATHS) for flag in paths.split()]
    bad = []
    for place in rng.choice(len(kinds), min(len(kinds), int(rng.integers(1, 4))), replace=False):
        flag, values = kinds[place]
        value = str(values[rng.integers(len(values))])
        bad += [f"--{flag}={value}"] if rng.random() < 0.7 else [f"--{flag}", value]
    if rng.random() < 0.1:
        bad.append(str(rng.choice([*NUMBERS, "--no-such-flag", "--n", "-x"])))
    return [command, *base, *bad]


def run(arguments: list[str], capsys, monkeypatch) -> str | None:
    """What is wrong with how the command ended, if anything is."""
    seen: list[BaseException | None] = []
    fail = cli._fail

    def watched(message, code):
        seen.append(sys.exc_info()[1])
        fail(message, code)

    with monkeypatch.context() as patch:
        patch.setattr(cli, "_fail", watched)
        try:
            with in_time():
                cli.main(arguments)
        except SystemExit as end:
            code = end.code
        except (Exception, Hangs) as error:
            return f"raised {type(error).__name__}: {error}"
    said = capsys.readouterr().err
    if code == 0:
        return None
    if (
        code not in (1, 2)
        or len(said) > LONGEST + 100
        or len(said.splitlines()) != 1
        or not said.startswith("tokenfield: ")
    ):
        return f"exit code {code} with {len(said.splitlines())} lines: {said[:200]}"
    error = seen[-1] if seen else None
    if type(error).__module__.startswith(("typer", "click")):
        return None
    return None if error is None else raw(error, printed=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_bad_flags_are_refused_in_one_line(budget, folder, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    faults = []
    for _ in range(budget(CALLS)):
        arguments = draw(rng)
        if fault := run(arguments, capsys, monkeypatch):
            faults.append(f"{fault} <- {' '.join(arguments)[:300]!r}")
    assert not faults, report(faults)
