"""A cell that cannot be run is marked with its error, and changes no bit of any other."""

import numpy as np
import pytest
from sweeps import BETAS, PLAN, changed, same_bits

import tokenfield as tkf
from tokenfield.config.observed import Observed
from tokenfield.sweep.store import DONE, FAILED


@pytest.fixture(scope="module")
def whole():
    return tkf.sweep(PLAN).dataset


def assert_others_are_as_without(found, whole, bad, words):
    """`bad` marks the cells that must have failed."""
    status = found.dataset["status"].values
    assert (status == np.where(bad, FAILED, DONE)).all()
    assert all(words in cell["error"] for cell in found.failed)
    assert len(found.failed) == bad.sum() == found.counts["failed"]
    for name in ("r", "above", "aligned", "end_time"):
        mine, theirs = found.dataset[name].values, whole[name].values
        assert mine[~bad].tobytes() == theirs[~bad].tobytes(), name
        assert np.isnan(mine[bad]).all(), name


def rows(*which):
    bad = np.zeros((3, 4), bool)
    bad[list(which)] = True
    return bad


def test_a_model_that_is_not_a_number(whole):
    found = tkf.sweep(changed(axes={"beta": [BETAS[0], np.nan, BETAS[2]]}))
    assert_others_are_as_without(found, whole, rows(1), "ValueError: beta must be finite, got nan")


def test_a_model_that_cannot_be_built(whole, monkeypatch):
    from tokenfield.config import build

    real = build.model

    def model(config):
        if config.attention.beta == BETAS[1]:
            raise MemoryError("no room for this one\nwith a second line")
        return real(config)

    monkeypatch.setattr(build, "model", model)
    assert_others_are_as_without(tkf.sweep(PLAN), whole, rows(1), "MemoryError: no room for this one")


def test_a_start_that_is_not_a_number(whole, monkeypatch):
    """Of one cell alone, in the middle of a batch."""
    from tokenfield.config import build

    real, seed = build.tokens, int(whole["seed_used"].values[1, 2])

    def tokens(config, own, like=None):
        found = real(config, own, like)
        return tkf.Tokens(np.full_like(found.x, np.nan)) if own == seed else found

    monkeypatch.setattr(build, "tokens", tokens)
    bad = np.zeros((3, 4), bool)
    bad[1, 2] = True
    assert_others_are_as_without(tkf.sweep(PLAN), whole, bad, "ValueError")


@pytest.mark.slow
def test_a_bad_start_among_members_that_take_turns(monkeypatch):
    """48 cells, 16 of them at a time: who sits beside whom is another without the bad one, and no bit changes."""
    from tokenfield.config import build

    plan = changed(repeats=16, batch=48)
    good = tkf.sweep(plan).dataset
    real, seed = build.tokens, int(good["seed_used"].values[0, 5])

    def tokens(config, own, like=None):
        if own == seed:
            raise FloatingPointError("no such start")
        return real(config, own, like)

    monkeypatch.setattr(build, "tokens", tokens)
    bad = np.zeros((3, 16), bool)
    bad[0, 5] = True
    assert_others_are_as_without(tkf.sweep(plan), good, bad, "FloatingPointError: no such start")


def test_a_quantity_that_cannot_be_measured(whole, monkeypatch):
    def measure(self, state, model):
        if float(model.attention.score.beta) != BETAS[0]:
            raise FloatingPointError("lost all digits")
        return 1.0

    monkeypatch.setattr(Observed, "measure", measure)
    found = tkf.sweep(changed(record__c="clusters"))
    assert_others_are_as_without(found, whole, rows(1, 2), "FloatingPointError: lost all digits")
    assert (found.dataset["c"].values[0] == 1).all()


@pytest.mark.slow
def test_a_run_that_the_solver_gives_up():
    """One member of a batch leaves the range of double precision: its neighbors are not bothered."""
    base = {
        "run": {"t1": 1.0, "tokens": {"n": 6, "d": 3, "kind": "gaussian"}, "norm": {"kind": "none"}},
        "record": {"length": "mean_length"},
        "seeds": "shared",
    }
    axes = {"beta": [0.5, 1.0], "attention.V": [-1.0, 1e4, -2.0]}
    found = tkf.sweep({**base, "axes": axes})
    status = found.dataset["status"].values[..., 0]
    assert (status == [[DONE, FAILED, DONE]] * 2).all()
    assert "SolverError: no step succeeds" in found.failed[0]["error"]
    good = tkf.sweep({**base, "axes": axes | {"attention.V": [-1.0, -1.5, -2.0]}})
    for k in (0, 2):
        mine, theirs = (each.dataset["length"].values[:, k].tobytes() for each in (found, good))
        assert mine == theirs


def test_a_failed_cell_is_retried_on_resume_or_left(whole, tmp_path, monkeypatch):
    from tokenfield.config import build

    real = build.model
    with monkeypatch.context() as patch:
        patch.setattr(build, "model", lambda config: real(config) if config.attention.beta != 4.0 else 1 / 0)
        found = tkf.sweep(PLAN, tmp_path / "out")
        assert_others_are_as_without(found, whole, rows(1), "ZeroDivisionError")
        again = tkf.sweep(PLAN, tmp_path / "out", resume=True)
        assert_others_are_as_without(again, whole, rows(1), "ZeroDivisionError")
    left = tkf.sweep(PLAN, tmp_path / "out", resume=True, retry=False)
    assert_others_are_as_without(left, whole, rows(1), "ZeroDivisionError")
    retried = tkf.sweep(PLAN, tmp_path / "out", resume=True)
    assert same_bits(retried.dataset, whole)
    assert same_bits(tkf.sweep.SweepResult.open(tmp_path / "out").dataset, whole)
