"""`tokenfield norms` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray
from commands import assert_help_without_jax, assert_one_line_error, tokenfield, tokenfield_here

from tokenfield.studies import normalization_study

SMALL = ["--d", "40", "--n", "6", "--depth", "3", "--seeds", "3"]


def norms(*arguments, cwd=None):
    return tokenfield("norms", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("norms") / "study"
    return folder, norms(*SMALL, "--beta", 4, "--tau", 2, "--out", folder, "--json")


@pytest.mark.slow
def test_json_numbers_are_those_of_the_library(finished):
    folder, result = finished
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    numbers = json.loads(result.stdout)
    study = normalization_study(d=40, n=6, depth=3, seeds=3, beta=4.0, tau=2.0).isel(layer=-1)
    assert list(numbers["rules"]) == ["post", "pre", "mix", "peri", "ngpt", "sqrt"]
    for rule, row in numbers["rules"].items():
        one = study.sel(rule=rule)
        assert row["mean_cosine"] == pytest.approx(float(one["mean_cosine"].mean()), abs=1e-6)
        assert row["band"] == pytest.approx(np.quantile(one["mean_cosine"], [0.05, 0.95]).tolist(), abs=1e-6)
        assert row["recursion"] == pytest.approx(float(one["recursion"]), rel=1e-12)
        assert row["identity"] == pytest.approx(float(one["identity"]), rel=1e-12)
    assert (numbers["depth"], numbers["seeds"], numbers["beta"]) == (3, 3, 4.0)
    assert numbers["out"] == str(folder)


def test_folder_holds_the_figure_and_the_data(finished):
    folder, result = finished
    assert {path.name for path in folder.iterdir()} == {"norms.png", "norms.zarr", "report.html"}
    assert (folder / "norms.png").stat().st_size > 10_000
    study = xarray.open_zarr(folder / "norms.zarr", consolidated=False).load()
    row = json.loads(result.stdout)["rules"]["peri"]
    assert float(study["mean_cosine"].sel(rule="peri").isel(layer=-1).mean()) == row["mean_cosine"]
    assert "tokenfield_version" in study.attrs


@pytest.mark.slow
def test_table_and_the_folder_by_default(tmp_path):
    result = norms(*SMALL, "--rule", "sqrt", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "sqrt" in result.stdout
    assert "post" not in result.stdout
    assert (tmp_path / "norms" / "norms.png").exists()
    refused = norms(*SMALL, cwd=tmp_path)
    assert refused.returncode == 2
    assert "holds a study" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--d", "1"], "d must be a whole number >= 2, got 1"),
        (["--seeds", "0"], "seeds must be a whole number >= 1, got 0"),
        (["--rule", "pst"], "rules: must be one of mix, ngpt, peri, post"),
        (["--rho", "1.5"], "rho0 must lie in [0, 1), got 1.5"),
        (["--beta", "warm"], "--beta"),
        (["--out", f"{__file__}/study"], f"cannot write to {Path(__file__) / 'study'}"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_one_line_error(tokenfield_here(capsys, "norms", *arguments), message)


def test_help_does_not_load_jax():
    assert_help_without_jax(["norms"], "--quick")
