"""The command line as a user meets it: exit codes, one-line errors, numbers; in separate processes where that matters."""

import json
import os
import sys
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
from commands import assert_help_without_jax, assert_one_line_error, tokenfield, tokenfield_here

import tokenfield as tkf

SMALL = ["--n", "12", "--t1", "1", "--save-at", "5"]


def test_json_numbers_are_those_of_the_library(finished):
    _, result = finished
    assert result.returncode == 0, result.stderr
    numbers = json.loads(result.stdout)
    model = tkf.Transformer(tkf.Softmax(9.0), tkf.PostLN())
    final = tkf.simulate(model, tkf.uniform_sphere(24, 3, seed=0), 4.0, save_at=9).final
    assert numbers["clusters"] == tkf.clusters(final).sizes.tolist()
    assert numbers["energy"] == pytest.approx(tkf.normalized_energy(final, model), rel=1e-9)
    assert numbers["order_parameter"] == pytest.approx(tkf.order_parameter(final), rel=1e-9)
    assert numbers["time"] == 4.0
    assert numbers["events"] == []


@pytest.mark.parametrize("command", ["simulate --n 4 --t1 1", "sweep run first-clusters --workers 0"])
@pytest.mark.parametrize("name", ["thesis.tex", "report.html"])  # the latter from another command
def test_a_folder_with_other_files_is_left_alone(command, name, tmp_path, capsys):
    (tmp_path / name).write_text("mine")
    refused = tokenfield_here(capsys, *command.split(), "--out", tmp_path)
    assert_one_line_error(refused, f"holds other files, such as '{name}': give a new folder, or --overwrite")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_run_folder_is_complete_and_reusable(finished, tmp_path):
    folder, _ = finished
    names = {path.name for path in folder.iterdir()}
    assert names == {"trajectory.zarr", "config.toml", "overview.png", "animation.gif", "report.html"}
    traj = tkf.load(folder / "trajectory.zarr")
    assert traj.dataset.attrs["seed"] == 0
    again = tokenfield("simulate", folder / "config.toml", "--out", tmp_path / "again", "--no-animation", "--json")
    assert again.returncode == 0, again.stderr
    np.testing.assert_array_equal(tkf.load(tmp_path / "again" / "trajectory.zarr").dataset["x"], traj.dataset["x"])


def test_toml_with_heads_mlp_and_flags_over_it(tmp_path, capsys):
    file = tmp_path / "run.toml"
    file.write_text(
        """
        t1 = 5.0
        stop_when = "order>=0.5"
        [attention]
        kind = "multihead"
        outputs = [0.5, 0.5]
        [[attention.heads]]
        beta = 2.0
        [[attention.heads]]
        kind = "sigmoid"
        A = [[1.0, 0.0], [0.0, 2.0]]
        [norm]
        kind = "pre"
        [mlp]
        W1 = [[0.1, 0.2]]
        W2 = [[0.3], [0.1]]
        [tokens]
        n = 8
        d = 2
        seed = 4
        """
    )
    result = tokenfield_here(capsys, "simulate", file, "--t1", "0.5", "--norm", "post", "--json")
    assert result.returncode == 0, result.stderr
    heads = tkf.MultiHead([tkf.Softmax(2.0), tkf.Sigmoid(A=[[1.0, 0.0], [0.0, 2.0]])], [0.5, 0.5])
    model = tkf.Transformer(heads, tkf.PostLN(), tkf.MLP([[0.1, 0.2]], [[0.3], [0.1]]))
    traj = tkf.simulate(model, tkf.uniform_sphere(8, 2, seed=4), 0.5, stop_when=tkf.order_above(0.5))
    assert json.loads(result.stdout)["order_parameter"] == pytest.approx(tkf.order_parameter(traj.final), abs=1e-9)


def test_discrete_layers(capsys):
    flags = ["--depth", 4, "--step", 0.5, "--norm", "pre", "--beta", 2, "--n", 6, "--json"]
    result = tokenfield_here(capsys, "simulate", *flags)
    traj = tkf.layers(tkf.Transformer(tkf.Softmax(2.0), tkf.PreLN()), tkf.uniform_sphere(6, 3, seed=0), 4, 0.5)
    numbers = json.loads(result.stdout)
    assert numbers["order_parameter"] == pytest.approx(tkf.order_parameter(traj.final), rel=1e-12)
    assert numbers["time"] == 2.0


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("kind = 'hardmax'\ntie = 1e-3", tkf.Hardmax(tie=1e-3)),
        ("kind = 'sinkhorn'\nmax_iterations = 7\ntolerance = 0.1", tkf.Sinkhorn(tolerance=0.1, max_iterations=7)),
    ],
)
def test_options_of_one_kernel(text, made, tmp_path):
    from tokenfield.config.run import read

    (tmp_path / "run.toml").write_text(f"[attention]\n{text}")
    assert eqx.tree_equal(read(tmp_path / "run.toml", {}).attention.make(), made)


@pytest.mark.parametrize(
    "flags",
    [
        {"tokens.kind": "equiangular", "tokens.n": 5, "t1": 1.0},
        {"tokens.kind": "circle", "tokens.angles": [0.0, 1.0], "depth": 2, "step": 0.5},
    ],
)
def test_written_configs_are_read_again(flags, tmp_path):
    from tokenfield.config import build
    from tokenfield.config.run import read, to_toml

    config, path = read(None, flags), tmp_path / "config.toml"
    path.write_text(to_toml(config))
    again = read(path, {})
    assert to_toml(again) == to_toml(config)
    assert eqx.tree_equal(build.tokens(again.tokens), build.tokens(config.tokens))


def test_finished_runs_are_not_replaced_by_accident(finished, capsys):
    folder, _ = finished
    result = tokenfield_here(capsys, "simulate", *SMALL, "--out", folder)
    assert result.returncode == 2
    assert "holds a finished run" in result.stderr


def test_help_and_version_are_quick_and_do_not_load_jax():
    assert_help_without_jax([], "simulate")
    assert tokenfield("--version").stdout.startswith("tokenfield 0.")


def test_help_without_arguments():
    result = tokenfield()
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == tokenfield("--help").stdout


def test_console_script_is_installed():
    script = Path(sys.executable).with_name("tokenfield")
    assert os.access(script, os.X_OK)


def test_waits_beyond_any_double(tmp_path, capsys):
    done = tokenfield_here(
        capsys,
        "simulate",
        "--beta",
        "3000",
        "--n",
        "3",
        "--d",
        "2",
        "--seed",
        "1",
        "--t1",
        "inf",
        "--out",
        tmp_path / "run",
        "--json",
    )
    numbers = json.loads(done.stdout)
    assert numbers["clusters"] == [3]
    assert numbers["events"][-1]["kind"] == "one_cluster"
    merge = next(event for event in numbers["events"] if event["kind"] == "merge")
    assert merge["relative_error"] < 1e-4
    assert numbers["log_time_unit"] > 0
    assert (tmp_path / "run" / "report.html").exists()


def test_noise_and_moving_weights_from_flags(tmp_path, capsys):
    flags = ["--attention", "unnormalized", "--kappa", 4, "--noise-seed", 3, "--json"]
    result = tokenfield_here(capsys, "simulate", *SMALL, *flags)
    assert result.returncode == 0, result.stderr
    start = tkf.uniform_sphere(12, 3, seed=0)
    model = tkf.Transformer(tkf.Unnormalized(1.0), tkf.PostLN(), noise=tkf.SphereNoise(4.0))
    final = tkf.simulate(model, start, 1.0, save_at=5, seed=3).final
    assert json.loads(result.stdout)["order_parameter"] == pytest.approx(tkf.order_parameter(final), rel=1e-9)

    flags = ["--attention", "unnormalized", "--fisher-rao", 2, "--out", tmp_path / "run", "--no-animation", "--json"]
    result = tokenfield_here(capsys, "simulate", *SMALL, *flags)
    assert result.returncode == 0, result.stderr
    weights = tkf.load(tmp_path / "run" / "trajectory.zarr").dataset["weights"].values
    model = tkf.Transformer(tkf.Unnormalized(1.0), tkf.PostLN(), fisher_rao=2.0)
    expected = tkf.simulate(model, start, 1.0, save_at=5).dataset["weights"].values
    np.testing.assert_allclose(weights, expected, rtol=1e-9)
    assert np.ptp(expected[-1]) > 0.01


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("one-cluster", tkf.one_cluster()),
        ("clusters <= 3", tkf.at_most_clusters(3)),
        ("order>=0.5", tkf.order_above(0.5)),
        ("cosine>=-0.5", tkf.cosine_above(-0.5)),
        ("energy-settled", tkf.energy_settled()),
        ("energy-settled<=1e-3", tkf.energy_settled(1e-3)),
    ],
)
def test_stop_rules_by_name(text, rule):
    from tokenfield.config.build import stop_rule

    assert eqx.tree_equal(stop_rule(text), rule)
