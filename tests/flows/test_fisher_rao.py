"""Tokens whose weights move: the Wasserstein–Fisher–Rao flow."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows import segments


def model_of(beta, c=1.0, **options):
    return tkf.Transformer(tkf.Unnormalized(beta=beta, **options), tkf.PostLN(), fisher_rao=c)


def start(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    w = rng.uniform(0.2, 1.0, n)
    return tkf.Tokens(x / np.linalg.norm(x, axis=1, keepdims=True), w / w.sum())


def naive(x, m, beta, c):
    """Loops over tokens: their velocities, and those of their weights."""
    n, d = x.shape
    velocity, phi = np.zeros((n, d)), np.zeros(n)
    for i in range(n):
        for j in range(n):
            s = float(x[i] @ x[j])
            velocity[i] += m[j] * math.exp(beta * s) * x[j]
            phi[i] += m[j] * (math.exp(beta * s) / beta if beta else s)
        velocity[i] -= (x[i] @ velocity[i]) * x[i]
    mean = sum(m[i] * phi[i] for i in range(n))
    return velocity, np.array([c * m[i] * (phi[i] - mean) for i in range(n)]), phi


def velocity_of(model, state):
    """Velocities of the tokens and of their weights, the latter as the derivative of `masses` along the flow."""
    (segment,) = segments(state, model)
    flow = segment.flow
    y = flow.pack(state)
    f = flow.velocity(jnp.zeros(()), y)
    _, dm = jax.jvp(flow.masses, (y,), (f,))
    return np.asarray(f.theta), np.asarray(dm)


@pytest.mark.parametrize("beta", [-2.0, 0.0, 1e-3, 1.0, 6.0])
def test_velocity_against_loops(beta):
    state = start(7, 3)
    dx, dm = velocity_of(model_of(beta, 0.7), state)
    expected = naive(np.asarray(state.x), np.asarray(state.weights), beta, 0.7)
    # at small beta the loops lose digits in phi - mean, not the flow
    tolerance = 1e-12 * math.exp(abs(beta)) / min(1.0, abs(beta) or 1.0)
    np.testing.assert_allclose(dx, expected[0], atol=1e-13 * math.exp(abs(beta)))
    np.testing.assert_allclose(dm, expected[1], atol=tolerance)
    assert np.abs(dm).max() > 1e-3


@pytest.mark.slow
def test_large_beta_in_its_unit_of_time():
    state = start(6, 3, seed=3)
    dx, dm = velocity_of(model_of(800.0), state)
    x, m = np.asarray(state.x), np.asarray(state.weights)
    kernel = np.exp(800.0 * (x @ x.T - 1))
    phi = kernel @ m / 800.0
    np.testing.assert_allclose(dm, m * (phi - m @ phi), rtol=1e-10)
    assert tkf.simulate(model_of(800.0), state, t1=1.0).log_time_unit == -800.0
    assert np.isfinite(dx).all()


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
def test_energy_identity(beta):
    """`dE/dt = sum_i m_i |x_i'|^2 + c Var_m(phi)`, the left side by differentiating the energy along the flow."""
    state, c = start(9, 4, seed=1), 0.6
    dx, dm = velocity_of(model_of(beta, c), state)
    x, m = np.asarray(state.x), np.asarray(state.weights)
    centered = lambda s: s if beta == 0 else jnp.expm1(beta * s) / beta  # noqa: E731
    energy = lambda x, m: 0.5 * m @ centered(x @ x.T) @ m  # noqa: E731
    _, rate = jax.jvp(energy, (jnp.asarray(x), jnp.asarray(m)), (jnp.asarray(dx), jnp.asarray(dm)))
    phi = naive(x, m, beta, c)[2]
    predicted = m @ (dx**2).sum(1) + c * m @ (phi - m @ phi) ** 2
    assert float(rate) == pytest.approx(predicted, rel=1e-12)
    assert c * m @ (phi - m @ phi) ** 2 > 0.01 * predicted


@pytest.mark.parametrize(("beta", "c"), [(0.0, 1.0), (1.5, 0.7)])
def test_two_antipodes_against_the_closed_form(beta, c):
    """At opposite points tokens rest and `u = m_1 - m_2` obeys `u' = c (sinh(beta)/beta) u (1 - u^2)`."""
    state = tkf.Tokens([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], [0.55, 0.45])
    traj = tkf.simulate(model_of(beta, c), state, t1=3.0, save_at=7, rtol=1e-11, atol=1e-12)
    u = traj.dataset["weights"].values @ [1.0, -1.0]
    k = c * (math.sinh(beta) / beta if beta else 1.0)
    grown = 0.1**2 / (1 - 0.1**2) * np.exp(2 * k * traj.times)
    np.testing.assert_allclose(u, np.sqrt(grown / (1 + grown)), rtol=1e-9)


def test_rate_zero_is_the_plain_flow():
    state = start(8, 3, seed=2)
    still = tkf.simulate(model_of(2.0, 0.0), state, t1=2.0, save_at=5)
    plain = tkf.simulate(tkf.Transformer(tkf.Unnormalized(2.0), tkf.PostLN()), state, t1=2.0, save_at=5)
    np.testing.assert_allclose(still.dataset["x"], plain.dataset["x"], atol=1e-6)
    np.testing.assert_allclose(still.final.weights, state.weights, rtol=1e-15)


def test_a_token_may_be_split_and_one_of_no_weight_only_watches():
    state = start(5, 3, seed=4)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    more = tkf.Tokens(
        np.vstack([x, x[:1], [[0.0, 0.0, 1.0]]]), np.concatenate([[w[0] / 3], w[1:], [2 * w[0] / 3, 0.0]])
    )
    options = {"t1": 1.5, "save_at": 4, "rtol": 1e-11, "atol": 1e-12}
    one, two = (tkf.simulate(model_of(2.0, 1.5), each, **options) for each in (state, more))
    np.testing.assert_allclose(two.dataset["x"][:, :5], one.dataset["x"], atol=1e-9)
    weights = two.dataset["weights"].values
    np.testing.assert_allclose(weights[:, 0] + weights[:, 5], one.dataset["weights"][:, 0], atol=1e-9)
    assert (weights[:, 6] == 0).all()
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-14)


def test_rotations_change_nothing_and_many_dimensions_are_reduced():
    state = start(6, 3, seed=5)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0]
    wide = tkf.Tokens(np.asarray(state.x) @ turn[:3], state.weights)
    one, two = (tkf.simulate(model_of(3.0), each, t1=1.0, save_at=3) for each in (state, wide))
    np.testing.assert_allclose(two.dataset["x"].values, one.dataset["x"].values @ turn[:3], atol=1e-9)
    np.testing.assert_allclose(two.dataset["weights"], one.dataset["weights"], atol=1e-9)


@pytest.mark.slow
def test_saved_runs_many_runs_and_pictures(tmp_path):
    state, model = start(12, 3), model_of(4.0)
    traj = tkf.simulate(model, state, t1=0.5, save_at=6)
    assert traj.dataset["weights"].dims == ("time", "token")
    again = tkf.load(traj.save(tmp_path / "run.zarr"))
    np.testing.assert_array_equal(again.final.weights, traj.final.weights)
    assert json.loads(again.dataset.attrs["config"])["model"]["fisher_rao"] == 1.0
    still = tkf.Tokens(np.tile(np.asarray(state.x)[:1], (12, 1)))
    runs = tkf.simulate_many(model, [still, state], t1=0.5, save_at=6)
    np.testing.assert_allclose(runs[1].dataset["weights"], traj.dataset["weights"], atol=1e-12)
    np.testing.assert_allclose(runs[0].final.weights, 1 / 12, rtol=1e-14)
    assert len(traj.plot().axes) >= 3
    assert tkf.plotting.animate(traj, tmp_path / "run.gif", frames=3).stat().st_size > 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": tkf.Softmax(1.0)}, "fisher_rao needs Unnormalized"),
        ({"attention": tkf.Unnormalized(1.0, V=2 * np.eye(3))}, "fisher_rao needs Unnormalized"),
        ({"norm": tkf.PreLN()}, "fisher_rao needs tokens on the unit sphere"),
        ({"noise": tkf.SphereNoise(1.0)}, "no MLP, no noise"),
    ],
)
def test_models_that_do_not_fit_are_refused(change, message):
    parts = {"attention": tkf.Unnormalized(1.0), "norm": tkf.PostLN(), "fisher_rao": 1.0} | change
    with pytest.raises(ValueError, match=message):
        tkf.simulate(tkf.Transformer(**parts), start(4, 3), t1=1.0, **({"seed": 0} if "noise" in change else {}))


def test_other_states_and_layers_refuse():
    model = model_of(1.0)
    for state in (tkf.Equiangular(0.1, n=4), tkf.CircleDensity.uniform()):
        with pytest.raises(tkf.NoClosedEquation, match="fisher_rao changes the weights"):
            tkf.simulate(model, state, t1=1.0)
    with pytest.raises(ValueError, match="fisher_rao"):
        tkf.layers(model, start(4, 3), depth=2)
    with pytest.raises(ValueError, match="fisher_rao"):
        tkf.simulate(model, start(4, 3), t1=10.0, method="coarsen")
    with pytest.raises(ValueError, match="fisher_rao must be finite and >= 0"):
        model_of(1.0, -1.0)
