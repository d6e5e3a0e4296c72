"""Runs need no system call that macOS or Windows lacks."""

import math
import os
import re
from pathlib import Path

import pytest

import tokenfield as tkf
from tokenfield import _files, _memory
from tokenfield._cpus import available_cpus

PACKAGE = Path(tkf.__file__).parent
MODEL, TOKENS = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN()), tkf.uniform_sphere(4, 3, seed=0)


@pytest.fixture
def without_affinity(monkeypatch):
    """As on macOS and Windows, with Python 3.11."""
    for name in ("sched_getaffinity", "process_cpu_count"):
        monkeypatch.delattr(os, name, raising=False)


@pytest.mark.usefixtures("without_affinity")
def test_runs_do_not_ask_for_the_affinity():
    assert tkf.simulate(MODEL, TOKENS, 0.5).dataset.attrs["threads"] >= 1
    plan = {"run": {"t1": 0.5, "tokens": {"n": 4, "d": 3}}, "axes": {"beta": [1.0]}, "record": {"r": "order_parameter"}}
    assert tkf.sweep.estimate(tkf.sweep.read_plan(plan), timed=False).runs > 0
    assert tkf.sweep(plan).dataset["status"].values.tolist() == [[1]]


def test_processors_are_counted_on_every_system(monkeypatch):
    assert 1 <= available_cpus() <= os.cpu_count()
    monkeypatch.setattr(os, "process_cpu_count", lambda: 3, raising=False)
    assert available_cpus() == 3
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5}, raising=False)
    assert available_cpus() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert available_cpus() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cpus() == 1


def test_memory_is_known_or_taken_for_infinite(monkeypatch):
    def missing():
        raise AttributeError("not on this system")

    linux = _memory.free_memory()
    assert 1e6 < linux < 1e16
    monkeypatch.setattr(_memory, "_linux", missing)
    assert 1e6 < _memory.free_memory() < 1e16
    monkeypatch.setattr(_memory, "_windows", missing)
    monkeypatch.setattr(_memory, "_posix", missing)
    assert math.isinf(_memory.free_memory())


def test_a_file_that_is_open_for_a_moment_is_waited_for(monkeypatch, tmp_path):
    (tmp_path / "old").write_text("text")
    refusals = [PermissionError(13, "in use"), PermissionError(13, "in use")]

    def move(old, new):
        if refusals:
            raise refusals.pop()
        os.replace(old, new)

    monkeypatch.setattr(_files, "PATIENCE", 10.0)
    _files.rename(tmp_path / "old", tmp_path / "new", move)
    assert (tmp_path / "new").read_text() == "text"
    monkeypatch.setattr(_files, "PATIENCE", 0.0)
    refusals.append(PermissionError(13, "in use"))
    with pytest.raises(PermissionError):
        _files.rename(tmp_path / "new", tmp_path / "old", move)


# Calls that some system does not have, and the files in which they are guarded.
GUARDED = {
    r"sched_getaffinity": {"_cpus.py"},
    r"os\.sysconf": {"_memory.py"},
    r"/proc/": {"_memory.py"},
    r"\bfcntl\b": {"_lock.py"},
    r"^import resource|resource\.getrusage": set(),
    r"os\.fork\b|os\.killpg|SIGKILL|SIGALRM|os\.getuid|os\.uname": set(),
    r"os\.kill\b": {"cli/interrupts.py"},
    r"os\.(rename|replace)\b": {"_files.py"},
}


@pytest.mark.parametrize("call", GUARDED)
def test_calls_of_one_system_are_in_one_place(call):
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(call, path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == GUARDED[call]
