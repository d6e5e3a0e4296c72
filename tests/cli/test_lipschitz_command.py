"""`tokenfield lipschitz` as a user meets it."""

import json
import re
from html import unescape
from importlib import import_module

import numpy as np
import pytest
import xarray
from commands import assert_help_without_jax, linked_files, tokenfield, tokenfield_here

import tokenfield as tkf
from tokenfield.cli import main
from tokenfield.lipschitz import adversarial, bounds, data_bounds, data_model, growth, local
from tokenfield.report.lipschitz import factor_text

A, V = np.array([[-1.0, 0.3], [0.2, 0.5]]), np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]])


def numbers_of(result):
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


@pytest.fixture
def here(capsys):
    """The command in this process, which is quicker: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["lipschitz", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrices")
    np.save(folder / "A.npy", A)
    np.savetxt(folder / "V.csv", V, delimiter=",")
    np.savetxt(folder / "nan.txt", [[np.nan, 1.0], [0.0, 1.0]])
    return folder


@pytest.mark.slow
def test_the_local_constant_beside_all_bounds(files):
    """Matrices from files, a mask, tokens scaled to R: the numbers of the library."""
    flags = ["--A", "A.npy", "--V", "V.csv", "--causal", "--n", 6, "--R", 1.5, "--data", "clustered", "--seed", 3]
    numbers = numbers_of(tokenfield("lipschitz", *flags, "--top-k", 2, "--rtol", 1e-10, "--json", cwd=files))
    x = np.asarray(data_model("clustered", 2)(6, 3).x)
    x = 1.5 * x / np.linalg.norm(x, axis=1).max()
    attention = tkf.Softmax(A=A, V=V, causal=True)
    found = local(attention, x, top_k=2, rtol=1e-10)
    assert numbers["values"] == pytest.approx(found.values.tolist(), rel=1e-9)
    assert numbers["constant"] == numbers["values"][0]
    low, high = numbers["interval"]
    assert low <= found.constant * (1 + 1e-12)
    assert found.constant <= high * (1 + 1e-12)
    assert high - low <= 2.1e-10 * high
    assert numbers["intervals"][0] == numbers["interval"]
    assert numbers["converged"] is True
    ball, own = bounds(A, V, 1.5, 6), data_bounds(attention, x)
    for name in ("upper", "sharp_upper", "lower", "mean_field", "log_mean_field", "gap"):
        assert numbers["bounds"][name] == pytest.approx(getattr(ball, name), rel=1e-12), name
    assert numbers["bounds"]["data"] == pytest.approx(own.data, rel=1e-9)
    assert numbers["bounds"]["sharp_data"] == pytest.approx(own.sharp_data, rel=1e-9)
    assert numbers["bounds"]["notes"] == list(ball.notes)
    assert numbers["bounds"]["R"] == 1.5
    assert (numbers["inputs"]["d"], numbers["inputs"]["A"], numbers["inputs"]["n"]) == (2, "A.npy", 6)


def test_growth_in_a_folder(tmp_path, here, capsys, monkeypatch):
    """The command is interrupted after three of four constants; the same command computes the last one."""
    flags = ["--beta", 0.5, "--d", 3, "--data", "sphere", "--lengths", "4,6", "--repeats", 2, "--seed", 5]
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return local(*arguments, **options)

    monkeypatch.setattr(import_module("tokenfield.lipschitz.growth"), "local", interrupted)
    code, _, err = here(*flags, "--out", tmp_path / "study")
    assert code == 130
    assert "growth.npz: run the same command again to continue" in err
    numbers = numbers_of(tokenfield_here(capsys, "lipschitz", *flags, "--out", tmp_path / "study", "--json"))
    assert len(calls) == 5
    found = growth(tkf.Softmax(beta=0.5), data_model("sphere", 3), (4, 6), repeats=2, seed=5)
    np.testing.assert_allclose(numbers["constants"], found.constants, rtol=1e-6)
    assert numbers["lengths"] == [4, 6]
    assert numbers["power"] == pytest.approx(found.law.power, abs=1e-6)
    assert numbers["power_interval"] == pytest.approx(list(found.law.interval), abs=1e-5)
    assert numbers["factor"] == pytest.approx(found.law.factor, rel=1e-5)
    assert {path.name for path in (tmp_path / "study").iterdir()} == {"growth.png", "growth.zarr", "report.html"}
    assert (tmp_path / "study" / "growth.png").stat().st_size > 10_000
    stored = xarray.open_zarr(tmp_path / "study" / "growth.zarr", consolidated=False).load()
    np.testing.assert_array_equal(stored["constant"], numbers["constants"])
    np.testing.assert_array_equal(stored["n"], [4, 6])
    assert stored.attrs["power"] == numbers["power"]
    assert json.loads(stored.attrs["config"]) == numbers["inputs"]
    assert "tokenfield_version" in stored.attrs
    code, _, err = here(*flags, "--out", tmp_path / "study")
    assert code == 2
    assert "holds a study: give another folder, or --overwrite" in err


def test_the_worst_tokens_found(files, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(files)
    flags = ["--A", "A.npy", "--n", 4, "--R", 1.5, "--starts", 2, "--steps", 15, "--out", tmp_path / "new", "--json"]
    numbers = numbers_of(tokenfield_here(capsys, "lipschitz", "--adversarial", *flags))
    found = adversarial(tkf.Softmax(A=A), 4, 1.5, starts=2, steps=15)
    assert numbers["constant"] == pytest.approx(found.constant, rel=1e-6)
    assert numbers["explicit_constant"] == pytest.approx(found.explicit_constant, rel=1e-9)
    assert local(tkf.Softmax(A=A), np.array(numbers["x"])).constant == pytest.approx(numbers["constant"], rel=1e-9)
    assert numbers["bounds"]["lower"] <= numbers["constant"] <= numbers["bounds"]["sharp_upper"]
    assert numbers["bounds"]["upper"] == pytest.approx(bounds(A, None, 1.5, 4).upper, rel=1e-12)
    assert linked_files(tmp_path / "new") == {"constant.json"}
    assert json.loads((tmp_path / "new" / "constant.json").read_text())["x"] == numbers["x"]
    report = (tmp_path / "new" / "report.html").read_text()
    assert f"the worst 4 tokens found by a factor of at most {numbers['constant']:.4g}." in report
    assert f'<td data-column="predicted">≥ {numbers["bounds"]["lower"]:.4g}</td>' in report
    assert report.count(">agrees<") == 3  # both upper bounds and the lower one


def test_a_constant_in_a_large_unit(here, tmp_path, monkeypatch, capsys):
    """At beta > 30 the kernel is divided by e^beta; report and table have the constant of the kernel itself."""
    flags = ["--attention", "unnormalized", "--beta", 40, "--d", 2, "--n", 3]
    code, out, _ = here(*flags, "--adversarial", "--starts", 1, "--steps", 3, "--out", tmp_path)
    assert code == 0
    numbers = json.loads((tmp_path / "constant.json").read_text())
    assert numbers["log_unit"] == 40
    true = local(tkf.Unnormalized(beta=40.0, log_unit=0.0), np.array(numbers["x"])).constant
    assert numbers["constant"] == pytest.approx(true * np.exp(-40), rel=1e-6)
    assert "e to the power" not in out
    (mantissa, exponent), report = f"{true:.3e}".split("e"), (tmp_path / "report.html").read_text()
    assert f"at most {float(mantissa):.4g} × 10<sup>{int(exponent)}</sup>." in report
    assert f" × 10^{int(exponent)} " in out
    (row,) = re.findall(r"explicit tokens of the theory</th><td>(.*?)</td>", report)
    assert row == re.sub(r"\^(-?\d+)", r"<sup>\1</sup>", factor_text(numbers["explicit_constant"], 40.0, 6))
    (snippet,) = re.findall(r"<pre><code>(import .*?)</code></pre>", report, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(unescape(snippet), {})
    assert capsys.readouterr().out == f"{numbers['constant']} times e to the power 40.0\n"


@pytest.mark.slow
def test_the_worst_tokens_of_sinkhorn_attention(here):
    code, out, err = here("--attention", "sinkhorn", "--adversarial", "--d", 2, "--n", 3, "--starts", 1, "--steps", 3)
    assert (code, err) == (0, "")
    assert "worst tokens found: at least" in out


def test_what_has_not_converged_says_so(here, tmp_path, monkeypatch, capsys):
    """Three products are too few; the interval still holds a singular value. L2 has no bounds."""
    flags = ["--attention", "l2", "--d", 2, "--n", 5, "--max-products", 3, "--rtol", 1e-12]
    code, out, err = here(*flags, "--out", tmp_path, "--json")
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    assert numbers["converged"] is False
    assert numbers["bounds"] is None
    values = local(tkf.L2(beta=1.0), data_model("gaussian", 2)(5, 0), top_k=10).values
    low, high = numbers["interval"]
    assert ((low <= values) & (values <= high)).any()
    assert high - low > 1e-6
    assert "NOT converged" in here(*flags)[1]
    report = (tmp_path / "report.html").read_text()
    assert "It has not converged to the tolerance." in report
    assert "so there is no prediction for this kernel" in report
    (snippet,) = re.findall(r"<pre><code>(import .*?)</code></pre>", report, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(unescape(snippet), {})
    assert capsys.readouterr().out == f"{numbers['constant']} None\n"
    assert "holds a constant: give another folder, or --overwrite" in here(*flags, "--out", tmp_path)[2]


def test_the_table_names_the_bounds(here):
    code, out, _ = here("--beta", 400, "--d", 2, "--n", 6, "--R", 1)
    assert code == 0
    for words in ("local constant", "these tokens: at most", "some tokens in the ball", "see log_mean_field"):
        assert words in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--A", "nan.txt"], "--A must be finite, got nan at index (0, 0)"),
        (["--V", "none.txt"], "--V: no such file: none.txt"),
        (["--A", "A.npy", "--d", "3"], "--A must have 3 columns for tokens in R^3, got 2"),
        (["--R", "0"], "R must be finite and > 0, got 0.0"),
        (["--lengths", "1,8"], "--lengths must hold at least two different numbers, all >= 2, got '1,8'"),
        (["--lengths", "64"], "--lengths must hold at least two different numbers"),
        (["--lengths", "64;128"], "--lengths must be whole numbers such as 64,128,256, got '64;128'"),
        (["--data", "heavytailed"], "got 'heavytailed': did you mean 'heavy_tailed'?"),
        (["--attention", "softmx"], "got 'softmx': did you mean 'softmax'?"),
        (["--lengths", "4,8", "--adversarial"], "use one at a time"),
        (["--format", "pdf"], "--format needs --lengths: a single constant has no figure"),
        (["--lengths", "4,8", "--repeats", "0"], "repeats must be a whole number >= 1, got 0"),
        (["--attention", "unnormalized", "--beta", "900", "--n", "6", "--d", "2"], "the derivative overflows"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, message, files, here, monkeypatch):
    monkeypatch.chdir(files)
    code, out, err = here(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_help_does_not_load_jax():
    assert_help_without_jax(["lipschitz"], "--adversarial")
