"""Runs that were interrupted: the same command goes on, draws what is missing, and leaves no mixture."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield_here

import tokenfield as tkf


@pytest.mark.slow
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
    assert "run the same command again to continue" in error
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
    from tokenfield.driver import single

    real, calls = single.Single.advance, []
    command = ["simulate", *QUICK, *flags, "--json"]
    monkeypatch.setattr(single, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(tkf.Trajectory, "plot", lambda self: SimpleNamespace(savefig=lambda file, **_: None))
    monkeypatch.setattr("tokenfield.report.write_report", lambda *_, **__: None)
    whole = tokenfield_here(capsys, *command, "--out", tmp_path / "whole")

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(single.Single, "advance", interrupted)
    cut = tokenfield_here(capsys, *command, "--out", tmp_path / "cut")
    assert cut.returncode == 130
    assert "saved in" in cut.stderr
    assert "run the same command again to continue" in cut.stderr
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


@pytest.mark.slow
def test_overwriting_leaves_no_mixture_of_two_runs(tmp_path, capsys, monkeypatch):
    from tokenfield.driver import single

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
        patch.setattr(single.Single, "advance", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert tokenfield_here(capsys, *other).returncode == 130
    assert not (folder / "trajectory.zarr").exists()
    (folder / "checkpoint.npz").write_bytes(b"damaged")
    assert tokenfield_here(capsys, *other).returncode == 0
    assert float(tkf.load(folder / "trajectory.zarr").times[-1]) == 2.0
    assert {path.name for path in folder.iterdir()} == before
