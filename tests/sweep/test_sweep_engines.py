"""The engine changes no bit, and a worker that dies loses nothing.

Some workers here meet an accident, by a hook on opening the file that a cell starts from: at `die.npy` they die each time,
at `slow.npy` the first of them sleeps until it is killed.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sweeps import PLAN, same_bits

import tokenfield as tkf
from tokenfield.sweep.engines import dask, processes
from tokenfield.sweep.plan import read_plan
from tokenfield.sweep.run_batch import worker_environment
from tokenfield.sweep.store import DONE, FAILED

HOOK = """
import os, sys, time

def accident(event, arguments):
    path = str(arguments[0]) if event == "open" else ""
    if path.endswith("die.npy"):
        os._exit(1)
    if path.endswith("slow.npy"):
        with open(path + ".pids", "a") as file:
            print(os.getpid(), file=file)
        try:
            os.close(os.open(path + ".once", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        time.sleep(300)

sys.addaudithook(accident)
"""


@pytest.fixture(scope="module")
def whole():
    return tkf.sweep(PLAN).dataset


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    """Processes that are started meanwhile meet accidents."""
    folder = tmp_path_factory.mktemp("hook")
    (folder / "sitecustomize.py").write_text(HOOK)
    root, before = Path(__file__).parents[2], os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(root), before])
    yield
    os.environ["PYTHONPATH"] = before


def starts(folder, names):
    """A plan whose cells start from files."""
    for seed, name in enumerate(names):
        np.save(folder / name, np.asarray(tkf.uniform_sphere(6, 3, seed).x))
    return PLAN | {
        "run": PLAN["run"] | {"tokens": {"kind": "file"}},
        "axes": {"tokens.file": [str(folder / name) for name in names], "beta": [1.0, 4.0, 9.0]},
        "repeats": 1,
    }


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def kill_the_sleeper(slow, when=lambda: True):
    """Kill the process that sleeps at a file, in the background."""
    pids = Path(f"{slow}.pids")

    def kill():
        wait_for(lambda: pids.exists() and pids.read_text().endswith("\n") and when())
        os.kill(
            int(pids.read_text().split()[0]), getattr(signal, "SIGKILL", signal.SIGTERM)
        )  # on Windows any signal kills

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def assert_run_again(slow):
    first, *others = Path(f"{slow}.pids").read_text().split()
    assert others
    assert first not in others


def assert_only_the_deadly_batch_failed(found, plan, die):
    """All other cells are as if they had been run in this process, where nothing happens."""
    status = found.dataset["status"].values[..., 0]
    good = [k for k in range(len(status)) if k != die]
    assert (status[die] == FAILED).all()
    assert (status[good] == DONE).all()
    assert "the worker died each time" in found.failed[0]["error"]
    harmless = tkf.sweep(plan).dataset
    assert same_bits(found.dataset.isel({"tokens.file": good}), harmless.isel({"tokens.file": good}))
    return harmless


@pytest.mark.slow
def test_processes_of_which_some_die(hooked, tmp_path, monkeypatch):
    """The batch at `slow.npy` is lost with the one that dies beside it, and is run again."""
    monkeypatch.setattr(processes, "TRIES", 1)
    plan = starts(tmp_path, ["slow.npy", "a.npy", "die.npy", "b.npy"])
    found = tkf.sweep(plan, tmp_path / "out", workers=2)
    assert_run_again(tmp_path / "slow.npy")
    harmless = assert_only_the_deadly_batch_failed(found, plan, 2)
    again = tkf.sweep(plan, tmp_path / "out", resume=True)
    assert same_bits(again.dataset, harmless)
    assert same_bits(tkf.sweep.SweepResult.open(tmp_path / "out").dataset, harmless)


@pytest.mark.slow
def test_local_dask_of_which_some_die(hooked, tmp_path):
    pytest.importorskip("distributed")
    import dask as library

    plan = starts(tmp_path, ["a.npy", "die.npy", "b.npy"])
    with library.config.set({"distributed.scheduler.allowed-failures": 0}):
        found = tkf.sweep(plan, dask_workers=2)
    assert_only_the_deadly_batch_failed(found, plan, 1)


class Cluster:
    """`dask scheduler` and workers, as processes of their own."""

    def __init__(self, folder):
        self.folder, self.file, self.processes = folder, folder / "scheduler.json", []
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.file))
        wait_for(lambda: self.file.exists() and "tcp://" in self.file.read_text())
        self.address = next(part for part in self.file.read_text().split('"') if part.startswith("tcp://"))

    def _start(self, *arguments):
        command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
        log = (self.folder / f"{len(self.processes)}.log").open("w")
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder))

    def add_workers(self, count):
        from distributed import Client

        for _ in range(count):
            self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def kill(self, which=slice(None)):
        for process in self.processes[which]:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path, hooked):
    pytest.importorskip("distributed")
    made = Cluster(tmp_path)
    yield made
    made.kill()


@pytest.mark.slow
def test_a_real_cluster_whose_worker_is_killed(whole, cluster, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=rf"--scheduler: .* {cluster.address} has no workers: start some with"):
        tkf.sweep(PLAN, scheduler=cluster.address)
    cluster.add_workers(2)
    assert same_bits(tkf.sweep(PLAN, scheduler=cluster.address).dataset, whole)

    plan = starts(tmp_path, ["a.npy", "slow.npy", "b.npy", "c.npy"])
    thread = kill_the_sleeper(tmp_path / "slow.npy")
    found = tkf.sweep(plan, scheduler=cluster.address)
    thread.join()
    assert_run_again(tmp_path / "slow.npy")
    assert sum(process.poll() is None for process in cluster.processes) == 2
    assert same_bits(found.dataset, tkf.sweep(plan).dataset)

    # The last worker dies too: finished cells are saved.
    monkeypatch.setattr(dask, "PATIENCE", 0.5)
    monkeypatch.setattr(dask, "LOOK", 0.2)
    (tmp_path / "slow.npy.once").unlink()
    (tmp_path / "slow.npy.pids").unlink()
    done = lambda: tkf.sweep.SweepResult.open(tmp_path / "out").counts["done"]  # noqa: E731
    thread = kill_the_sleeper(tmp_path / "slow.npy", when=done)
    with pytest.raises(
        ValueError, match=r"--scheduler: there have been no workers for 0.5 s; finished cells are saved"
    ):
        tkf.sweep(plan, tmp_path / "out", scheduler=cluster.address)
    thread.join()
    assert 0 < done() < 12
    assert same_bits(tkf.sweep(plan, tmp_path / "out", resume=True).dataset, found.dataset)


class Finished:
    """A batch that a worker has run, and lost before it was asked for it; another one hands it over at the third time."""

    def __init__(self):
        self.asked = 0

    def result(self, timeout):
        self.asked += 1
        if self.asked < 3:
            time.sleep(0.1)
            raise TimeoutError
        return ["found"]


class Client:
    status = "running"

    def __init__(self, workers):
        self.workers = workers

    def scheduler_info(self):
        return {"workers": self.workers}


def test_a_worker_that_dies_before_it_hands_over_what_it_has_found(monkeypatch):
    pytest.importorskip("distributed")
    assert dask._fetched(Client(["another"]), Finished()) == ["found"]
    monkeypatch.setattr(dask, "PATIENCE", 0.05)
    with pytest.raises(ValueError, match=r"there have been no workers for 0.05 s; finished cells are saved"):
        dask._fetched(Client([]), Finished())


def test_a_scheduler_that_does_not_answer(monkeypatch, tmp_path):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask, "TIMEOUT", 0.5)
    with pytest.raises(ValueError, match=r"--scheduler: no Dask scheduler answers at tcp://127.0.0.1:9: "):
        tkf.sweep(PLAN, tmp_path / "out", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(
        ValueError, match=r"--scheduler must be an address such as tcp://127.0.0.1:8786 .*, got 'nonsense://x'"
    ):
        tkf.sweep(PLAN, tmp_path / "other", scheduler="nonsense://x")


def test_only_one_engine():
    with pytest.raises(ValueError, match="give one of workers, scheduler and dask_workers"):
        tkf.sweep(PLAN, workers=2, dask_workers=2)
    with pytest.raises(ValueError, match="workers must be"):
        tkf.sweep(PLAN, workers=0)


def test_dask_that_is_not_installed_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r'Dask is not installed: pip install -e "\.\[dask\]"'):
        tkf.sweep(PLAN, dask_workers=1)


def test_workers_have_one_thread_where_all_programs_have_one():
    def one(**overrides):
        environment = worker_environment(read_plan(PLAN, overrides).model_dump_json(exclude_none=True))
        assert environment in ({"NPROC": "1"}, {})
        return environment != {}

    assert one()
    assert not one(**{"run.tokens.n": 300})  # by itself, in all threads
    noisy = {"run.noise": {"kappa": 0.1}, "run.dt": 0.01, "run.stop_when": None, "record": {"r": "order_parameter"}}
    assert not one(**noisy)
