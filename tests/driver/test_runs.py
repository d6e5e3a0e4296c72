"""Stop rules, blow-up, checkpoints, and what is refused."""

import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import tokenfield as tkf
from tokenfield.driver import SolverError, record, smooth
from tokenfield.driver.checkpoint import CheckpointError
from tokenfield.flows.tokens import check

SA = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())
START = tkf.uniform_sphere(24, 3, seed=0)


@pytest.mark.parametrize("k", [1, 3])
def test_cluster_rules_stop_when_the_observable_says_so(k):
    traj = tkf.simulate(SA, START, 300.0, stop_when=tkf.at_most_clusters(k), rtol=1e-8, save_at=2)
    assert tkf.clusters(traj.final).count == k
    assert traj.events[0].kind == ("one_cluster" if k == 1 else "at_most_3_clusters")
    before = tkf.simulate(SA, START, traj.events[0].time - 1e-4, rtol=1e-8, save_at=2).final
    assert tkf.clusters(before).count > k


def test_evenly_spread_tokens_are_not_one_cluster():
    ring = tkf.circle_tokens(2 * np.pi * np.arange(1024) / 1024)
    traj = tkf.simulate(SA, ring, 0.01, stop_when=tkf.one_cluster(), save_at=2)
    assert traj.events == []
    assert tkf.clusters(ring).count == 1024
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


def test_chunks_do_not_change_a_bit(monkeypatch):
    whole = tkf.simulate(SA, START, 20.0)
    monkeypatch.setattr(record, "CHUNK_SECONDS", 0.0)
    pieces = tkf.simulate(SA, START, 20.0)
    np.testing.assert_array_equal(whole.dataset["x"], pieces.dataset["x"])


@pytest.mark.parametrize("norm", [tkf.PostLN(), tkf.MixLN(5.0)])
def test_an_interrupted_run_resumes_to_the_same_bits(norm, tmp_path, monkeypatch):
    model, path = tkf.Transformer(tkf.Softmax(4.0), norm), tmp_path / "run.npz"
    whole = tkf.simulate(model, START, 20.0)
    real, calls = record.go_on, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(record, "CHUNK_SECONDS", 0.0)
    for _ in range(2):  # interrupt it twice
        calls.clear()
        monkeypatch.setattr(record, "go_on", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tkf.simulate(model, START, 20.0, checkpoint=path)
        assert path.exists()
    monkeypatch.setattr(record, "go_on", real)
    resumed = tkf.simulate(model, START, 20.0, checkpoint=path)
    np.testing.assert_array_equal(whole.dataset["x"], resumed.dataset["x"])
    again = tkf.simulate(model, START, 20.0, checkpoint=path)  # a finished run is read back
    np.testing.assert_array_equal(whole.dataset["x"], again.dataset["x"])


SCRIPT = """
import sys, numpy as np, tokenfield as tkf
from tokenfield.driver import record
record.CHUNK_SECONDS = 0.0
model = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())
start = tkf.uniform_sphere(24, 3, seed=0)
traj = tkf.simulate(model, start, 2000.0, rtol=0, atol=1e-11, method="tsit5", checkpoint=sys.argv[1], checkpoint_every=0.0)
np.save(sys.argv[2], traj.dataset["x"].values)
"""


def test_a_killed_process_resumes_to_the_same_bits(tmp_path):
    checkpoint, out = tmp_path / "run.npz", tmp_path / "out.npy"
    command = [sys.executable, "-c", SCRIPT, str(checkpoint)]
    process = subprocess.Popen([*command, str(out)])
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)
    process.kill()
    process.wait()
    assert not out.exists(), "the run ended before it was killed: make it longer"
    subprocess.run([*command, str(out)], check=True)
    fresh = tkf.simulate(SA, START, 2000.0, rtol=0, atol=1e-11, method="tsit5")  # in one go, and in another process
    np.testing.assert_array_equal(np.load(out), fresh.dataset["x"].values)


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    tkf.simulate(SA, START, 1.0, checkpoint=path)
    with pytest.raises(CheckpointError, match="another run"):
        tkf.simulate(SA, START, 2.0, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        tkf.simulate(SA, START, 1.0, checkpoint=path)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"t1": 0.0}, "t1 must be finite and > 0, got 0.0"),
        ({"t1": -1.0}, "t1 must be"),
        ({"t1": float("nan")}, "t1 must be"),
        ({"t1": 1.0, "seed": 3}, "nothing in this model is random"),
        ({"t1": 1.0, "rtol": -1e-3}, "rtol must be"),
        ({"t1": 1.0, "atol": 0.0}, "atol must be"),
        ({"t1": 1.0, "method": "rk4"}, "method must be one of euler, .*tokens coarsen, .*densities lawson, got 'rk4'"),
        ({"t1": 1.0, "method": "euler"}, "give a fixed step dt"),
        ({"t1": 1.0, "save_at": [0.0, 2.0]}, "within"),
        ({"t1": 1.0, "save_at": 1}, "save_at must be a whole number >= 2"),
        ({"t1": 1.0, "save_at": "abc"}, "save_at must be a number or an array of numbers, got 'abc'"),
        ({"t1": 1.0, "stop_when": 3}, "stop_when must be a rule"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        tkf.simulate(SA, START, **arguments)


@pytest.mark.parametrize(
    ("model", "state", "message"),
    [
        (SA, lambda: tkf.Tokens([[2.0, 0.0, 0.0]]), "token 0 has length 2"),
        (SA, lambda: tkf.Tokens([[1.0]]), "needs d >= 2"),
        (tkf.Transformer(tkf.Softmax(1.0), tkf.PreLN()), lambda: tkf.Tokens([[0.0, 0.0]]), "token 0 is zero"),
        (tkf.Transformer(tkf.Softmax(A=np.eye(2))), lambda: START, r"A must have shape \(3, 3\)"),
        (tkf.Transformer(tkf.Softmax(V=np.eye(2))), lambda: START, r"V must have shape \(dv, 3\)"),
        (tkf.Transformer(tkf.Softmax(V=np.ones((2, 3)))), lambda: START, "V must map R.3 to itself"),
        (
            tkf.Transformer(tkf.Softmax(A=lambda t: jnp.eye(2))),
            lambda: START,
            r"A must have shape \(3, 3\).*got \(2, 2\)",
        ),
        (
            tkf.Transformer(tkf.Softmax(V=lambda t: jnp.ones(3))),
            lambda: START,
            r"V must have shape \(dv, 3\).*got \(3,\)",
        ),
        (
            tkf.Transformer(tkf.Softmax(Q=lambda t: jnp.eye(2), K=np.eye(3))),
            lambda: START,
            r"Q must have shape \(k, 3\).*got \(2, 2\)",
        ),
        (
            tkf.Transformer(tkf.Softmax(Q=np.eye(3), K=lambda t: jnp.ones((2, 3)))),
            lambda: START,
            r"same number of rows, got shapes \(3, 3\) and \(2, 3\)",
        ),
        (tkf.Transformer(tkf.Softmax(beta=lambda t: jnp.ones(2))), lambda: START, "beta must be a number"),
        (tkf.Transformer(tkf.Softmax(A=lambda t: np.cos(t) * np.eye(3))), lambda: START, r"A\(t\) must use jax.numpy"),
        (tkf.Transformer(tkf.Softmax(beta=np.cos), tkf.PostLN()), lambda: START, r"beta\(t\) must use jax.numpy"),
        (
            tkf.Transformer(tkf.Softmax(beta=np.cos), tkf.PostLN()),
            lambda: tkf.Equiangular(0.1, 4),
            r"beta\(t\) must use jax.numpy",
        ),
        (tkf.Transformer(tkf.Softmax(), tkf.NGPT(alpha=np.cos)), lambda: START, r"alpha\(t\) must use jax.numpy"),
        (tkf.Transformer(tkf.Softmax(A=lambda t: "a")), lambda: START, r"A\(t\) must be a number or an array"),
        (
            tkf.Transformer(tkf.MultiHead([tkf.Softmax()], [lambda t: jnp.eye(2)])),
            lambda: START,
            r"outputs\[0\] must have shape \(3, 3\)",
        ),
        (
            tkf.Transformer(tkf.Unnormalized(A=800 * np.eye(3)), tkf.PostLN()),
            lambda: START,
            "log_unit must be given: <Ax,y> reaches 800",
        ),
        (
            tkf.Transformer(tkf.Unnormalized(800.0, Q=np.eye(3), K=np.eye(3)), tkf.PostLN()),
            lambda: START,
            "With log_unit=800 time runs in units",
        ),
        (tkf.Softmax(1.0), lambda: START, "model must be a Transformer, got Softmax: wrap it"),
        (tkf.Transformer(tkf.Softmax(1.0), tkf.PreLN(gain=[1.0, 2.0])), lambda: START, "gain must have length 3"),
        (
            tkf.Transformer(tkf.Softmax(1.0), mlp=tkf.MLP(np.ones((2, 2)), np.ones((2, 2)))),
            lambda: START,
            r"W1 must have shape \(m, 3\)",
        ),
        (
            tkf.Transformer(tkf.MultiHead([tkf.Softmax(V=np.ones((1, 3)))], [np.ones((3, 2))])),
            lambda: START,
            r"outputs\[0\] must have shape \(3, 1\)",
        ),
        (
            SA,
            lambda: "tokens",
            "state must be one of CircleDensity, Equiangular, Gaussian, SphereDensity, Tokens, ZonalDensity",
        ),
    ],
)
def test_models_and_states_that_do_not_fit(model, state, message):
    with pytest.raises(ValueError, match=message):
        tkf.simulate(model, state(), 1.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tkf.Softmax(beta=1.0, A=np.eye(2)), "beta or A, not both"),
        (lambda: tkf.Softmax(Q=np.eye(2)), "Q and K go together, got only Q"),
        (lambda: tkf.Softmax(Q=np.ones((2, 3)), K=np.ones((1, 3))), "same number of rows"),
        (lambda: tkf.Softmax(beta=float("nan")), "beta must be finite"),
        (lambda: tkf.Softmax(beta="warm"), "beta must be a number"),
        (lambda: tkf.Softmax(A=[1.0, 2.0]), "A must be a matrix"),
        (lambda: tkf.Sinkhorn(causal=True), "identity"),
        (lambda: tkf.Hardmax(rule="none"), "rule must be"),
        (lambda: tkf.MultiHead([]), "non-empty list"),
        (lambda: tkf.MultiHead(tkf.Softmax()), "heads must be a list of attention heads, got Softmax"),
        (lambda: tkf.MultiHead([tkf.Softmax()], 0.5), "outputs must be a list"),
        (lambda: tkf.Transformer(tkf.Softmax(), breakpoints=1.0), "breakpoints must be a list of times, got float"),
        (lambda: tkf.Transformer(tkf.Softmax(), breakpoints=["a"]), "each of breakpoints must be a finite number"),
        (lambda: tkf.layers(3, START, 2), "model must be a Transformer, a list of them, .* got int"),
        (lambda: tkf.layers(tkf.Softmax(), START, 2), "model must be a Transformer, a list of them, .* got Softmax"),
        (lambda: tkf.layers(lambda index: index, START, 2), "model must be a Transformer, got int"),
        (lambda: tkf.MixLN(0.0), "tau must be"),
        (lambda: tkf.MLP(np.ones((2, 3)), np.ones((2, 3))), "W1 and W2 must have shapes"),
        (lambda: tkf.Transformer("softmax"), "attention must be"),
        (lambda: tkf.Transformer(tkf.Softmax(), "post"), "norm must be"),
        (lambda: tkf.layers(tkf.Transformer(tkf.Softmax()), START), "depth must be given"),
        (lambda: tkf.layers(tkf.Transformer(tkf.Softmax(), tkf.Rescaled()), START, 1), "run layers with NoNorm"),
    ],
)
def test_models_that_make_no_sense(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_large_matrices_run_in_the_unit_that_the_error_names():
    start = tkf.uniform_sphere(3, 2, seed=0)
    given = tkf.simulate(
        tkf.Transformer(tkf.Unnormalized(A=800 * np.eye(2), log_unit=800.0), tkf.PostLN()), start, 0.1, save_at=2
    )
    plain = tkf.simulate(tkf.Transformer(tkf.Unnormalized(800.0), tkf.PostLN()), start, 0.1, save_at=2)
    np.testing.assert_allclose(given.final.x, plain.final.x, atol=1e-9)
    long = tkf.Tokens(100 * np.asarray(start.x))  # Pre-LN reads directions: scores of 1, not of 10,000
    check(long, tkf.Transformer(tkf.Unnormalized(A=np.eye(2)), tkf.PreLN()))


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
