"""No run of any kind ends early without an event, loses the sphere, or takes steps beyond all counting."""

import math

import equinox as eqx
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver import ending, single
from tokenfield.driver.ending import check_end, check_tokens
from tokenfield.solver.base import FAILED, HIT, STOPPED

SA = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN())
START = tkf.uniform_sphere(4, 3, seed=0)


def noisy(kappa):
    return tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa))


@pytest.mark.parametrize(
    ("kappa", "t1", "dt"),
    [
        (2.0, 1e20, None),
        (1e-300, 1.0, None),
        (1e-320, 1.0, None),
        (2.0, 1.0, 1e-300),
        (2.0, 1.0, 5e-324),
        (2.0, 1e300, 1e-300),
        (2.0, 1e308, 1.0),
        (2.0, 2e6, 1.0),
    ],
)
def test_too_many_steps_are_refused_before_the_first(kappa, t1, dt):
    message = "steps, more than max_steps = 1000000: use a larger dt"
    for kind in (ValueError, tkf.SolverError):
        with pytest.raises(kind, match=message):
            tkf.simulate(noisy(kappa), START, t1, seed=0, dt=dt)
    with pytest.raises(tkf.SolverError, match=message):
        tkf.simulate_many(noisy(kappa), START, t1, seeds=[0, 1], dt=dt)
    with pytest.raises(tkf.SolverError, match="more than"):
        tkf.simulate(noisy(kappa), START, max(t1, 1e12), seed=0, dt=min(dt or 1.0, 1.0), max_steps=2**63 - 1)


def test_the_number_of_steps_is_that_of_the_intervals():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        times, dt = np.sort(rng.uniform(0, 5, 4)), float(rng.uniform(0.01, 2))
        run = tkf.simulate(noisy(2.0), START, 5.0, seed=0, dt=dt, save_at=times)
        expected = [max(1, math.ceil(length / dt - 1e-9)) for length in np.diff([0, *times, 5.0])]
        assert run.dataset.attrs["steps"] == sum(expected)


@pytest.mark.parametrize(
    ("kappa", "t1", "dt"),
    [(2.0, 1e-300, None), (2.0, 1e-320, None), (2.0, 1.0, 1e300), (2.0, 1.0, 5.0), (1e300, 1.0, None)],
)
def test_extreme_times_and_steps_keep_tokens_on_the_sphere(kappa, t1, dt):
    run = tkf.simulate(noisy(kappa), START, t1, seed=0, dt=dt, save_at=[t1])
    assert np.abs(np.linalg.norm(run.dataset["x"].values, axis=-1) - 1).max() < 1e-14
    assert run.times[-1] == t1
    assert run.dataset.attrs["steps"] >= 1


def test_a_time_too_short_for_its_save_times_is_refused():
    with pytest.raises(ValueError, match="is too short for 101 save times"):
        tkf.simulate(noisy(2.0), START, 5e-324, seed=0)
    with pytest.raises(ValueError, match="is too short for 101 save times"):
        tkf.simulate(SA, START, 5e-324)


def test_a_sweep_marks_such_a_cell_as_failed():
    plan = {
        "name": "noisy",
        "run": {"t1": 1.0, "tokens": {"n": 4, "d": 3}},
        "axes": {"kappa": [2.0, 1e-300]},
        "record": {"r": "order_parameter"},
    }
    found = tkf.sweep(plan)
    assert np.isfinite(found.dataset["r"].values).ravel().tolist() == [True, False]
    assert ["steps, more than max_steps" in cell["error"] for cell in found.failed] == [True]


@pytest.fixture
def cut_short(monkeypatch):
    """A time loop that stops by itself, for no reason."""
    plain = single.Single.advance

    def advance(self, problem, record, budget):
        record = plain(self, problem, record, budget)
        return eqx.tree_at(lambda r: r.carry.status, record, record.carry.status * 0 + STOPPED)

    monkeypatch.setattr(single.Single, "advance", advance)


@pytest.mark.parametrize("state", [START, tkf.Equiangular(0.1, 5)])
def test_a_run_that_ends_early_without_an_event_is_an_error(state, cut_short):
    with pytest.raises(tkf.SolverError, match="before t1 = 50 without a reason"):
        tkf.simulate(SA, state, 50.0, save_at=2)


def test_the_checks_by_themselves():
    check_end(1.0, 1.0, [])
    check_end(0.5, 1.0, ["blow_up"])
    for t in (0.5, math.nan):
        with pytest.raises(tkf.SolverError, match="without a reason"):
            check_end(t, 1.0, [])
    short = tkf.Tokens(np.asarray(START.x) * (1 + 1e-8))
    zero = tkf.Tokens(np.zeros((2, 3)))
    for tokens in (short, zero):
        with pytest.raises(tkf.SolverError, match="a token ends with length"):
            check_tokens(SA, tokens)
        check_tokens(tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PreLN()), tokens)
        check_tokens(tkf.Transformer(tkf.Softmax(1.0)), tokens)
    check_tokens(
        tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN(gain=2.0)), tkf.Tokens(2 * 3**0.5 * np.asarray(START.x))
    )
    members = tkf.Equiangular(0.1, 5), np.array([0.5]), 1.0
    with pytest.raises(tkf.SolverError, match="without a reason"):
        ending.check_members([SA], *members, [None])


def test_a_run_goes_on_if_its_last_step_does_not_stop_when_it_is_repeated(monkeypatch):
    """Two programs round differently: the rule may hold at the end of a step in one and not in the other."""
    rule = tkf.order_above(0.9)
    expected = tkf.simulate(SA, START, 20.0, stop_when=rule, save_at=5)
    programs, hits = single.PROGRAMS, []

    def advance(problem, record, budget):
        if hits:
            return programs.advance(problem, record, budget)
        hits.append(float(record.carry.t))
        return eqx.tree_at(lambda r: r.carry.status, record, record.carry.status * 0 + HIT)

    monkeypatch.setattr(single, "PROGRAMS", programs._replace(advance=advance))
    found = tkf.simulate(SA, START, 20.0, stop_when=rule, save_at=5)
    assert hits == [0.0]
    assert found.events[0].time == pytest.approx(expected.events[0].time, rel=1e-13)
    np.testing.assert_allclose(found.final.x, expected.final.x, rtol=0, atol=1e-13)


def test_a_blow_up_long_before_the_end_is_saved_ever_closer():
    model = tkf.Transformer(tkf.Unnormalized(beta=1.0))
    run = tkf.simulate(model, tkf.gaussian_tokens(5, 2, seed=0), 1000.0, save_at=41)
    (event,) = run.events
    assert event.kind == "blow_up"
    before = event.time - run.times[:-1]
    assert len(run.times) >= 40
    assert before[0] == event.time
    np.testing.assert_allclose(before[1:30] / before[:29], before[1] / before[0], rtol=1e-2)  # even in the logarithm
    assert before[-1] < 1e-3 * event.time
    asked = tkf.simulate(model, tkf.gaussian_tokens(5, 2, seed=0), 1000.0, save_at=[0.0, 1000.0])
    assert len(asked.times) == 2  # times that were asked for are kept


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (tkf.circle_tokens([0.0, 1.0]), r"log t = -?\d+\.\d+, where a force is NaN"),
        (tkf.uniform_sphere(60, 2, seed=0), r"t = 0\.\d+, where the velocity is NaN"),
        (
            tkf.CircleDensity.from_function(lambda angle: 1 + 0.3 * np.cos(angle), 16),
            r"t = 0\.\d+, where the velocity is NaN",
        ),
    ],
)
def test_the_message_of_a_failed_step_comes_from_the_method(state, message, monkeypatch):
    plain = single.Single.advance

    def advance(self, problem, record, budget):
        record = plain(self, problem, record, budget)
        return eqx.tree_at(lambda r: r.carry.status, record, record.carry.status * 0 + FAILED)

    monkeypatch.setattr(single.Single, "advance", advance)
    with pytest.raises(tkf.SolverError, match=f"no step succeeds at {message} or infinite"):
        tkf.simulate(SA, state, 1e6 if isinstance(state, tkf.Tokens) else 1.0)
