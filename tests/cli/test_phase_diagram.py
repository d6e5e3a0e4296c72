"""Phase diagrams of noisy tokens: the dataset, and `tokenfield phase-diagram` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray
from commands import assert_help_without_jax, assert_one_line_error, tokenfield, tokenfield_here

from tokenfield.plotting.phase_diagram import phase_diagram_figure
from tokenfield.theory import (
    beta_star,
    critical_kappa,
    first_order_point,
    fold,
    phase_diagram,
    stationary_states,
)

SMALL = ["--beta-max", "5", "--points", "6", "--runs", "0"]


def command(*arguments, cwd=None):
    return tokenfield("phase-diagram", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases") / "diagram"
    return folder, command(*SMALL, "--out", folder, "--json")


@pytest.mark.parametrize(
    ("d", "attention", "top"), [(2, "unnormalized", 6.0), (4, "unnormalized", 3.0), (3, "softmax", 8.0)]
)
def test_cells_are_those_of_stationary_states(d, attention, top):
    betas = np.linspace(0.0, top, 5)
    least = 0.8 * min(fold(b, d, attention) for b in betas)
    kappas = np.geomspace(least, 1.3 * max(critical_kappa(b, d, attention) for b in betas), 9)
    diagram = phase_diagram(betas, kappas, d, attention)
    names = json.loads(diagram.attrs["regions"])
    for i, beta in enumerate(betas):
        lines = fold(beta, d, attention), first_order_point(beta, d, attention), critical_kappa(beta, d, attention)
        found = diagram.isel(beta=i)
        assert (float(found["fold"]), float(found["equal"]), float(found["critical_kappa"])) == pytest.approx(
            lines, rel=1e-11
        )
        for j, kappa in enumerate(kappas):
            uniform, *order = stationary_states(beta, kappa, d, attention, l_max=1)
            order = [state for state in order if state.stable]
            both = "both, order favored" if order and order[0].free_energy < 0 else "both, uniform favored"
            expected = "uniform only" if not order else both if uniform.stable else "order only"
            assert names[int(found["region"][j])] == expected
            assert float(found["order_parameter"][j]) == pytest.approx(order[0].m_1 if order else 0.0, abs=1e-9)
    if attention == "softmax":
        assert set(np.unique(diagram["region"])) == {0, 3}


def test_narrow_regions_are_found():
    low, jump, high = fold(4.0, 2), first_order_point(4.0, 2), critical_kappa(4.0, 2)
    kappas = [0.99 * low, (low + jump) / 2, (jump + high) / 2, 1.01 * high]
    diagram = phase_diagram([4.0], kappas, 2)
    assert diagram["region"].values.tolist() == [[0, 1, 2, 3]]
    assert (np.diff(diagram["order_parameter"].values[0]) > 0).all()
    assert diagram.attrs["beta_star"] == beta_star(2)
    assert diagram.attrs["kappa_star"] == pytest.approx(critical_kappa(beta_star(2), 2), rel=1e-14)


def test_just_above_a_continuous_transition():
    diagram = phase_diagram([1.0], critical_kappa(1.0, 2) * np.array([1 - 1e-9, 1 + 1e-8, 1 + 1e-4]), 2)
    assert diagram["region"].values.tolist() == [[0, 3, 3]]
    zero, tiny, small = diagram["order_parameter"].values[0]
    assert zero == 0
    assert tiny * 100 == pytest.approx(small, rel=1e-3)  # m_1 grows as the square root


def test_cells_that_cannot_be_computed_are_nan():
    diagram = phase_diagram([20.0], [1e-9, 1.0], 2)
    assert diagram["region"].values.tolist() == [[0, 3]]
    assert np.isnan(diagram["order_parameter"].values[0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: phase_diagram([], [1.0], 2), "betas must be a list of increasing numbers"),
        (lambda: phase_diagram([1.0, 0.5], [1.0], 2), "betas must be a list of increasing numbers"),
        (lambda: phase_diagram([1.0], [-1.0, 1.0], 2), "kappas must be finite and > 0"),
        (lambda: phase_diagram([-1.0], [1.0], 2), "betas must be finite and >= 0"),
        (lambda: phase_diagram([1.0], [1.0], 1), "d must be a whole number >= 2"),
        (lambda: phase_diagram([1.0], [1.0], 2, "relu"), "attention must be"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_figure_names_its_regions_and_axes():
    diagram = phase_diagram(np.linspace(0, 6, 7), np.geomspace(0.05, 3, 8), 2)
    figure = phase_diagram_figure(diagram)
    words = " ".join(text.get_text().replace("\n", " ") for ax in figure.axes for text in ax.texts)
    for region in ("uniform only", "order only", "both, uniform favored", "both, order favored"):
        assert region in words
    assert "beta" in figure.axes[0].get_xlabel()
    assert "kappa" in figure.axes[0].get_ylabel()
    assert len(phase_diagram_figure(phase_diagram([1.0, 2.0], [1.0, 5.0], 2, "softmax")).axes) == 2  # and a color bar


@pytest.mark.slow
def test_json_numbers_are_those_of_the_library(finished):
    folder, result = finished
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    numbers = json.loads(result.stdout)
    assert numbers["beta"] == pytest.approx([0, 1, 2, 3, 4, 5])
    assert numbers["fold"][4] == pytest.approx(fold(4.0, 2), rel=1e-11)
    assert numbers["equal"][4] == pytest.approx(0.391475, abs=5e-7)
    assert numbers["critical_kappa"][0] == 2.0
    assert numbers["beta_star"] == pytest.approx(2.446918311, abs=5e-10)
    assert sum(numbers["cells"].values()) == 36
    assert numbers["out"] == str(folder)


def test_folder_holds_the_figure_and_the_data(finished, capsys):
    folder, _ = finished
    assert {path.name for path in folder.iterdir()} == {"phase_diagram.png", "phase_diagram.zarr", "report.html"}
    assert (folder / "phase_diagram.png").stat().st_size > 10_000
    diagram = xarray.open_zarr(folder / "phase_diagram.zarr", consolidated=False).load()
    assert diagram["order_parameter"].shape == (6, 6)
    assert "tokenfield_version" in diagram.attrs
    refused = tokenfield_here(capsys, "phase-diagram", *SMALL, "--out", folder)
    assert refused.returncode == 2
    assert "holds a diagram" in refused.stderr


@pytest.mark.slow
def test_runs_are_laid_over_it(tmp_path, capsys):
    folder = tmp_path / "diagram"
    flags = ["--beta-max", 1, "--points", 3, "--runs", 1, "--seed", 4, "--out", folder, "--json"]
    result = tokenfield_here(capsys, "phase-diagram", *flags)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    runs = json.loads(result.stdout)["runs"]
    assert runs["beta"] == [0.5]
    stored = xarray.open_zarr(folder / "runs.zarr", consolidated=False).load()
    assert stored["order_parameter"].values.tolist() == runs["order_parameter"]
    figure = phase_diagram_figure(phase_diagram([0.0, 1.0], [1.0, 4.0], 2), stored)
    assert "512 tokens" in " ".join(text.get_text() for text in figure.legends[0].get_texts())


def test_softmax_has_no_tricritical_point(capsys):
    result = tokenfield_here(capsys, "phase-diagram", *SMALL, "--attention", "softmax", "--d", 3, "--json")
    assert result.returncode == 0, result.stderr
    numbers = json.loads(result.stdout)
    assert numbers["beta_star"] is None
    assert numbers["fold"] == numbers["critical_kappa"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--d", "1"], "d must be a whole number >= 2, got 1"),
        (["--beta-max", "-1"], "beta_max must be finite and > 0"),
        (["--kappa-max", "0"], "kappa_max must be finite and > 0"),
        (["--kappa-min", "9"], "kappa_max must be above kappa_min"),
        (["--attention", "sigmoid"], "attention must be"),
        (["--runs", "-1"], "runs must be a whole number >= 0, got -1"),
        (["--points", "1"], "points must be a whole number >= 2"),
        (["--beta-max", "warm"], "--beta-max"),
        (["--out", f"{__file__}/diagram"], f"cannot write to {Path(__file__) / 'diagram'}"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_one_line_error(tokenfield_here(capsys, "phase-diagram", *arguments), message)


def test_help_does_not_load_jax():
    assert_help_without_jax(["phase-diagram"], "--kappa-max")
