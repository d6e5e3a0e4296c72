"""Runs that are watched, against `simulate`."""

import math

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.explorer.run import FRAMES, RATE, LiveRun, Pace
from tokenfield.explorer.setup import patched, refuse_names, set_up

SMALL = {"attention": {"kind": "softmax", "beta": 4.0}, "norm": {"kind": "post"}, "tokens": {"n": 6, "d": 2, "seed": 3}}
MODEL = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
START = tkf.uniform_sphere(6, 2, seed=3)


@pytest.fixture
def run():
    runs = []

    def begin(data):
        runs.append(LiveRun(data))
        return runs[-1]

    yield begin
    for each in runs:
        each.close()


def test_frames_are_the_states_of_simulate(run):
    live, times = run(SMALL), np.arange(2 * FRAMES + 1) / RATE
    live.set_pace(Pace(2.0))
    assert live.frame().time == 0
    np.testing.assert_array_equal(live.frame().values, np.asarray(START.x).ravel())
    found = [live.next() for _ in range(2 * FRAMES)]
    np.testing.assert_allclose([shot.time for shot in found], 2 * times[1:], rtol=1e-12)
    traj = tkf.simulate(MODEL, START, float(2 * times[FRAMES]), save_at=2 * times[: FRAMES + 1])
    for shot, state in zip(found[:FRAMES], traj.states[1:], strict=True):
        np.testing.assert_array_equal(shot.state.x, state.x)  # the first window is one call of simulate
    whole = tkf.simulate(MODEL, START, float(2 * times[-1]), save_at=2 * times, rtol=1e-9, atol=1e-12)
    for shot, state in zip(found, whole.states[1:], strict=True):
        np.testing.assert_allclose(shot.state.x, state.x, atol=2e-5)
    frame = live.frame()
    assert frame.energy == pytest.approx(float(tkf.normalized_energy(live.shot.state, 4.0)))
    assert frame.order == pytest.approx(float(tkf.order_parameter(live.shot.state)))
    assert frame.clusters == len(tkf.clusters(live.shot.state).sizes)


def test_rules_for_positions_are_those_of_the_page():
    head = {"kind": "softmax", "beta": 2.0, "causal": True, "positions": {"kind": "alibi", "slope": 3.0}}
    found = set_up({"attention": head, "tokens": {"n": 5, "d": 3}}).model.attention
    assert [(type(each), float(each.slope)) for each in found.positions] == [(tkf.ALiBi, 3.0)]


def test_a_change_begins_at_the_state_that_is_shown(run):
    live = run(SMALL)
    for _ in range(3):
        live.next()
    shown = live.shot
    live.set({"beta": 1.0})
    assert live.shot is shown  # what was computed ahead is not
    after = live.next()
    assert after.time == pytest.approx(4 / RATE)
    weaker = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
    wanted = tkf.simulate(weaker, shown.state, 1 / RATE, save_at=2).final
    np.testing.assert_allclose(after.state.x, wanted.x, atol=1e-7)
    live.place([[1.0, 0.0], [0.0, 1.0]])
    assert live.shot.state.n == 2
    assert live.shot.time == after.time
    with pytest.raises(ValueError, match="x must be a list of points, got None"):
        live.place(None)
    with pytest.raises(ValueError, match="beta"):
        live.set({"beta": "large"})
    assert live.setup.config.attention.beta == 1.0


def test_a_run_ends_at_t1_and_stays_there(run):
    live = run({**SMALL, "t1": 0.7})
    shots = [live.next() for _ in range(2 * FRAMES)]
    assert shots[-1].time == pytest.approx(0.7)
    assert shots[-1].end == "t1"
    assert [shot.end for shot in shots[:-1]] == [None] * (2 * FRAMES - 1)
    assert live.next() is shots[-1]


def test_log_time_follows_clusters_through_their_waits(run):
    data = {**SMALL, "attention": {"beta": 300.0}, "tokens": {"x": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.01]]}}
    live = run(data)
    assert live.waits
    live.set_pace(Pace(5.0, log=True))
    shots = [live.next()]
    while shots[-1].end is None:
        shots.append(live.next())
    times = [shot.log_time for shot in shots]
    assert shots[-1].end == "one cluster"
    assert (np.diff(times) >= 0).all()
    assert 480 < times[-1] < 520  # the last wait is e^{beta (1 - cos 135°)} long
    traj = tkf.simulate(set_up(data).model, set_up(data).state, math.inf, method="coarsen")
    assert times[-1] == pytest.approx(traj.log_times[-1], abs=1e-6)


def test_rules_that_change_with_time_and_layers_are_computed_from_the_start(run):
    live = run({**SMALL, "norm": {"kind": "sqrt"}, "t1": 1.5})
    shots = [live.next() for _ in range(300)]
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.SqrtScaling())
    wanted = tkf.simulate(model, START, 1.5, save_at=301)
    np.testing.assert_array_equal(shots[149].state.x, wanted.state(150).x)
    assert shots[-1].end == "t1"

    live = run({**SMALL, "depth": 3})
    wanted = tkf.layers(MODEL, START, 3)
    for k in range(3):
        np.testing.assert_array_equal(live.next().state.x, wanted.state(k + 1).x)
    assert live.shot.end == "depth"


def test_noise_goes_on_from_window_to_window(run):
    live = run({**SMALL, "noise": {"kappa": 2.0}})
    shots = [live.next() for _ in range(FRAMES + 1)]
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(2.0))
    times = np.arange(FRAMES + 1) / RATE
    wanted = tkf.simulate(model, START, float(times[-1]), save_at=times, seed=0)
    np.testing.assert_array_equal(shots[FRAMES - 1].state.x, wanted.final.x)
    step = np.linalg.norm(shots[FRAMES].state.x - shots[FRAMES - 1].state.x, axis=1)
    assert (step > 0).all()
    assert (step < 1.5).all()  # sqrt(2 dt/kappa) = 0.18


def test_configs_of_the_page():
    assert set_up({"attention": {"kind": "hardmax", "beta": 9, "A": None, "V": None}, "noise": None}).model is not None
    assert set_up({"noise": {"kappa": None}}).model.noise is None
    own = set_up({"tokens": {"x": [[3.0, 4.0], [1.0, 0.0]], "weights": [0.5, 0.5]}, "norm": {"kind": "none"}}).state
    np.testing.assert_array_equal(own.x, [[3, 4], [1, 0]])
    assert patched({"attention": {"beta": 1.0}}, {"causal": True, "kappa": 3.0}) == {
        "attention": {"beta": 1.0, "causal": True},
        "noise": {"kappa": 3.0},
    }
    assert patched({"attention": {"beta": 1.0, "A": [[1.0]]}}, {"attention": {"beta": 2.0}}) == {
        "attention": {"beta": 2.0}
    }
    assert patched({"norm": {"kind": "mix", "tau": 2.0}}, {"norm": "post"}) == {"norm": {"kind": "post"}}


def taken(data):
    """Take the config of a message."""
    refuse_names(data)
    return set_up(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"tokens": {"kind": "file", "file": "/etc/passwd"}}, "tokens.kind: must be the name of a built-in kind"),
        ({"tokens": {"file": "/etc/passwd"}}, "tokens.file: must be the name of a built-in kind"),
        ({"attention": {"kind": "os:system"}}, "attention.kind: must be the name of a built-in kind"),
        ({"attention": {"A": "a.npy"}}, "attention.A: must be the name of a built-in kind"),
        ({"attention": {"heads": [{"kind": "../x"}]}}, "attention.heads.kind: must be the name of a built-in kind"),
        ({"attention": {"bet": 1.0}}, "unknown key attention.bet"),
        ({"tokens": {"n": 200_000}}, "at most 100000 tokens"),
        ({"tokens": {"n": 30_000, "d": 8}}, "tokens.n must be at most 20000 for this model"),
        ({"tokens": {"x": "abc"}}, "tokens.x: the page may name|tokens.x must be a list of points"),
        ({"tokens": {"x": []}}, "tokens.x must be a list of points"),
        ({"tokens": {"x": [[1.0], [1.0, 2.0]]}}, "x must be a number or an array"),
        ({"state": {"kind": "gaussian", "size": 1}}, "gaussian takes no size"),
        ({"state": {"kind": "circle_density", "modes": 10**9}}, "state.modes must be a whole number of at most 512"),
        ({"state": {"kind": "equiangular", "n": 10**9}}, "state.n must be a whole number of at most 256"),
        ({"state": {"kind": "zonal_density", "d": 10**9}}, "state.d must be a whole number of at most 64"),
        ({"context": {"n": 10**9}}, "at most 100000 tokens"),
        ({"state": 3}, "state: Input should be a valid dictionary"),
        ({"state": {"kind": "cloud"}}, "state.kind: must be one of circle_density, equiangular"),
    ],
)
def test_bad_configs_are_refused_in_one_line(data, message):
    with pytest.raises(ValueError, match=message) as caught:
        taken(data)
    assert "\n" not in str(caught.value)


def test_names_are_allowed_anywhere():
    refuse_names({"attention": {"kind": "softmax", "heads": [{"kind": "l2"}]}, "method": "tsit5"})
