"""The command line as a user meets it: exit codes, one-line errors, numbers; in separate processes where that matters."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import numpy as np
import pytest
from commands import assert_help_without_jax, assert_one_line_error, tokenfield, tokenfield_here

import tokenfield as tkf

SMALL = ["--n", "12", "--t1", "1", "--save-at", "5"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One full run with a folder, shared by the tests that look at it."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    flags = [
        "--attention",
        "softmax",
        "--norm",
        "post",
        "--beta",
        "9",
        "--n",
        "24",
        "--d",
        "3",
        "--t1",
        "4",
        "--seed",
        "0",
        "--save-at",
        "9",
    ]
    return folder, tokenfield("simulate", *flags, "--out", folder, "--json")


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


def test_a_folder_with_other_files_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    refused = tokenfield_here(capsys, "simulate", "--n", "4", "--t1", "1", "--out", tmp_path)
    assert_one_line_error(refused, "holds other files, such as 'thesis.tex': give a new folder, or --overwrite")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["thesis.tex"]


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
    ("arguments", "message"),
    [
        (["simulate", "--n", "0"], "n must be a whole number >= 1, got 0"),
        (["simulate", "--d", "1"], "d must be a whole number >= 2, got 1"),
        (["simulate", "--t1", "0"], "t1 must be finite and > 0"),
        (["simulate", "--t1", "-3"], "t1 must be finite and > 0"),
        (["simulate", "--bta", "3"], "--beta"),
        (["simulate", "--beta", "warm"], "--beta"),
        (["simulate", "--attention", "softmx"], "softmx"),
        (["simulate", "--norm", "mix"], "mix needs tau"),
        (["simulate", "--norm", "post", "--tau", "1"], "post takes no tau"),
        (["simulate", "--stop-when", "never"], "stop_when must be one of"),
        (["simulate", "--stop-when", "energy-settled<=."], "stop_when must be one of"),
        (["simulate", "--tokens", "gaussian"], "keeps tokens on the sphere of radius 1"),
        (["simulate", "--stop-when", "order>=2"], "stop_when: R of order>=R must lie in (0, 1], got 'order>=2'"),
        (["simulate", "--t1", "1", "--depth", "2"], "not both"),
        (
            ["simulate", "--depth", "3", "--stop-when", "one-cluster"],
            "stop_when: layers take none: leave it out, or give t1",
        ),
        (["simulate", "--depth", "3", "--rtol", "1e-6"], "rtol: layers take none"),
        (["simulate", "--depth", "3", "--atol", "1e-6"], "atol: layers take none"),
        (["simulate", "--depth", "3", "--method", "tsit5"], "method: layers take none"),
        (["simulate", "--depth", "3", "--save-at", "5"], "save_at: layers take none"),
        (["simulate", "--step", "0.5"], "step: is the step of discrete layers: give depth too"),
        (["simulate", "--rho", "0.5"], "tokens.rho: a start of kind sphere takes no rho; it takes n, d, seed"),
        (["simulate", "--file", "x.npy", "--n", "3"], "tokens.n: a start of kind file takes no n; it takes file"),
        (["simulate", "--tokens", "equiangular", "--n", "10", "--d", "3"], "d must be at least n = 10, got 3"),
        (["simulate", "--seed", "-1"], "seed must be a whole number >= 0, got -1"),
        (["simulate", "--out", ""], "--out must not be empty"),
        (["simulate", "--out="], "--out must not be empty"),
        (["simulate", "."], "cannot read .: Is a directory"),
        (["simulate", "missing.toml"], "no such file: missing.toml"),
        (["simulate", "--file", "missing.npy"], "no such file"),
        (["simulate", "--out", f"{__file__}/run"], f"cannot write to {Path(__file__) / 'run'}"),
        (["simulate", "--kappa", "-1"], "kappa must be finite and > 0, got -1.0"),
        (["simulate", "--noise-seed", "1"], "sphere needs kappa"),
        (["simulate", "--fisher-rao", "1"], "fisher_rao needs Unnormalized"),
        (["simulat"], "simulat"),
        (["atlas", "--only", "one_clustr"], "did you mean one_cluster?"),
    ],
)
def test_bad_input_is_one_line_and_a_non_zero_code(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_one_line_error(tokenfield_here(capsys, *arguments), message)


def test_bad_input_in_a_process_of_its_own(tmp_path):
    assert_one_line_error(tokenfield("simulate", "--n", 0, cwd=tmp_path), "n must be a whole number >= 1, got 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t2 = 1.0", "unknown key t2: did you mean t1?"),
        ("[attention]\nbta = 1.0", "unknown key attention.bta: did you mean beta?"),
        ("[tokns]\nn = 3", "unknown key tokns: did you mean tokens?"),
        ("t1 = 'long'", "t1: "),
        ("[norm]\nkind = 'pst'", "norm.kind: "),
        ("[attention]\nA = [[1.0, 0.0]]", "A must have shape (3, 3)"),
        ("[attention]\nA = [[1.0, 0.0], [1.0]]", "A must be"),
        ("t1 = = 3", "not valid TOML"),
        ("t1 = nan", "t1 must be"),
        ("attention = 3\n", "attention: "),
        ("depth = 3\nstop_when = 'one-cluster'", "stop_when: layers take none"),
        ("step = 0.5", "step: is the step of discrete layers"),
        ("[tokens]\nrho = 0.5", "tokens.rho: a start of kind sphere takes no rho"),
        ("[tokens]\nkind = 'equiangular'\nn = 10\nd = 3", "d must be at least n = 10, got 3"),
        ("[attention]\ntie = 1e-6", "softmax takes no tie"),
        ("[attention]\nmax_iterations = 3", "softmax takes no max_iterations"),
        ("[attention]\nkind = 'sinkhorn'\nmax_iterations = 0", "max_iterations must be a whole number >= 1, got 0"),
        ("[attention]\nkind = 'multihead'\ntie = 1e-6\n[[attention.heads]]", "multihead takes no tie"),
    ],
)
def test_bad_files_name_the_key(text, message, tmp_path, capsys):
    (tmp_path / "run.toml").write_text(text)
    assert_one_line_error(tokenfield_here(capsys, "simulate", tmp_path / "run.toml"), message)


def test_files_that_are_not_text_are_named(tmp_path, capsys):
    (tmp_path / "config.toml").write_bytes(b"t1 = \xff")
    result = tokenfield_here(capsys, "simulate", tmp_path / "config.toml")
    assert_one_line_error(result, f"{tmp_path / 'config.toml'} is not valid TOML")
    result = tokenfield_here(capsys, "simulate", *SMALL, "--out", tmp_path)
    assert_one_line_error(result, f"--out: {tmp_path} holds another run")


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


def test_bad_token_files(tmp_path, capsys):
    np.save(tmp_path / "nan.npy", np.full((2, 3), np.nan))
    np.save(tmp_path / "long.npy", 2 * np.eye(3))
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}]), allow_pickle=True)
    (tmp_path / "words.csv").write_text("a,b\n")
    (tmp_path / "empty.npy").touch()
    (tmp_path / "empty.csv").touch()
    for name, message in (
        ("nan.npy", "x must be finite"),
        ("long.npy", "token 0 has length 2"),
        ("pickle.npy", "not a matrix of numbers"),
        ("words.csv", "not a matrix of numbers"),
        ("empty.npy", "empty.npy is not a matrix of numbers: No data left in file"),
        ("empty.csv", "empty.csv must hold a matrix, got shape (0, 1)"),
    ):
        assert_one_line_error(tokenfield_here(capsys, "simulate", "--file", tmp_path / name), message)


def test_finished_runs_are_not_replaced_by_accident(finished, capsys):
    folder, _ = finished
    result = tokenfield_here(capsys, "simulate", *SMALL, "--out", folder)
    assert result.returncode == 2
    assert "holds a finished run" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")
def test_ctrl_c_keeps_a_checkpoint(tmp_path):
    folder = tmp_path / "run"
    flags = [
        "simulate",
        "--beta",
        "9",
        "--n",
        "600",
        "--method",
        "tsit5",
        "--t1",
        "3000",
        "--rtol",
        "1e-11",
        "--atol",
        "1e-12",
        "--save-at",
        "3",
    ]
    command = [sys.executable, "-m", "tokenfield", *flags, "--out", str(folder), "--no-animation", "--json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (folder / "config.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert "give the same command again to go on" in error
    assert len(error.strip().splitlines()) == 1
    assert (folder / "checkpoint.npz").exists()


QUICK = ["--n", 6, "--d", 2, "--no-animation"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--t1", 40],
        ["--t1", 1e6, "--beta", 9],  # long: clusters are merged
        ["--t1", 1, "--kappa", 5, "--dt", 0.01],
        ["--depth", 40],
    ],
    ids=["flow", "waits", "noise", "layers"],
)
def test_the_same_command_goes_on_after_ctrl_c(flags, tmp_path, capsys, monkeypatch):
    from tokenfield.driver import record

    real, calls = record.go_on, []
    command = ["simulate", *QUICK, *flags, "--json"]
    monkeypatch.setattr(record, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(tkf.Trajectory, "plot", lambda self: SimpleNamespace(savefig=lambda path, **_: path.touch()))
    monkeypatch.setattr("tokenfield.report.write_report", lambda *_, **__: None)
    whole = tokenfield_here(capsys, *command, "--out", tmp_path / "whole")

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(record, "go_on", interrupted)
    cut = tokenfield_here(capsys, *command, "--out", tmp_path / "cut")
    assert cut.returncode == 130
    assert "kept in" in cut.stderr
    assert "give the same command again to go on" in cut.stderr
    again = tokenfield_here(capsys, *command, "--out", tmp_path / "cut")
    assert again.returncode == 0
    numbers = [json.loads(each.stdout) | {"out": None} for each in (whole, again)]
    assert numbers[0] == numbers[1]
    assert not (tmp_path / "cut" / "checkpoint.npz").exists()
    x = [tkf.load(tmp_path / folder / "trajectory.zarr").dataset["x"] for folder in ("whole", "cut")]
    np.testing.assert_array_equal(*x)


def test_the_same_command_draws_what_was_not_drawn(tmp_path, capsys, monkeypatch):
    command = ["simulate", *QUICK, "--t1", 1, "--out", tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr(tkf.Trajectory, "plot", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        cut = tokenfield_here(capsys, *command)
    assert cut.returncode == 130
    assert "the same command draws it" in cut.stderr
    assert tokenfield_here(capsys, *command).returncode == 0
    assert (tmp_path / "run" / "report.html").exists()
    assert_one_line_error(tokenfield_here(capsys, *command), "holds a finished run")


def test_overwriting_leaves_no_mixture_of_two_runs(tmp_path, capsys, monkeypatch):
    from tokenfield.driver import record

    folder = tmp_path / "run"
    first = ["simulate", *QUICK, "--t1", 1, "--out", folder]
    other = ["simulate", *QUICK, "--t1", 2, "--out", folder, "--overwrite"]
    assert tokenfield_here(capsys, *first).returncode == 0
    (folder / "mine.txt").write_text("kept")
    before = {path.name for path in folder.iterdir()}
    refused = tokenfield_here(capsys, *other, "--method", "euler")  # without a step
    assert_one_line_error(refused, "give a fixed step dt")
    assert {path.name for path in folder.iterdir()} == before  # the old run is as it was
    assert "t1 = 1.0" in (folder / "config.toml").read_text()
    with monkeypatch.context() as patch:
        patch.setattr(record, "go_on", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert tokenfield_here(capsys, *other).returncode == 130
    assert not (folder / "trajectory.zarr").exists()
    (folder / "checkpoint.npz").write_bytes(b"damaged")
    assert tokenfield_here(capsys, *other).returncode == 0
    assert float(tkf.load(folder / "trajectory.zarr").times[-1]) == 2.0
    assert {path.name for path in folder.iterdir()} == before


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
