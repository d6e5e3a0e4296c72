"""Flows of tokens against each other, against closed forms and against independent integrators."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from cases import FREE, KERNELS, NORMS, PARAMETERS, RULES, tokens
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tokenfield.flows import base

TIGHT = {"rtol": 1e-11, "atol": 1e-12}


def equiangular_rate(norm, beta, n):
    """d(rho, r)/dt of FORMULAS §7."""

    def rate(t, y):
        rho, r = y
        Z = np.exp(beta) + (n - 1) * np.exp(beta * rho)
        inner = (np.exp(beta) + (n - 1) * rho * np.exp(beta * rho)) / Z
        square = (
            np.exp(2 * beta)
            + (n - 1) * np.exp(2 * beta * rho)
            + 2 * (n - 1) * rho * np.exp(beta * (1 + rho))
            + (n - 1) * (n - 2) * rho * np.exp(2 * beta * rho)
        )
        length = np.sqrt(square) / Z
        pre = norm == "pre" or (norm == "mix" and t > PARAMETERS["mix"]["tau"])
        if norm == "ngpt":
            s = length / PARAMETERS["ngpt"]["alpha"]
        else:
            s = r if pre else {"post": 1, "mix": 1, "peri": r * length, "sqrt": np.sqrt(t + 1)}[norm]
        growth = inner if pre else inner / length if norm == "peri" else 0.0
        return [2 / s * np.exp(beta * rho) * (1 - rho) * ((n - 1) * rho + 1) / Z, growth]

    return rate


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("norm", [name for name in NORMS if name != "none"])
def test_equiangular_tokens_follow_the_scalar_equation_under_every_norm(norm):
    n, beta, rho0, t1 = 6, 2.0, 0.1, 3.0
    rate, y = equiangular_rate(norm, beta, n), [rho0, 1.0]
    for a, b in ((0.0, 1.5), (1.5, t1)):  # in pieces: Mix-LN changes its rule at 1.5
        y = solve_ivp(rate, (a + (1e-15 if a else 0), b), y, method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    model = tkf.Transformer(tkf.Softmax(beta), NORMS[norm])
    x = np.asarray(tkf.simulate(model, tkf.equiangular_tokens(rho0, n), t1, **TIGHT).final.x)
    lengths = np.linalg.norm(x, axis=1)
    cosines = (x @ x.T / np.outer(lengths, lengths))[np.triu_indices(n, 1)]
    np.testing.assert_allclose(cosines, y[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(lengths, y[1], rtol=0, atol=1e-9)


def test_full_particle_values_of_the_theory():
    start = tkf.equiangular_tokens(0.0, 6)
    post = np.asarray(tkf.simulate(tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN()), start, 3.0, **TIGHT).final.x)
    pre = np.asarray(tkf.simulate(tkf.Transformer(tkf.Softmax(2.0), tkf.PreLN()), start, 3.0, **TIGHT).final.x)
    assert abs(post[0] @ post[1] - 0.9350046711) < 1e-9
    r = np.linalg.norm(pre[0])
    assert abs(pre[0] @ pre[1] / r**2 - 0.5499792819) < 1e-9
    assert abs(r - 2.8676101912) < 1e-9


@pytest.mark.parametrize(("beta", "expected"), [(1.0, 5.27028), (4.0, 6.95350), (9.0, 178.73093)])
def test_time_to_collapse(beta, expected):
    n = 32
    level = np.sqrt((1 + (n - 1) * 0.999) / n)  # the order parameter of equiangular tokens at rho = .999
    rate = equiangular_rate("post", beta, n)
    hit = lambda t, y: y[0] - 0.999  # noqa: E731
    hit.terminal = True
    exact = solve_ivp(rate, (0, 200), [0.0, 1.0], method="DOP853", rtol=1e-13, atol=1e-14, events=hit).t_events[0][0]
    assert abs(exact - expected) < 1e-5
    model = tkf.Transformer(tkf.Softmax(beta), tkf.PostLN())
    traj = tkf.simulate(
        model, tkf.equiangular_tokens(0.0, n), 200.0, rtol=0, atol=1e-12, stop_when=tkf.order_above(level), save_at=2
    )
    assert abs(traj.events[0].time - exact) < 1e-9 * exact
    assert traj.times[-1] == traj.events[0].time


def test_usa_of_two_tokens_at_beta_zero_is_tanh():
    model = tkf.Transformer(tkf.Unnormalized(0.0), tkf.PostLN())
    traj = tkf.simulate(model, tkf.equiangular_tokens(0.0, 2), 2.0, **TIGHT)
    rho = np.einsum("td,td->t", *np.moveaxis(traj.dataset["x"].values, 1, 0))
    np.testing.assert_allclose(rho, np.tanh(traj.times), atol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_tokens_stay_on_the_sphere(norm):
    unit = norm not in ("none", "pre", "peri")
    traj = tkf.simulate(tkf.Transformer(tkf.Softmax(3.0), NORMS[norm]), tokens(n=7), 1.4, rtol=1e-4, atol=1e-5)
    lengths = np.linalg.norm(traj.dataset["x"].values, axis=2)
    assert (np.abs(lengths - 1).max() <= 1e-12) == (unit or norm == "mix")


SPHERE = [name for name in NORMS if name not in FREE]


@pytest.mark.slow
@pytest.mark.parametrize("norm", SPHERE)
def test_tokens_stay_on_the_sphere_under_every_kernel(norm):
    """One head of all kernels, the others switched off (in the end all of them on): one compiled loop serves all."""
    heads = [KERNELS[kernel].fast() for kernel in KERNELS if kernel != "multi-head"]
    start = tokens(n=4)
    for switches in (*np.eye(len(heads)), np.ones(len(heads))):
        model = tkf.Transformer(tkf.MultiHead(heads, list(switches)), NORMS[norm])
        traj = tkf.simulate(model, start, 0.5, rtol=1e-2, atol=1e-2, method="heun", save_at=4)
        x = traj.dataset["x"].values
        assert np.abs(np.linalg.norm(x, axis=2) - 1).max() <= 1e-12
        assert np.abs(x[-1] - x[0]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("norm", RULES)
def test_more_dimensions_than_tokens_reduce_to_the_span(norm):
    start, t1 = tkf.uniform_sphere(5, 12, seed=3), 2.0  # Mix-LN changes its rule at 1.5
    model = tkf.Transformer(tkf.Softmax(2.0), RULES[norm])
    reduced = tkf.simulate(model, start, t1, **TIGHT, save_at=5)
    general = tkf.Transformer(tkf.Softmax(A=2.0 * np.eye(12)), RULES[norm])  # not known to be isotropic: no reduction
    assert base.reduced(start, model).state.d == 5
    assert base.reduced(start, general).state.d == 12
    direct = tkf.simulate(general, start, t1, **TIGHT, save_at=5)
    np.testing.assert_allclose(reduced.dataset["x"], direct.dataset["x"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", RULES)
def test_tokens_in_1024_dimensions_cost_what_they_do_in_32(norm):
    """The solver gets arrays of the same shapes, so it runs the same program."""
    model, programs = tkf.Transformer(tkf.Softmax(2.0), RULES[norm]), []
    for d in (1024, 32):
        small, small_model, *_ = base.reduced(tkf.uniform_sphere(32, d, seed=0), model)
        given = [(part.flow, part.flow.pack(small)) for part in base.segments(small, small_model)]
        programs.append((jax.tree.map(jnp.shape, jax.tree.leaves(given)), jax.tree.structure(given)))
        assert small.x.shape == (32, 32)
    assert programs[0] == programs[1]


@pytest.mark.slow
def test_rescaled_with_time_dependent_value_map_is_the_free_flow():
    V = lambda t: jnp.array([[1.0, t], [-t, 0.5]])  # noqa: E731
    start = tkf.gaussian_tokens(8, 2, seed=1)
    attention = tkf.Softmax(A=[[1.0, 0.3], [-0.2, 0.5]], V=V)
    free = tkf.simulate(tkf.Transformer(attention), start, 1.0, **TIGHT).final.x
    z = tkf.simulate(tkf.Transformer(attention, tkf.Rescaled()), start, 1.0, **TIGHT).final.x
    phi = solve_ivp(
        lambda t, y: (np.asarray(V(t)) @ y.reshape(2, 2)).ravel(), (0, 1), np.eye(2).ravel(), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(z @ phi.y[:, -1].reshape(2, 2).T, free, atol=1e-9)


def test_rescaled_tokens_run_far_beyond_overflow_of_the_free_ones():
    model = tkf.Transformer(tkf.Softmax(1.0), tkf.Rescaled())
    traj = tkf.simulate(model, tkf.gaussian_tokens(12, 2, seed=1), 1000.0, save_at=3)
    assert np.isfinite(traj.final.x).all()
    assert traj.times[-1] == 1000.0


def test_time_dependent_scores_against_a_fine_reference():
    A = lambda t: jnp.array([[jnp.cos(t), 2.0, 0.0], [-1.0, t, 0.5], [0.3, 0.0, 1.0]])  # noqa: E731
    start = tokens()
    w = np.asarray(start.weights)

    def rate(t, y):
        x = y.reshape(-1, 3)
        drift = naive.softmax(x, w, np.asarray(A(t)), np.eye(3))
        return (drift - (drift * x).sum(1, keepdims=True) * x).ravel()

    exact = solve_ivp(rate, (0, 2), np.asarray(start.x).ravel(), method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    traj = tkf.simulate(tkf.Transformer(tkf.Softmax(A=A), tkf.PostLN()), start, 2.0, **TIGHT)
    np.testing.assert_allclose(traj.final.x.ravel(), exact, atol=1e-9)


def test_jumps_in_time_are_integrated_in_pieces():
    """A rotation field that turns back at t = 0.7: with the breakpoint declared the error is that of smooth runs."""
    turn = jnp.array([[0.0, -1.0], [1.0, 0.0]])
    V = lambda t: jnp.where(t < 0.7, turn, -2.0 * turn)  # noqa: E731
    start = tkf.circle_tokens([0.3])
    attention = tkf.Softmax(0.0, V=V)
    errors = []
    for breakpoints in ((0.7,), ()):
        model = tkf.Transformer(attention, tkf.PostLN(), breakpoints=breakpoints)
        x = tkf.simulate(model, start, 1.0, rtol=0, atol=1e-9, save_at=2).final.x[0]
        angle = 0.3 + 0.7 - 2 * 0.3
        errors.append(float(np.abs(x - np.array([np.cos(angle), np.sin(angle)])).max()))
    assert errors[0] < 1e-8


def test_weights_act_as_multiplicities_along_a_run():
    heavy = tkf.Tokens([[1.0, 0.0], [0.0, 1.0]], [2 / 3, 1 / 3])
    twice = tkf.Tokens([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    model = tkf.Transformer(tkf.Unnormalized(1.5), tkf.PostLN())
    a, b = (tkf.simulate(model, s, 1.0, **TIGHT).final.x for s in (heavy, twice))
    np.testing.assert_allclose(a, b[1:], atol=1e-10)
    np.testing.assert_allclose(b[0], b[1], atol=1e-12)
