"""Observables inside of jit, vmap, grad and jvp: against closed forms, differences and loops."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import tokens

import tokenfield as tkf

BETA = 1.3
NORM = tkf.PreLN(gain=0.8)
PAIRS = np.random.default_rng(2).standard_normal(15)
OBSERVABLES = {
    "order_parameter": lambda s, b: tkf.order_parameter(s),
    "mean_cosine": lambda s, b: tkf.mean_cosine(s),
    "mean_length": lambda s, b: tkf.mean_length(s),
    "smallest_cosine": lambda s, b: tkf.smallest_cosine(s),
    "pairwise_cosines": lambda s, b: PAIRS @ tkf.pairwise_cosines(s),
    "energy": lambda s, b: tkf.energy(s, b),
    "centered_energy": lambda s, b: tkf.energy(s, b, centered=True),
    "energy_under_a_norm": lambda s, b: tkf.energy(s, tkf.Transformer(tkf.Softmax(b), NORM)),
    "energy_of_a_form": lambda s, b: tkf.energy(s, tkf.Unnormalized(A=b * FORM, V=FORM)),
    "normalized_energy": lambda s, b: tkf.normalized_energy(s, tkf.Unnormalized(b, V=-2.0)),
    "effective_rank": lambda s, b: tkf.effective_rank(s),
    "effective_rank_of_the_spread": lambda s, b: tkf.effective_rank(s, centered=True),
    "soft_cluster_count": lambda s, b: tkf.soft_cluster_count(s, 0.3 * b),
    "soft_cluster_count_of_points": lambda s, b: tkf.soft_cluster_count(s, b, metric="distance"),
}
FORM = np.array([[0.6, 0.2, 0.0], [0.2, -0.4, 0.1], [0.0, 0.1, 0.3]])


def value(name):
    return lambda x, w, beta: OBSERVABLES[name](tkf.Tokens(x, w), beta)


def start(seed=0):
    state = tokens(n=6, seed=seed, unit=False)
    return np.asarray(state.x), np.asarray(state.weights), BETA


@pytest.mark.parametrize("name", OBSERVABLES)
def test_derivatives_are_slopes_of_plain_floats_and_both_modes_agree(name):
    """Along a line of tokens, weights and beta, by differences of fourth order."""
    rng, at = np.random.default_rng(1), start()
    dw = rng.uniform(-1, 1, 6) * at[1]
    step = (rng.standard_normal((6, 3)), dw - at[1] * dw.sum(), 0.7)
    f, h = value(name), 1e-3
    along = [f(*(a + k * h * s for a, s in zip(at, step, strict=True))) for k in (-2, -1, 1, 2)]
    assert all(isinstance(found, float) for found in along)
    slope = (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * h)
    here, forward = jax.jvp(f, at, step)
    assert float(here) == pytest.approx(f(*at), rel=1e-14)
    assert float(forward) == pytest.approx(slope, rel=1e-8)
    back = jax.jit(jax.grad(f, (0, 1, 2)))(*at)
    assert sum(float(jnp.sum(b * s)) for b, s in zip(back, step, strict=True)) == pytest.approx(
        float(forward), rel=1e-12
    )


@pytest.mark.parametrize("name", [*OBSERVABLES, "fraction_above"])
def test_jit_and_vmap_over_a_stack_of_states_are_a_loop(name):
    f = value(name) if name in OBSERVABLES else lambda x, w, beta: tkf.fraction_above(tkf.Tokens(x, w), 0.2)
    x, w, _ = (np.stack(part) for part in zip(*map(start, range(4)), strict=True))
    betas = np.linspace(0.4, 2.0, 4)
    many = jax.jit(jax.vmap(f))(x, w, betas)
    np.testing.assert_allclose(many, [f(x[k], w[k], betas[k]) for k in range(4)], rtol=1e-12)


def test_energies_have_the_derivatives_of_their_formulas():
    x, w, beta = start()
    s = x @ x.T
    mass, e = np.outer(w, w), np.exp(beta * s)
    by_beta = jax.grad(lambda b: tkf.energy(tkf.Tokens(x, w), b))(beta)
    assert float(by_beta) == pytest.approx((mass * e * (s / (2 * beta) - 1 / (2 * beta**2))).sum(), rel=1e-12)
    by_x = jax.grad(lambda x: tkf.energy(tkf.Tokens(x, w), beta))(x)
    np.testing.assert_allclose(by_x, (mass * e) @ x, rtol=1e-12)
    by_beta = jax.grad(lambda b: tkf.normalized_energy(tkf.Tokens(x, w), tkf.Softmax(b)))(beta)
    assert float(by_beta) == pytest.approx((mass * (s - 1) * np.exp(beta * (s - 1))).sum(), rel=1e-12)
    by_v = jax.grad(lambda v: tkf.energy(tkf.Tokens(x, w), tkf.Softmax(beta, V=v)))(2.5)
    assert float(by_v) == pytest.approx(tkf.energy(tkf.Tokens(x, w), beta), rel=1e-12)


@pytest.mark.parametrize("centered", [False, True])
def test_the_energy_around_beta_zero(centered):
    """½ ∬ s + beta s^2/2 + …, with all digits of its derivative at small beta when it is centered."""
    x, w, _ = start()
    s, mass = x @ x.T, np.outer(w, w)
    energy = lambda b: tkf.energy(tkf.Tokens(x, w), b, centered=centered)  # noqa: E731
    found, slope = jax.jit(jax.value_and_grad(energy))(0.0)
    assert float(found) == energy(0.0) == pytest.approx(0.5 * (mass * s).sum(), rel=1e-13)
    assert float(slope) == pytest.approx((mass * s**2).sum() / 4, rel=1e-12)
    if centered:
        for beta in (1e-9, -1e-4):
            series = sum((mass * s ** (k + 2)).sum() * (k + 1) * beta**k / math.factorial(k + 2) / 2 for k in range(6))
            assert float(jax.grad(energy)(beta)) == pytest.approx(series, rel=1e-12)
    together = lambda b: tkf.energy(tkf.Equiangular(0.4, 5), b, centered=centered)  # noqa: E731
    assert float(jax.grad(together)(0.0)) == pytest.approx((1 + 4 * 0.4**2) / 20, rel=1e-13)


DEGENERATE = {
    "coinciding": [[1.0, 0.0, 0.0]] * 3 + [[0.0, 2.0, 0.0]] * 3,
    "all_at_one_place": [[1.0, 2.0, 3.0]] * 6,
    "of_length_zero": [[0.0, 0.0, 0.0]] * 2 + [[1.0, 2.0, 3.0]] * 4,
    "nothing_else": [[0.0, 0.0, 0.0]] * 6,
    "balanced": [*np.eye(3), *-np.eye(3)],
}


@pytest.mark.grid
@pytest.mark.parametrize("place", DEGENERATE)
@pytest.mark.parametrize("name", OBSERVABLES)
def test_derivatives_are_finite_where_tokens_are_degenerate(name, place):
    at = np.array(DEGENERATE[place]), np.full(6, 1 / 6), BETA
    found = jax.value_and_grad(value(name), (0, 1, 2))(*at)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


def test_derivatives_of_degenerate_states_that_are_known():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    order = jax.grad(lambda x: tkf.order_parameter(tkf.Tokens(x)))(x)
    np.testing.assert_array_equal(order, 0)  # it is at its largest, and a token at 0 has no direction
    length = jax.grad(lambda x: tkf.mean_length(tkf.Tokens(x)))(x)
    np.testing.assert_allclose(length, x / 3, rtol=1e-15)
    cosine = jax.grad(lambda x: tkf.pairwise_cosines(tkf.Tokens(x))[0])(x)
    np.testing.assert_array_equal(cosine, 0)


@pytest.mark.parametrize("values", [(1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (3.0, 2.0, 0.0)])
def test_the_effective_rank_of_equal_singular_values_has_its_derivative(values):
    """F = exp(H(p)): dF/dsigma_i = -F (log p_i + H)/sum sigma, in a basis that is turned away from the axes."""
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    sigma = np.array(values)
    p = sigma[sigma > 0] / sigma.sum()
    entropy = -(p * np.log(p)).sum()
    slope = np.zeros(3)
    slope[sigma > 0] = -np.exp(entropy) * (np.log(p) + entropy) / sigma.sum()
    found = jax.grad(lambda x: tkf.effective_rank(tkf.Tokens(x)))(np.diag(sigma) @ turn)
    np.testing.assert_allclose(found, np.diag(slope) @ turn, atol=1e-14)
    by_cov = jax.grad(lambda cov: tkf.effective_rank(tkf.Gaussian(None, cov), centered=True))(
        turn.T @ np.diag(sigma**2) @ turn
    )
    by_square = np.where(sigma > 0, slope / np.where(sigma > 0, 2 * sigma, 1), 0)
    np.testing.assert_allclose(by_cov, turn.T @ np.diag(by_square) @ turn, atol=1e-14)


def test_observables_of_an_angle_have_the_derivatives_of_their_formulas():
    n, rho, beta = 5, 0.3, 1.7
    slopes = {
        tkf.order_parameter: (n - 1) / n / 2 / math.sqrt((1 + (n - 1) * rho) / n),
        tkf.mean_cosine: 1.0,
        tkf.smallest_cosine: 1.0,
        tkf.mean_length: 0.0,
        tkf.fraction_above: 0.0,
        lambda s: tkf.energy(s, beta): (n - 1) / n * math.exp(beta * rho) / 2,
        lambda s: tkf.energy(s, beta, centered=True): (n - 1) / n * math.exp(beta * rho) / 2,
        lambda s: tkf.normalized_energy(s, beta): (n - 1) / n * beta * math.exp(-beta * (1 - rho)),
    }
    for measure, slope in slopes.items():
        found = jax.jit(jax.grad(lambda rho, measure=measure: measure(tkf.Equiangular(rho, n))))(rho)
        assert float(found) == pytest.approx(slope, rel=1e-12)
    by_beta = jax.grad(lambda b: tkf.normalized_energy(tkf.Equiangular(rho, n), tkf.Softmax(b)))(beta)
    assert float(by_beta) == pytest.approx(-(n - 1) / n * (1 - rho) * math.exp(-beta * (1 - rho)), rel=1e-12)
    assert float(jax.grad(lambda r: tkf.mean_length(tkf.Equiangular(rho, n, r)))(2.0)) == 1
    assert np.isfinite(jax.grad(lambda rho: tkf.order_parameter(tkf.Equiangular(rho, n)))(-1 / (n - 1)))


def test_observables_of_densities_are_differentiable_in_their_coefficients():
    for density in (tkf.CircleDensity.uniform(6), tkf.SphereDensity.uniform(4), tkf.ZonalDensity.uniform(5, 4)):
        density = density.perturbed(seed=1, size=0.1)
        c = density.coefficients
        step = np.random.default_rng(4).standard_normal(c.shape) * (np.asarray(density.harmonics.degree) > 0)
        for measure in (tkf.order_parameter, lambda s: tkf.normalized_energy(s, 2.0)):
            f = lambda c, measure=measure: measure(density.replaced(c))  # noqa: E731, B023
            along = [f(c + k * 1e-4 * step) for k in (-2, -1, 1, 2)]
            slope = (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / 12e-4
            found = jax.jit(jax.grad(f))(c)
            assert float(jnp.sum(found * step)) == pytest.approx(slope, rel=1e-8)


def test_large_states_are_measured_in_blocks():
    """More tokens than one block of rows holds: values and gradients are those of the whole matrix."""
    x = np.random.default_rng(5).standard_normal((700, 3))
    w = np.full(700, 1 / 700)
    theta = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines, mass = theta @ theta.T, np.outer(w, w)
    state = tkf.Tokens(theta)
    assert tkf.smallest_cosine(state) == pytest.approx(cosines.min(), abs=1e-15)
    above = (cosines[np.triu_indices(700, 1)] > 0.5).mean()
    assert tkf.fraction_above(state, 0.5) == pytest.approx(above, rel=1e-13)
    found = jax.grad(lambda x: tkf.energy(tkf.Tokens(x), BETA))(theta)
    np.testing.assert_allclose(found, (mass * np.exp(BETA * cosines)) @ theta, rtol=1e-11)


def test_a_trace_needs_no_concrete_numbers():
    """The same program serves all values: a second call compiles nothing, and tokens may have any lengths."""
    traced = []

    @jax.jit
    def everything(x, beta):
        traced.append(1)
        return [f(tkf.Tokens(x), beta) for f in OBSERVABLES.values()]

    for seed, beta in itertools.product((0, 1), (0.5, 0.9)):
        x = start(seed)[0]
        np.testing.assert_allclose(
            everything(x, beta), [f(tkf.Tokens(x), beta) for f in OBSERVABLES.values()], rtol=1e-12
        )
    assert len(traced) == 1
