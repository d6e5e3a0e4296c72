"""Writers that are killed at random moments leave the old or the new, whole, and the next one goes on."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import killed
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield._files import recover
from tokenfield.cli import run_folder
from tokenfield.config.run import to_toml
from tokenfield.driver import checkpoint

KILLS = 4
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def kill(root):
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tests.parent}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, str(tests / "fuzz" / "killed.py"), str(root)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    )

    def kill(kind, seconds):
        """Let a child write for so many seconds, and kill it."""
        process.stdin.write(json.dumps([kind, seconds]) + "\n")
        assert process.stdout.readline().strip() == "True"

    yield kill
    process.stdin.close()
    process.wait()


def run_at(path):
    """The run at a path, which must be whole."""
    traj = tkf.load(path)
    k = traj.config["k"]
    assert traj.dataset["x"].shape == (3, 4, 2 + k % 2)
    assert (traj.dataset["x"].values == k).all()
    return k


def saved(folder, kill):
    run_at(folder / "run.zarr")
    killed.made_run(7).save(folder / "run.zarr", overwrite=True)
    assert run_at(folder / "run.zarr") == 7
    return ["run.zarr"]


def kept(folder, kill):
    k, (numbers, number) = checkpoint.read(folder / "run.npz", killed.IDENTITY)
    assert (numbers == k).all()
    assert number == k
    recover(folder / "run.npz")
    return ["run.npz"]


def in_a_folder(folder, kill):
    """A finished run is in the folder, or a new one is under way and the old one is kept aside."""
    out = folder / "out"
    names = [run_folder.DATASET, f".old-{run_folder.DATASET}"]
    whole = [out / part / name for part in (".", run_folder.ASIDE, run_folder.MOVING) for name in names]
    assert [run_at(place) for place in whole if place.exists()]
    number = random.Random(str(os.listdir(out))).randrange(3)
    kill("once", number)
    assert run_at(out / run_folder.DATASET) == number
    assert (out / run_folder.CONFIG).read_text() == to_toml(killed.config_of(number))
    assert sorted(os.listdir(out)) == sorted([run_folder.DATASET, run_folder.CONFIG, run_folder.FIGURE])
    return ["out"]


def swept(folder, kill):
    found = tkf.sweep.SweepResult.open(folder)
    np.testing.assert_array_equal(found.dataset["beta"], found.plan.axes["beta"].expanded())
    assert found.counts == {"cells": 6, "done": 0, "failed": 0}
    plan = found.plan.model_copy(update={"about": "other"})
    for name in ("sweep.zarr", "plan.json"):
        recover(folder / name)  # as `sweep` does
    killed.create(plan, killed.Cells(plan), folder)
    return ["plan.json", "sweep.zarr"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "check"), [("save", saved), ("keep", kept), ("folder", in_a_folder), ("sweep", swept)]
)
def test_a_kill_at_any_moment_loses_nothing(kind, check, kill, root, budget):
    folder, chance = root / kind, random.Random(0)
    folder.mkdir()
    kill(*(("once", 0) if kind == "folder" else (kind, 0.5)))
    for _ in range(budget(KILLS)):
        check(folder, kill)
        kill(kind, chance.uniform(0.01, 0.25))
    left = check(folder, kill)
    assert sorted(os.listdir(folder)) == left
