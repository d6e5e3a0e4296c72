"""Loops that write without end, to be killed.

`python killed.py FOLDER` reads lines `[kind, seconds]`: a child writes until something is there, then for so many seconds, and
is killed. `["once", k]` does the k-th run in a folder to its end. Children are forked, which spares them the start; nothing
here starts JAX.
"""

import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import xarray
import zarr.codecs  # noqa: F401

from tokenfield.cli import run_folder
from tokenfield.config.run import read
from tokenfield.driver import checkpoint
from tokenfield.results.trajectory import Trajectory
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import Plan
from tokenfield.sweep.store import create

IDENTITY = "0" * 64
PLAN = {"run": {"t1": 1.0, "tokens": {"n": 4, "d": 3}}, "record": {"r": "order_parameter"}, "repeats": 3}


def made_run(k):
    """A run whose numbers, attributes and shape all tell k."""
    x = np.full((3, 4, 2 + k % 2), float(k))
    data = {"x": (("time", "token", "coordinate"), x), "weights": ("token", np.full(4, 0.25))}
    attributes = {"events": "[]", "config": json.dumps({"k": k}), "log_time_unit": 0.0, "state": "Tokens"}
    return Trajectory(xarray.Dataset(data, {"time": np.arange(3.0)}, attributes))


def save(folder):
    for k in itertools.count():
        made_run(k).save(folder / "run.zarr", overwrite=True)


def keep(folder):
    for k in itertools.count():
        checkpoint.write(folder / "run.npz", IDENTITY, k, [np.full(2000, float(k)), np.array(k)])


def config_of(k):
    return read(None, {"attention.beta": 1.0 + k % 3, "t1": 1.0})


def run_once(folder, k):
    """A run in a folder, with everything but the run itself and its pictures."""

    class Picture:
        def savefig(self, path, **options):
            path.write_text("drawn")

    def run(config, model, state, rule, folder, overwrite):
        (folder / run_folder.CHECKPOINT).write_text("unfinished")
        found = made_run(k % 3)
        found.plot = Picture
        return found

    run_folder.build.model = run_folder.build.tokens = run_folder.build.stop_rule = lambda *_: None
    run_folder._run = run
    sys.modules["tokenfield.report"].write_report = lambda *_, **__: None
    sys.modules["tokenfield.report.summary"].summary = lambda traj: {}
    run_folder._print = lambda *_: None
    run_folder.execute(
        config_of(k), folder / "out", overwrite=True, animation=run_folder.Animation("none"), as_json=False
    )


def run_in_a_folder(folder):
    for k in itertools.count():
        run_once(folder, k)


def sweep(folder):
    for k in itertools.count():
        plan = Plan(axes={"beta": [1.0, 2.0 + k % 2]}, **PLAN)
        create(plan, Cells(plan), folder)


KINDS = {"save": save, "keep": keep, "folder": run_in_a_folder, "sweep": sweep}


def main():
    import tokenfield.report.summary  # noqa: F401

    root = Path(sys.argv[1])
    for line in sys.stdin:
        kind, seconds = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                if kind == "once":
                    run_once(root / "folder", seconds)
                    os._exit(0)
                KINDS[kind](root / kind)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        if kind != "once":
            deadline = time.monotonic() + 60
            while not list((root / kind).glob("[!.]*")) and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        print(os.waitpid(pid, 0)[1] == (0 if kind == "once" else signal.SIGKILL), flush=True)


if __name__ == "__main__":
    main()
