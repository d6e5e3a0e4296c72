"""A sweep that is killed 25 times in a row, at random moments, ends with the bits of one that never was."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sweeps import same_bits

import tokenfield as tkf
from tokenfield.sweep.store import DONE
from tokenfield.sweep.stored import holds_sweep

KILLS = 25
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
PLAN = {
    "run": {"depth": 2, "tokens": {"n": 6, "d": 3}},
    "axes": {"beta": {"linspace": [0.5, 8.0, 40]}},
    "repeats": 4,
    "record": {"r": "order_parameter", "c": {"observable": "mean_cosine", "times": [0.0, 1.0, 2.0]}},
}

# Children are forked from a process that has loaded all it needs but has not started XLA, which spares them the start.
DRIVER = """
import json, os, signal, sys, time
import xarray, zarr
import tokenfield.observables, tokenfield.driver.discrete, tokenfield.states
from tokenfield.sweep.run import sweep

plan, folder = json.loads(sys.argv[1]), sys.argv[2]
seal, status = (os.path.join(folder, "sweep.zarr", *path) for path in (["zarr.json"], ["status", "c", "0", "0"]))
times = lambda: [os.stat(path).st_mtime_ns if os.path.exists(path) else 0 for path in (seal, status)]
changed = lambda: (lambda laid_out, written: written if 0 < laid_out < written else 0)(*times())
for line in sys.stdin:
    begun, wait = json.loads(line)
    before, pid = changed(), os.fork()
    if pid == 0:
        try:
            sweep(plan, folder, resume=True)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 60
    while begun and changed() == before and time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(wait)
    os.kill(pid, signal.SIGKILL)
    print(os.WIFSIGNALED(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "out"
    command = [sys.executable, "-c", DRIVER, json.dumps(PLAN), str(folder)]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=root)

    def kill(begun, wait):
        """Start the sweep, wait until it has written something if `begun`, and so many seconds more, and kill it."""
        process.stdin.write(json.dumps([begun, wait]) + "\n")
        return process.stdout.readline().strip() == "True"

    yield folder, kill
    process.stdin.close()
    process.wait()


@pytest.mark.slow
def test_killed_25_times(driver):
    folder, kill = driver
    whole = tkf.sweep(PLAN).dataset
    chance = random.Random(0)
    finished, progress = np.zeros(whole["status"].shape, bool), 0
    for k in range(KILLS):
        early = k < 5  # at any moment, such as while the folder is laid out; later ones while cells are written
        assert kill(not early, chance.uniform(0, 0.6 if early else 0.04))
        if not holds_sweep(folder):
            continue
        found = tkf.sweep.SweepResult.open(folder).dataset
        done = found["status"].values == DONE
        assert done[finished].all()  # none is ever lost
        progress += bool((done & ~finished).any())
        finished = done
        for name in ("r", "c", "end_time", "id", "seed_used"):  # nor is any half written
            assert found[name].values[done].tobytes() == whole[name].values[done].tobytes()
    assert progress >= KILLS - 5
    assert not finished.all()
    found = tkf.sweep(PLAN, folder, resume=True)
    assert same_bits(found.dataset, whole)
    assert same_bits(tkf.sweep.SweepResult.open(folder).dataset, whole)
    assert json.loads(found.dataset.attrs["plan"])["repeats"] == 4
