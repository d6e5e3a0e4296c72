"""`tokenfield predict` as a user meets it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from cases import PREDICTED

from tokenfield.cli import main
from tokenfield.theory.prediction import predict


def refuse(literal):
    raise AssertionError(f"{literal} is not JSON")


@pytest.fixture
def tokenfield(capsys):
    """The command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["predict", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def read(tokenfield):
    """The JSON of the command, refusing NaN and Infinity."""

    def run(*arguments):
        code, out, err = tokenfield(*arguments, "--json")
        assert code == 0, err
        assert len(out.strip().splitlines()) == 1
        return json.loads(out, parse_constant=refuse)

    return run


def test_json_holds_the_numbers_of_the_library():
    """In a process of its own, as a script would call it."""
    flags = "--n 32 --d 2 --beta 7 --norm post --attention unnormalized --rho0 0.25 --angle 75 --kappa 2 --radius 1.5"
    command = [sys.executable, "-m", "tokenfield", "predict", *flags.split(), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    numbers = json.loads(result.stdout, parse_constant=refuse)
    assert set(numbers) == {*PREDICTED, "details", "inputs"}
    rows = predict(32, 2, 7.0, "post", "unnormalized", rho0=0.25, angle=75.0, kappa=2.0, radius=1.5)
    for row in rows:
        assert numbers[row.key] == (pytest.approx(row.value, rel=1e-12) if isinstance(row.value, float) else row.value)
        detail = numbers["details"][row.key]
        assert detail == {k: getattr(row, k) for k in ("name", "formula", "section", "valid", "note")}
    assert numbers["first_clusters"] == 4
    assert numbers["inputs"]["beta"] == 7.0
    assert numbers["inputs"]["rho0"] == 0.25


def test_what_is_infinite_is_null_and_told(read):
    numbers = read("--n", 8, "--d", 2, "--beta", 1e4)
    for key in ("pair_lifetime", "lipschitz_mean_field"):
        assert numbers[key] is None
        assert numbers["details"][key]["note"]
    assert numbers["transition"] == "continuous"


def test_matrices_from_files(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A, V = np.array([[-1.0, 0.2], [0.0, 0.5]]), np.array([[1.0, 2.0], [0.0, 1.0]])
    np.save(tmp_path / "A.npy", A)
    np.savetxt(tmp_path / "V.csv", V, delimiter=",")
    numbers = read("--n", 5, "--A", "A.npy", "--V", "V.csv", "--radius", 1.5)
    assert numbers["inputs"]["d"] == 2
    assert numbers["inputs"]["A"] == "A.npy"
    rows = {row.key: row for row in predict(5, 2, None, A=A, V=V, R=1.5)}
    assert numbers["lipschitz_lower"] == pytest.approx(rows["lipschitz_lower"].value, rel=1e-12)
    assert numbers["first_clusters"] is None
    assert numbers["details"]["first_clusters"]["valid"] is False
    assert numbers["details"]["lipschitz_lower"]["valid"] is True


def test_table_shows_every_value_and_marks_what_does_not_hold(tokenfield, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    code, out, err = tokenfield("--n", 256, "--d", 3, "--beta", 9, "--all")
    assert code == 0, err
    for piece in ("continuous", " 169 ", "0.00023928929", "NO: 256", "yes"):
        assert piece in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "0"], "n must be a whole number >= 1, got 0"),
        (["--d", "1"], "d must be a whole number >= 2, got 1"),
        (["--beta", "-2"], "beta must be finite and >= 0, got -2.0"),
        (["--beta", "nan"], "beta must be finite"),
        (["--norm", "pots"], "did you mean 'post'?"),
        (["--norm", "mix"], "norm mix needs tau"),
        (["--norm", "pre", "--alpha", "2"], "norm pre takes no alpha"),
        (["--attention", "softmx"], "did you mean 'softmax'?"),
        (["--A", "none.npy"], "--A: no such file: none.npy"),
        (["--A", "words.csv"], "--A: words.csv is not a matrix of numbers"),
        (["--V", "empty.txt"], "--V: empty.txt must hold a matrix"),
        (["--A", "cube.npy"], "--A: cube.npy must hold a matrix"),
        (["--d", "3", "--A", "two.npy"], "A must have shape (3, 3) for tokens in R^3, got (2, 2)"),
        (["--A", "nan.npy"], "A must be finite, got nan"),
        (["--angle", "0"], "angle must lie between 0 and 180 degrees"),
        (["--rho0", "2"], "rho0 must lie in"),
        (["--bta", "2"], "--beta"),
    ],
)
def test_bad_input_is_one_line_and_code_2(tokenfield, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.csv").write_text("a,b\n")
    (tmp_path / "empty.txt").write_text("")
    np.save(tmp_path / "cube.npy", np.ones((2, 2, 2)))
    np.save(tmp_path / "two.npy", np.eye(2))
    np.save(tmp_path / "nan.npy", np.full((3, 3), np.nan))
    code, out, err = tokenfield(*arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_help_does_not_load_jax():
    code = """
import sys
from tokenfield.cli import main
try:
    main(["predict", "--help"])
except SystemExit as end:
    assert end.code == 0
assert not {"jax", "numpy", "scipy"} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "--angle" in result.stdout
