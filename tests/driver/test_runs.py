"""Stop rules, blow-up, checkpoints, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import tokenfield as tkf
from tokenfield.driver import SolverError, smooth

SA = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())


START = tkf.uniform_sphere(24, 3, seed=0)


@pytest.mark.parametrize("k", [1, 3])
def test_cluster_rules_stop_when_the_observable_says_so(k):
    traj = tkf.simulate(SA, START, 300.0, stop_when=tkf.at_most_clusters(k), rtol=1e-8, save_at=2)
    assert len(tkf.clusters(traj.final).sizes) == k
    assert traj.events[0].kind == ("one_cluster" if k == 1 else "at_most_3_clusters")
    before = tkf.simulate(SA, START, traj.events[0].time - 1e-4, rtol=1e-8, save_at=2).final
    assert len(tkf.clusters(before).sizes) > k


def test_evenly_spread_tokens_are_not_one_cluster():
    ring = tkf.circle_tokens(2 * np.pi * np.arange(1024) / 1024)
    traj = tkf.simulate(SA, ring, 0.01, stop_when=tkf.one_cluster(), save_at=2)
    assert traj.events == []
    assert (tkf.clusters(ring).count, tkf.clusters(ring).single_tokens) == (0, 1024)
    assert tkf.clusters(ring).loose == 1024


def test_order_rule_is_located_to_rounding():
    traj = tkf.simulate(SA, START, 300.0, stop_when=tkf.order_above(0.9), save_at=2)
    assert abs(tkf.order_parameter(traj.final) - 0.9) < 1e-12


def test_energy_rule_stops_at_the_asked_rate():
    rate = 1e-3
    traj = tkf.simulate(SA, START, 300.0, stop_when=tkf.energy_settled(rate), rtol=1e-10, save_at=2)
    t, h = traj.times[-1], 1e-4
    around = tkf.simulate(SA, START, t + h, rtol=1e-11, atol=1e-13, save_at=[t - h, t + h])
    low, high = (np.log(tkf.normalized_energy(s, SA)) for s in around.states)
    assert abs((high - low) / (2 * h) - rate) < 1e-6


def test_any_function_of_the_state_can_stop_a_run():
    traj = tkf.simulate(SA, START, 300.0, stop_when=lambda s: s.x[0, 0] > 0.5, save_at=2)
    assert abs(float(traj.final.x[0, 0]) - 0.5) < 1e-12


def test_a_rule_that_holds_from_the_start_stops_at_zero():
    traj = tkf.simulate(SA, START, 10.0, stop_when=tkf.order_above(1e-3))
    assert traj.events[0].time == 0.0
    np.testing.assert_allclose(traj.final.x, START.x, atol=1e-15)


@pytest.mark.parametrize("rtol", [1e-3, 1e-6])
def test_blow_up_time_is_right_whatever_the_tolerance(rtol):
    linear = tkf.simulate(tkf.Transformer(tkf.Linear(1.0)), tkf.Tokens([[0.6, 0.8]]), 3.0, rtol=rtol)
    (event,) = linear.events
    assert event.kind == "blow_up"
    assert abs(event.time - 0.5) < 1e-9
    assert np.isfinite(linear.final.x).all()
    assert linear.times[-1] < 3.0


def test_blow_up_of_the_unnormalized_kernel():
    traj = tkf.simulate(tkf.Transformer(tkf.Unnormalized(1.0)), tkf.Tokens([[1.0]]), 3.0)
    exact = quad(lambda x: np.exp(-x * x) / x, 1, 30, epsabs=1e-14)[0]
    assert abs(traj.events[0].time - exact) < 1e-10


@pytest.mark.parametrize("d", [1, 2])
def test_exponential_growth_is_not_taken_for_a_blow_up(d):
    """Free softmax tokens grow like e^t: right far beyond scores of 2^63, then an error that names the cure."""
    model, start = tkf.Transformer(tkf.Softmax(1.0)), tkf.gaussian_tokens(5, d, seed=0)
    traj = tkf.simulate(model, start, 100.0, save_at=[90.0, 100.0])
    assert traj.events == []
    growth = np.linalg.norm(traj.states[1].x, axis=1) / np.linalg.norm(traj.states[0].x, axis=1)
    np.testing.assert_allclose(growth, np.exp(10.0), rtol=1e-4)
    with pytest.raises(tkf.SolverError, match=r"norm=Rescaled\(\)"):
        tkf.simulate(model, start, 1000.0, save_at=2)


def test_one_token_in_a_larger_space():
    traj = tkf.simulate(SA, tkf.Tokens([[0.0, 0.6, 0.8]]), 1.0, save_at=2)
    np.testing.assert_allclose(traj.final.x, [[0.0, 0.6, 0.8]], atol=1e-15)


def test_no_blow_up_is_reported_for_a_jump_of_the_field():
    """Hardmax changes its leader in the middle of the run."""
    start = tkf.Tokens([[1.0, 0.0], [0.0, 1.1], [0.6, 0.5]])
    traj = tkf.simulate(tkf.Transformer(tkf.Hardmax(V=[[0.0, -1.0], [1.0, 0.0]])), start, 3.0)
    assert traj.events == []
    assert traj.times[-1] == 3.0


def test_sinkhorn_that_does_not_converge_is_an_error_not_a_result():
    model = tkf.Transformer(tkf.Sinkhorn(50.0, max_iterations=2), tkf.PostLN())
    with pytest.raises(tkf.SolverError, match="did not converge"):
        tkf.simulate(model, START, 1.0)


def test_too_few_steps_is_an_error_that_says_so():
    with pytest.raises(tkf.SolverError, match="max_steps = 5"):
        tkf.simulate(SA, START, 100.0, max_steps=5)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("kernel", ["Softmax", "L2", "Hardmax", "Linear", "causal"])
def test_a_matrix_that_is_no_longer_a_number_is_an_error(kernel):
    A = lambda t: jnp.sqrt(0.5 - t) * jnp.eye(2)  # noqa: E731
    attention = {
        "Softmax": lambda: tkf.Softmax(A=A),
        "L2": lambda: tkf.L2(Q=A, K=jnp.eye(2)),
        "Hardmax": lambda: tkf.Hardmax(A=A),
        "Linear": lambda: tkf.Linear(A=A),
        "causal": lambda: tkf.Softmax(A=A, causal=True),
    }[kernel]()
    norm = tkf.NoNorm() if kernel == "L2" else tkf.PostLN()
    model, start = tkf.Transformer(attention, norm), tkf.uniform_sphere(4, 2, seed=0)
    with pytest.raises(SolverError, match=r"at t = 0\.5, where the velocity is NaN.*A\(t\)"):
        tkf.simulate(model, start, 1.0, save_at=2)
    with pytest.raises(SolverError, match=r"layer 1 gives NaN.*A\(t\)"):
        tkf.layers(model, start, depth=3)


@pytest.mark.parametrize(("model", "last"), [(tkf.Linear(), 60), (tkf.Unnormalized(1.0), 60)])
def test_layers_that_leave_all_range_end_with_a_blow_up(model, last):
    start = tkf.gaussian_tokens(8, 3, seed=0)
    traj = tkf.layers(tkf.Transformer(model, tkf.NoNorm()), start, depth=last, step=1.0)
    (event,) = traj.events
    assert event.kind == "blow_up"
    assert event.time == len(traj.times) < last
    assert np.isfinite(traj.dataset["x"]).all()
    one_more = tkf.layers(tkf.Transformer(model, tkf.NoNorm()), tkf.Tokens(traj.final.x), depth=1)
    assert one_more.events  # the next layer is the one that blows up
    fewer = tkf.layers(tkf.Transformer(model, tkf.NoNorm()), start, depth=len(traj.times) - 1)
    assert not fewer.events
    np.testing.assert_array_equal(fewer.dataset["x"], traj.dataset["x"])


@pytest.mark.slow
def test_long_runs_check_what_short_ones_do():
    with pytest.raises(ValueError, match="atol must be finite and > 0, got -1"):
        tkf.simulate(SA, START, 600.0, atol=-1)
    with pytest.raises(ValueError, match="max_steps must be"):
        tkf.simulate(SA, START, 600.0, max_steps=-5)
    with pytest.raises(SolverError, match="max_steps = 5 steps were not enough"):
        tkf.simulate(SA, START, 600.0, max_steps=5)
    assert tkf.simulate(SA, START, 600.0, rtol=0).config["atol"] == 1e-9


def test_provenance_is_complete():
    traj = tkf.simulate(SA, START, 1.0, rtol=1e-5, method="dopri5", stop_when=tkf.order_above(0.99))
    config = traj.config
    assert config["model"]["attention"] == {
        "kind": "Softmax",
        "score": {"kind": "Bilinear", "beta": 4.0, "factor": 1.0},
        "value": {"kind": "ValueMap"},
        "causal": False,
        "normalized": True,
    }
    assert (config["rtol"], config["method"], config["stop_when"]["r"]) == (1e-5, "dopri5", 0.99)
    assert {"tokenfield_version", "jax_version", "diffrax_version", "threads", "steps"} <= set(traj.dataset.attrs)
    json.dumps(traj.dataset.attrs)


def test_same_call_same_bits():
    a, b = (tkf.simulate(SA, START, 5.0) for _ in range(2))
    np.testing.assert_array_equal(a.dataset["x"], b.dataset["x"])


def test_layers_with_different_weights():
    rng = np.random.default_rng(0)
    models = [tkf.Transformer(tkf.Softmax(A=rng.standard_normal((3, 3))), tkf.PostLN()) for _ in range(3)]
    together = tkf.layers(models, START).final.x
    state = START
    for model in models:
        state = tkf.layers(model, state, depth=1).final
    np.testing.assert_allclose(together, state.x, atol=1e-15)
    np.testing.assert_array_equal(together, tkf.layers(lambda index: models[index], START, depth=3).final.x)


def test_runs_that_differ_in_the_number_of_save_times_share_a_program():
    y = np.zeros((4, 3))
    assert {len(smooth.padded(np.arange(float(k)), y)) for k in range(1, 9)} == {8}
    times = smooth.padded(np.arange(9.0), y)
    np.testing.assert_array_equal(times, [*range(9), *[np.inf] * 7])
    assert len(smooth.padded(np.zeros(0), y)) == 0
    assert len(smooth.padded(np.arange(3.0), np.zeros(1 << 18))) == 3  # a large buffer has no room to spare
    states = lambda k: tkf.simulate(SA, tkf.uniform_sphere(11, 5, seed=3), 1.0, save_at=k).dataset["x"].values  # noqa: E731
    few, compiled = states(3), []
    listen = lambda event, seconds, **names: compiled.append(names.get("fun_name"))  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    more = states(5)
    jax.monitoring.unregister_event_duration_listener(listen)
    assert "jit(advance_)" not in compiled
    np.testing.assert_array_equal(few, more[::2])
