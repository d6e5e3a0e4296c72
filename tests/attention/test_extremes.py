"""beta from 0 to 10^4 for SA and USA: finite, silent, right against mpmath."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from cases import velocity

import tokenfield as tkf
from tokenfield.attention import Measure

BETAS = [0.0, 1e-8, 1.0, 50.0, 700.0, 1e4]
ANGLES = [0.0, 0.01, 0.3, 2.0, 4.5]


def exact_velocity(beta, normalized, log_unit):
    """SA or USA on the circle in 60 digits, divided by e^{log_unit}."""
    with mpmath.workdps(60):
        x = [(mpmath.cos(mpmath.mpf(a)), mpmath.sin(mpmath.mpf(a))) for a in ANGLES]
        out = []
        for xi in x:
            weights = [mpmath.exp(mpmath.mpf(beta) * (xi[0] * xj[0] + xi[1] * xj[1]) - log_unit) for xj in x]
            total = sum(weights) if normalized else len(x)
            g = [sum(weight * xj[k] for weight, xj in zip(weights, x, strict=True)) / total for k in (0, 1)]
            inner = g[0] * xi[0] + g[1] * xi[1]
            out.append([float(g[k] - inner * xi[k]) for k in (0, 1)])
        return np.array(out)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("kind", ["Softmax", "Unnormalized"])
def test_velocity_is_finite_and_right(beta, kind):
    attention = getattr(tkf, kind)(beta=beta)
    log_unit = float(attention.log_unit)
    assert log_unit == (beta if kind == "Unnormalized" and beta > 30 else 0)
    model = tkf.Transformer(attention, norm=tkf.PostLN())
    expected = exact_velocity(beta, kind == "Softmax", log_unit)
    # Rounding of a cosine by 1e-16 moves e^{beta cos} by beta * 1e-16.
    atol = (1 + beta) * 5e-16 * max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(velocity(model, tkf.circle_tokens(ANGLES)), expected, rtol=0, atol=atol)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["Softmax", "Unnormalized"])
def test_runs_at_every_beta(kind):
    """Two tokens obey rho' = 2 c (1-rho^2) with c = 1/(1+e^{beta(1-rho)}) for SA, e^{beta rho}/2 for USA."""
    from scipy.integrate import solve_ivp

    rho0 = np.cos(0.01)
    for beta in BETAS:
        attention = getattr(tkf, kind)(beta=beta)
        unit = float(attention.log_unit)

        def rate(t, rho, beta=beta, unit=unit):
            c = 1 / (1 + np.exp(beta * (1 - rho))) if kind == "Softmax" else np.exp(beta * rho - unit) / 2
            return 2 * c * (1 - rho**2)

        expected = solve_ivp(rate, (0, 2.0), [rho0], rtol=1e-12, atol=1e-14).y[0, -1]
        model = tkf.Transformer(attention, norm=tkf.PostLN())
        traj = tkf.simulate(model, tkf.circle_tokens([0.0, 0.01]), t1=2.0, rtol=0, atol=1e-11, save_at=2)
        assert traj.log_time_unit == -unit
        x = np.asarray(traj.final.x)
        assert abs(x[0] @ x[1] - expected) < 1e-10


def test_energies_at_every_beta():
    state = tkf.circle_tokens(ANGLES)
    x = np.asarray(state.x)
    for beta in BETAS[1:]:
        with mpmath.workdps(40):
            cosines = [
                mpmath.fsum(mpmath.mpf(a) * mpmath.mpf(b) for a, b in zip(p, q, strict=True)) for p in x for q in x
            ]
            mean = mpmath.fsum(mpmath.exp(beta * (c - 1)) for c in cosines) / 25
            plain = mpmath.fsum(mpmath.exp(beta * c) for c in cosines) / 50 / beta
            centered = mpmath.fsum(mpmath.expm1(beta * c) for c in cosines) / 50 / beta
        rtol = 1e-14 + 1e-15 * beta
        np.testing.assert_allclose(tkf.normalized_energy(state, beta), float(mean), rtol=rtol)
        if beta < 700:
            np.testing.assert_allclose(tkf.energy(state, beta), float(plain), rtol=rtol)
            np.testing.assert_allclose(tkf.energy(state, beta, centered=True), float(centered), rtol=rtol + 1e-13)
    np.testing.assert_allclose(tkf.energy(state, 0.0), 0.5 * np.sum(x.mean(axis=0) ** 2), rtol=1e-14)
    with pytest.raises(ValueError, match="use normalized_energy"):
        tkf.energy(tkf.circle_tokens([0.0, 0.0]), 1e4)


@pytest.mark.parametrize("causal", [False, True])
def test_tokens_of_weight_zero_or_out_of_sight_may_score_beyond_all_range(causal):
    """A far token that nobody sees changes no other, and itself averages what it sees."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [60.0, 80.0]])
    weights = [0.5, 0.5, 0.0]
    attention = tkf.Softmax(A=np.eye(2), causal=causal)
    found = np.asarray(
        attention.of_itself(jnp.zeros(()), Measure(jnp.asarray(x), jnp.asarray(weights), jnp.arange(3.0)))
    )
    p = np.exp(x @ x[:2].T - (x @ x[:2].T).max(1, keepdims=True)) * (
        np.arange(2) <= np.arange(3)[:, None] if causal else 1
    )
    np.testing.assert_allclose(found, p @ x[:2] / p.sum(1, keepdims=True), atol=1e-15)


@pytest.mark.slow
def test_scores_beyond_all_range_are_never_taken_for_no_scores():
    """Free softmax tokens grow like e^t. Where scores overflow, to -inf too, the run ends in an error, not at rest."""
    for n, d in ((1, 2), (5, 1), (3, 2)):
        with pytest.raises(tkf.SolverError, match=r"norm=Rescaled\(\)"):
            tkf.simulate(tkf.Transformer(tkf.Softmax(1.0)), tkf.gaussian_tokens(n, d, seed=0), 1000.0, save_at=2)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_row_of_infinite_scores_is_not_a_row_of_zeros(sign):
    x = np.array([[1e200], [2e200], [4e200]])
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = tkf.attention_matrix(tkf.Tokens(x), tkf.Softmax(beta=sign * 1e200))
    assert not np.isfinite(matrix).all() or np.allclose(matrix.sum(1), 1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1e12, 1e60])
def test_tokens_far_apart_on_a_line(size, causal):
    """A compiled program may round a score otherwise than the largest one of its row: the difference is exactly 0 all the same."""
    x, u = np.random.default_rng(0).standard_normal((2, 17, 1))
    x, sees = size * x, np.arange(17) <= np.arange(17)[:, None] if causal else True
    attention, weights = tkf.Softmax(A=[[0.7]], causal=causal), jnp.full(17, 1 / 17)

    @jax.jit
    def average(x, u):
        one = lambda x: attention.of_itself(jnp.zeros(()), Measure(x, weights, jnp.arange(17.0)))  # noqa: E731
        return jax.jvp(one, (x,), (u,))

    value, slope = average(jnp.asarray(x), jnp.asarray(u))
    best = np.where(sees, x @ x.T, -np.inf).argmax(1)
    np.testing.assert_allclose(value, x[best], rtol=1e-14)
    np.testing.assert_allclose(slope, u[best], rtol=1e-14)
