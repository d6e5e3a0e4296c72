"""`tokenfield sweep` in the terminal: files, folders, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray
from commands import assert_help_without_jax, assert_one_line_error, tokenfield, tokenfield_here
from sweeps import same_bits

import tokenfield as tkf
from tokenfield import _cpus
from tokenfield.cli import sweep_run_command
from tokenfield.sweep import estimates
from tokenfield.sweep.plan import read_plan
from tokenfield.sweep.store import DONE

TOML = """
about = "a small one"
repeats = 4
batch = 3
[run]
t1 = 2.0
stop_when = "order>=0.75"
[run.tokens]
n = 6
d = 3
[axes]
beta = [1.0, 4.0, 9.0]
[record]
r = "order_parameter"
above = {observable = "fraction_above", threshold = 0.5, times = [0.0, 0.4, 2.0]}
aligned = {event = "order_parameter_0.75"}
"""


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr(sweep_run_command, "draw", lambda *_: [])


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "mine.toml"
    path.write_text(TOML)
    return tkf.sweep(path).dataset


def sweep(capsys, *arguments):
    return tokenfield_here(capsys, "sweep", *arguments)


@pytest.mark.parametrize(
    ("command", "word"), [("", "resumable"), ("run", "--resume"), ("status", "DIR"), ("export", "NetCDF")]
)
def test_help_is_quick(command, word):
    assert_help_without_jax(["sweep", *command.split()], word)


@pytest.mark.parametrize("name", ["first-clusters", "mine.toml", "mine"])
def test_a_plan_without_a_subcommand_is_run(capsys, plan, monkeypatch, name):
    monkeypatch.chdir(plan.parent)
    (plan.parent / "mine").write_text(TOML)
    monkeypatch.setattr(sweep_run_command, "_estimate", lambda chosen, *_: print(chosen.name))
    ended = sweep(capsys, name, "--dry-run")
    assert ended == (0, f"{name.removesuffix('.toml')}\n", "")


@pytest.mark.slow
def test_a_sweep_its_status_and_its_export(capsys, plan, whole, tmp_path):
    out = tmp_path / "out"
    ended = sweep(capsys, "run", plan, "--out", out, "--workers", "0")
    assert ended == (0, "mine: 12 of 12 cells done, 0 failed\n", "")
    assert same_bits(tkf.sweep.SweepResult.open(out).dataset, whole)
    assert sweep(capsys, "status", out).stdout == "mine: 12 of 12 cells done, 0 failed\n"
    counts = json.loads(sweep(capsys, "status", out, "--json").stdout)
    assert counts == {"plan": "mine", "cells": 12, "done": 12, "failed": 0, "out": str(out), "failures": []}
    assert sweep(capsys, "export", out, tmp_path / "a.nc").stdout == f"wrote {tmp_path / 'a.nc'}\n"
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as back:
        assert same_bits(back.load(), whole)
    assert_one_line_error(
        sweep(capsys, "run", plan, "--out", out, "--workers", "0"), "holds this sweep, 12 of 12 cells done"
    )
    assert sweep(capsys, "run", plan, "--out", out, "--workers", "0", "--resume").returncode == 0


@pytest.mark.slow
def test_overrides_and_json(capsys, plan, whole, tmp_path):
    flags = ["--set", "axes.beta=[1.0, 4.0]", "--set", "repeats=2", "--set", "run.attention.kind=softmax", "--json"]
    ended = sweep(capsys, "run", plan, "--out", tmp_path / "out", "--workers", "0", *flags)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["cells"] == 4
    found = tkf.sweep.SweepResult.open(tmp_path / "out").dataset
    assert np.allclose(found["r"], whole["r"].values[:2, :2], rtol=0, atol=1e-12)  # the same seeds, other batches
    refused = sweep(capsys, "run", plan, "--out", tmp_path / "out", "--workers", "0", "--resume")
    assert_one_line_error(refused, "holds another plan: run.attention: ")
    assert "repeats: 2 → 4" in refused.stderr


@pytest.mark.slow
def test_a_dry_run_counts_and_writes_nothing(capsys, plan, tmp_path):
    ended = sweep(capsys, "run", plan, "--out", tmp_path / "out", "--dry-run")
    assert ended.returncode == 0
    assert ended.stdout.startswith("mine: 12 cells: beta (3), repeats (4)\n4 batches of 1 shapes; ")
    found = json.loads(sweep(capsys, "run", plan, "--dry-run", "--json").stdout)
    assert (found["cells"], found["batches"], found["shapes"]) == (12, 4, 1)
    assert found["seconds"] > 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "at_once", "text"),
    [
        (["--workers", "0"], 1, "about 2 min on one core, "),
        (["--workers", "2"], 2, "about 60 s on 2 cores (2 min on one core), "),
        ([], 3, "about 40 s on 3 cores (2 min on one core), "),  # one process for each of 3 cores
        (["--workers", "8"], 4, "about 40 s on 3 cores (2 min on one core), "),  # of 4 batches
    ],
)
def test_a_dry_run_divides_the_time_among_the_workers(capsys, plan, monkeypatch, flags, at_once, text):
    monkeypatch.setattr(estimates, "_time", lambda *_: (120.0, ()))
    for module in (estimates, _cpus):
        monkeypatch.setattr(module, "available_cpus", lambda: 3)
    assert sweep(capsys, "run", plan, "--dry-run", *flags).stdout.splitlines()[-1].startswith(text)
    found = json.loads(sweep(capsys, "run", plan, "--dry-run", "--json", *flags).stdout)
    assert (found["seconds"], found["at_once"]) == (120.0, at_once)
    assert found["runs"] == at_once * estimates.estimate(read_plan(plan), at_once=1).runs


def test_failed_cells_are_listed_and_the_exit_code_is_one(capsys, plan, whole, tmp_path):
    flags = ["--out", tmp_path / "out", "--workers", "0", "--set", "axes.beta=[1.0, nan, 9.0]"]
    ended = sweep(capsys, "run", plan, *flags)
    assert ended.returncode == 1
    first, second, *_ = ended.stdout.splitlines()
    assert first == "mine: 8 of 12 cells done, 4 failed"
    assert second == "  failed at beta = nan, repeat = 0: ValueError: beta must be finite, got nan"
    found = json.loads(sweep(capsys, "status", tmp_path / "out", "--json").stdout)
    assert len(found["failures"]) == 4
    assert set(found["failures"][0]) == {"beta", "repeat", "id", "error"}
    kept = sweep(capsys, "run", plan, *flags, "--resume", "--no-retry")
    assert (kept.returncode, kept.stdout) == (1, ended.stdout)
    dataset = tkf.sweep.SweepResult.open(tmp_path / "out").dataset
    assert dataset["r"].values[[0, 2]].tobytes() == whole["r"].values[[0, 2]].tobytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing.toml"], "no such plan: nothing.toml"),
        (["run", "PLAN", "--set", "axes.betta=[1]"], "axes.betta: unknown parameter: did you mean beta?"),
        (
            ["run", "PLAN", "--set", "record.r=order"],
            "record.r: unknown observable 'order': did you mean order_parameter?",
        ),
        (["run", "PLAN", "--set", "axes.beta=[]"], "axes.beta: must have at least one value"),
        (["run", "PLAN", "--set", "repeats"], "--set: must be key=value, got 'repeats'"),
        (["run", "PLAN", "--set", "run.t1.x=1"], "--set run.t1.x: t1 is not a table of the plan"),
        (["run", "PLAN", "--set", "run.depth=3"], "run: give either t1 (a flow) or depth (layers)"),
        (["run", "PLAN", "--set", "record.above.times=[9.0]"], "record.above.times: must lie within [0, 2]"),
        (["run", "PLAN", "--set", "state=equiangular"], "repeats: 4 repeats of a run in which nothing is random"),
        (
            ["run", "PLAN", "--workers", "2", "--dask-local", "2"],
            "--workers: give only one of --workers, --scheduler and",
        ),
        (["run", "PLAN", "--workers", "-1", "--dry-run"], "'--workers': Input should be greater than or equal to 0"),
        (
            ["run", "PLAN", "--scheduler", "tcp://127.0.0.1:9"],
            "--scheduler: no Dask scheduler answers at tcp://127.0.0.1:9",
        ),
        (["run", "PLAN", "--set", "run.tokens.n=0"], "run.tokens.n: must be a whole number >= 1, got 0"),
        (["run", "PLAN", "--out", "PLAN"], "is a file, not a folder"),
        (["status", "nowhere"], "nowhere holds no sweep"),
        (["export", "nowhere", "a.nc"], "nowhere holds no sweep"),
        (["status"], "tokenfield: Missing argument 'DIR'. (see tokenfield sweep status --help)\n"),
        (["run"], "tokenfield: Missing argument 'PLAN'. (see tokenfield sweep run --help)\n"),
        (["export", "nowhere"], "Missing argument 'FILE.nc'."),
        (["staus"], "No such command 'staus'. Did you mean 'status'? (see tokenfield sweep --help)"),
        (["status", "a", "b"], "(see tokenfield sweep status --help)"),
        (["status", "--workers", "2"], "No such option: --workers (see tokenfield sweep status --help)"),
        ([], "sweep needs one of run, status, figures, export, plans"),
    ],
)
def test_bad_input_is_one_line(capsys, plan, tmp_path, monkeypatch, arguments, message):
    from tokenfield.sweep.engines import dask

    monkeypatch.setattr(dask, "TIMEOUT", 0.5)
    monkeypatch.chdir(tmp_path)
    ended = sweep(capsys, *(str(plan) if argument == "PLAN" else argument for argument in arguments))
    assert_one_line_error(ended, message)


def test_an_unknown_kind_of_address_is_one_line_also_when_the_process_ends(plan, tmp_path):
    """A client that could not be made complains once more when it is thrown away."""
    pytest.importorskip("distributed")
    ended = tokenfield("sweep", "run", plan, "--scheduler", "foo://bar", "--out", tmp_path / "out")
    assert_one_line_error(
        ended,
        "--scheduler must be an address such as tcp://127.0.0.1:8786 (tcp, tls or none, host, port), got 'foo://bar'",
    )


def test_ready_plans_are_listed(capsys):
    from tokenfield.sweep.plan import ready

    ended = sweep(capsys, "plans")
    assert [line.split()[0] for line in ended.stdout.splitlines()] == ready()
    table = json.loads(sweep(capsys, "plans", "--json").stdout)
    assert all(entry["cells"] > 1 and entry["about"] for entry in table.values())
    assert {"figure3", "norms", "first-clusters", "noisy-order-parameter", "long-context"} <= set(table)


LONG = {"repeats": 120, "batch": 3}  # 120 batches: one is done long before the last


def running(session):
    """The processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        found += [path.parent.name] if int(number) == session and state != "Z" else []
    return found


@pytest.fixture(scope="module")
def long_whole(whole, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "mine.toml"
    path.write_text(TOML)
    return tkf.sweep(path, overrides=LONG).dataset


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups on this system")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (getattr(signal, "SIGKILL", 9), -9)])
def test_an_interrupted_sweep_can_be_resumed(capsys, plan, long_whole, tmp_path, number, code):
    """A process of its own, with a worker, that is ended when its first cells are done; the rest is done here."""
    out, flags = tmp_path / "out", [text for key in LONG for text in ("--set", f"{key}={LONG[key]}")]
    command = [sys.executable, "-m", "tokenfield", "sweep", "run", plan, "--out", out, "--workers", "1", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    status, end = out / "sweep.zarr" / "status" / "c" / "0" / "0", time.monotonic() + 120
    metadata = out / "sweep.zarr" / "zarr.json"
    while not status.exists() or status.stat().st_mtime_ns <= metadata.stat().st_mtime_ns:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    if number == signal.SIGINT:
        assert said.startswith("tokenfield: interrupted: ")
        assert said.endswith("of 360 cells done, 0 failed; --resume continues\n")
        assert len(said.splitlines()) == 1
    while running(process.pid):  # no worker is left behind
        assert time.monotonic() < end
        time.sleep(0.02)
    before = tkf.sweep.SweepResult.open(out)
    done = before.dataset["status"].values == DONE
    assert 0 < done.sum() < 360
    assert sweep(capsys, "run", plan, "--out", out, "--workers", "0", "--resume", *flags).returncode == 0
    after = tkf.sweep.SweepResult.open(out)
    assert same_bits(after.dataset, long_whole)
    assert before.dataset["r"].values[done].tobytes() == after.dataset["r"].values[done].tobytes()
