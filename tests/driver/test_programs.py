"""Compiled programs are forgotten when they are many, and never under a run."""

import gc
import threading

import jax
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield._xla import programs

START = tkf.uniform_sphere(4, 3, seed=0)


def run(beta):
    tkf.simulate(tkf.Transformer(tkf.Softmax(beta=beta), tkf.PostLN()), START, 0.2, save_at=2, progress=False)


@pytest.mark.slow
def test_programs_of_functions_of_time_are_not_kept_for_ever(monkeypatch):
    """Each new function takes a handful of programs, which no other run can use."""
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 5)
    programs._count["programs"] = 6
    alive = []
    for k in range(4):
        run(lambda t, k=k: 1.0 + k + 0.1 * t)
        gc.collect()
        alive.append(len(jax.local_devices()[0].client.live_executables()))
    assert max(alive[1:]) <= 20
    assert alive[-1] <= alive[1] + 5  # without a bound each run adds to them


def test_results_do_not_depend_on_it(monkeypatch):
    model = tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PostLN())
    first = tkf.simulate(model, START, 0.2, save_at=2, progress=False).final.x
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 0)
    programs._count["programs"] = 1
    again = [tkf.simulate(model, START, 0.2, save_at=2, progress=False).final.x for _ in range(2)]
    for x in again:
        np.testing.assert_array_equal(np.asarray(x), np.asarray(first))


def test_programs_that_another_thread_runs_are_kept(monkeypatch):
    cleared, inside, leave = [], threading.Event(), threading.Event()
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 0)
    programs._count["programs"] = 1
    long = programs.bounded(lambda: (inside.set(), leave.wait(10)))
    thread = threading.Thread(target=long)
    thread.start()
    inside.wait(10)
    programs.bounded(lambda: None)()
    assert not cleared
    leave.set()
    thread.join()
    assert cleared == [True]
    assert programs._count["programs"] == 0
