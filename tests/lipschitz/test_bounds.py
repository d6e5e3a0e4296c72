"""Lipschitz bounds against the derivative of the attention itself, and the score gap against search."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import tokenfield as tkf
from tokenfield.attention import Measure
from tokenfield.lipschitz import bounds, score_gap

DIAGONAL = np.diag([-1.0, 0.5])


@partial(jax.jit, static_argnames="causal")
def jacobian(x, A, V, causal):
    n = len(x)
    kernel = tkf.Softmax(A=A, V=V, causal=causal)
    return jax.jacobian(
        lambda x: kernel.of_itself(jnp.zeros(()), Measure(x, jnp.full(n, 1 / n), jnp.arange(float(n))))
    )(x)


def local_constant(x, A, V=None, causal=False):
    """The largest singular value of the derivative of `X -> Gamma(X)`, by automatic differentiation."""
    n, d = np.shape(x)
    derivative = np.asarray(jacobian(*map(jnp.asarray, (x, A, np.eye(d) if V is None else V)), causal))
    return np.linalg.svd(derivative.reshape(-1, n * d), compute_uv=False)[0]


def attaining(A, R, n, across=None):
    """Token 1 at `R Au/|Au|`, the others at `R u`."""
    u = score_gap(A, across)[1]
    return np.vstack([R * A @ u / np.linalg.norm(A @ u), np.tile(R * u, (n - 1, 1))])


def by_search(A, starts=12, seed=0):
    """`max (|Au| - <u,Au>)` by ascent from many starts."""
    rng, best = np.random.default_rng(seed), 0.0

    def loss(u):
        u = u / max(1.0, np.linalg.norm(u))
        return -(np.linalg.norm(A @ u) - u @ A @ u)

    for _ in range(starts):
        u = rng.normal(size=len(A))
        u *= rng.uniform(0.2, 1) / np.linalg.norm(u)
        found = minimize(loss, u, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 3000})
        best = max(best, -found.fun)
    return best


def test_the_published_example():
    found = bounds(DIAGONAL, None, R=1.5, n=5)
    assert found.lower == pytest.approx(1.91491, abs=5e-6)
    assert found.upper == pytest.approx(18.274, abs=5e-4)
    assert found.gap == pytest.approx(2.0, rel=1e-13)
    x = attaining(DIAGONAL, 1.5, 5)
    assert local_constant(x, DIAGONAL) == pytest.approx(2.34185, abs=5e-6)
    assert local_constant(x, DIAGONAL, causal=True) == pytest.approx(2.41953, abs=5e-6)


def test_formulas_with_another_A_V_R_and_n():
    A, V, R, n = np.array([[0.0, 2.0], [0.0, 0.0]]), np.diag([3.0, 1.0]), 1.6, 19
    found = bounds(A, V, R, n)
    assert found.upper == pytest.approx(math.sqrt(3) * 3 * math.sqrt(4 * 1.6**4 * 77 + 19), rel=1e-14)
    assert found.mean_field == pytest.approx(3 * (1 + 6 * 2.56) * math.exp(4 * 2.56), rel=1e-14)
    assert found.log_mean_field == pytest.approx(math.log(found.mean_field), rel=1e-14)
    # u = (-sin, cos): |Au| - <u,Au> = 2 cos + 2 sin cos is largest at 30 degrees, 3 sqrt(3)/2; Au is along e_1, so e = e_2.
    assert found.gap == pytest.approx(1.5 * math.sqrt(3), rel=1e-13)
    weight = 1 / (1 + 18 * math.exp(-2.56 * 1.5 * math.sqrt(3)))
    assert found.lower == pytest.approx(math.sqrt(18) * weight * 1.0, rel=1e-13)
    assert "less than |V| = 3" in found.notes[0]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("d", [2, 3])
def test_bounds_hold_where_the_lower_one_is_attained(seed, d):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d)) * rng.uniform(0.3, 2)
    V = None if seed % 2 else rng.normal(size=(d, d))
    n, R = (2, 5, 8)[seed % 3], rng.uniform(0.5, 1.5)
    found = bounds(A, V, R, n)
    across = None if V is None else np.linalg.svd(V)[2][0]
    x = attaining(A, R, n, across)
    assert np.linalg.norm(x, axis=1).max() <= R * (1 + 1e-12)
    for causal in (False, True):
        local = local_constant(x, A, V, causal)
        together = local_constant(np.tile(x[0], (n, 1)), A, V, causal)  # n tokens at one place: |V|, or more if masked
        assert (1.0 if V is None else np.linalg.norm(V, 2)) <= found.lower <= max(local, together) * (1 + 1e-12)
        assert max(local, together) <= found.upper
    inside = rng.normal(size=(n, d))
    inside *= R / np.linalg.norm(inside, axis=1, keepdims=True)
    assert local_constant(inside, A, V) <= found.upper


def test_lower_bound_is_nearly_attained_for_many_tokens():
    """Far tokens put all weight on one: the bound and the true constant meet at sqrt(n-1)."""
    found, x = bounds(DIAGONAL, None, 3.0, 12), attaining(DIAGONAL, 3.0, 12)
    assert found.lower == pytest.approx(math.sqrt(11), rel=1e-5)
    assert local_constant(x, DIAGONAL) == pytest.approx(found.lower, rel=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_score_gap_of_any_matrix(seed):
    rng = np.random.default_rng(seed)
    d = 2 + seed % 3
    A = rng.normal(size=(d, d))
    if seed % 4 == 1:
        A = A @ A.T + 0.3 * (A - A.T)
    if seed % 4 == 2:
        A = np.outer(A[0], A[1])
    g, u = score_gap(A)
    assert np.linalg.norm(u) <= 1 + 1e-14
    assert np.linalg.norm(A @ u) - u @ A @ u == pytest.approx(g, rel=1e-13)
    assert g == pytest.approx(by_search(A), rel=1e-8)
    real = np.linalg.eigvals(A)
    real = real[np.abs(real.imag) < 1e-12].real
    assert g >= 2 * max([0, *-real, *(real / 8)]) * (1 - 1e-13)


@pytest.mark.parametrize(
    ("eigenvalues", "gap"),
    [
        ((-1.0, 0.5), 2.0),
        ((-1.0, 3.0), 2.0),
        ((-1.0, 0.2, 5.0), 1.0 + 5 / 4),
        ((1.0, 4.0), 1.0),
        ((0.0, 4.0), 1.0),
        ((-3.0, -1.0), 6.0),
        ((2.0, 2.0), 0.5),
        ((-2.0, -2.0, 1.0), 4.0),
        ((0.0, 0.0), 0.0),
    ],
)
def test_score_gap_of_a_symmetric_matrix(eigenvalues, gap):
    """`2a` if b <= 3a, else `(b-a)/4 + ab/(b-a)`, for extreme eigenvalues -a <= 0 <= b."""
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(len(eigenvalues),) * 2))[0]
    A = rotation @ np.diag(eigenvalues) @ rotation.T
    assert score_gap(A)[0] == pytest.approx(gap, rel=1e-12)


def test_a_maximizer_is_chosen_for_the_sake_of_V():
    """A = -I: every unit u is a maximizer, so Au can be orthogonal to the direction that V stretches most."""
    V = np.diag([1.0, 4.0, 2.0]) @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert bounds(-2.0, V, 1.0, 6).lower == pytest.approx(4 * math.sqrt(5) / (1 + 5 * math.exp(-4)), rel=1e-12)
    assert bounds(8.0, V, 1.0, 6).lower == pytest.approx(4 * math.sqrt(5) / (1 + 5 * math.exp(-2)), rel=1e-12)


def test_numbers_stand_for_multiples_of_the_identity():
    for a in (-1.5, 0.0, 2.0):
        matrix = bounds(a * np.eye(4), 3 * np.eye(4), 0.8, 7)
        number = bounds(a, 3.0, 0.8, 7, d=4)
        np.testing.assert_allclose(number[:4], matrix[:4], rtol=1e-13)
        np.testing.assert_allclose(bounds(a, -3.0, 0.8, 7)[:4], matrix[:4], rtol=1e-13)


def test_on_the_line():
    """d = 1: no direction is orthogonal to Au, and the bound still holds."""
    for a in (-1.0, 2.0):
        A, V = np.array([[a]]), np.array([[-2.0]])
        found = bounds(A, V, 1.2, 6)
        assert 2 <= found.lower <= local_constant(attaining(A, 1.2, 6), A, V) <= found.upper


def test_edges():
    alone = bounds(1.0, 2.0, 1.0, 1)
    assert alone.lower == 2
    assert local_constant(np.ones((1, 2)) / 2, np.eye(2), 2 * np.eye(2)) == pytest.approx(2.0, rel=1e-12)
    assert "|V| = 2" in alone.notes[0]
    huge = bounds(1e4, None, 1.0, 50)
    assert huge.mean_field == math.inf
    assert huge.log_mean_field == pytest.approx(2e4 + math.log(30_001), rel=1e-14)
    assert any("mean_field" in note for note in huge.notes)
    still = bounds(3.0, None, 0.0, 4)
    assert (still.upper, still.lower, still.mean_field) == pytest.approx((math.sqrt(12), 1.0, 1.0))
    assert bounds(1.0, 0.0, 1.0, 3)[:3] == (0.0, 0.0, 0.0)


def test_bounds_from_the_tokens_written_out():
    """A = diag(2, 0), V = 3: tokens (0,0), (1,0), (0,2): a = 2, b = 2, D = sqrt 5."""
    x, A = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), np.diag([2.0, 0.0])
    found = bounds(A, 3.0, 2.0, 3, x=x)
    D = math.sqrt(5)
    assert found.data == pytest.approx(3 * (math.sqrt(3) * (1 + 2 * D) + 2 * D), rel=1e-11)
    # Rows: 1/3 each for tokens 1 and 3; token 2 scores (0, 2, 0).
    column = 2 / 3 + math.exp(2) / (math.exp(2) + 2)
    assert found.sharp_data == pytest.approx(3 * (math.sqrt(column) * (1 + D) + D / 2), rel=1e-11)
    assert tkf.lipschitz.data_bounds(tkf.Softmax(A=A, V=3.0), x) == pytest.approx((found.data, found.sharp_data))
    heads = tkf.MultiHead([tkf.Softmax(A=A, V=3.0)] * 2, outputs=[1.0, -2.0])
    assert tkf.lipschitz.data_bounds(heads, x) == pytest.approx((3 * found.data, 3 * found.sharp_data))


def test_a_printed_bound_fails_where_ours_holds():
    """`|V| sqrt(max|Ax_i|^2 D^2 (n+1) + n)` with A = [[0,0],[10,0]], x = (0,±1): 1.41, but the constant is 10.1."""
    A, x = np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])
    local, D = local_constant(x, A), 2.0
    printed = math.sqrt(np.linalg.norm(x @ A.T, axis=1).max() ** 2 * D**2 * 3 + 2)
    found = bounds(A, None, 1.0, 2, x=x)
    assert local == pytest.approx(10.1, abs=0.05)
    assert printed < local < found.sharp_data < found.data


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("causal", [False, True])
def test_every_bound_holds_on_random_tokens(seed, causal):
    rng = np.random.default_rng(100 + seed)
    n, d = 6, 3
    A, V = rng.normal(size=(d, d)) * rng.uniform(0.1, 4), rng.normal(size=(d, d))
    x = rng.normal(size=(n, d)) * rng.uniform(0.1, 2) + rng.normal(size=d) * rng.choice([0, 2])
    w = rng.uniform(0.2, 1, n) if seed % 2 else np.ones(n)
    state = tkf.Tokens(x, w / w.sum())
    head = tkf.Softmax(A=A, V=V, causal=causal)
    constant = tkf.lipschitz.local(head, state).constant
    found = tkf.lipschitz.data_bounds(head, state)
    assert constant <= found.sharp_data <= found.data
    if not seed % 2:
        whole = bounds(A, V, np.linalg.norm(x, axis=1).max(), n, x=x)
        assert max(constant, whole.lower) <= whole.sharp_upper <= whole.upper
        assert whole.sharp_data <= whole.sharp_upper * (1 + 1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 1000])
@pytest.mark.parametrize("a", [0.0, 0.1, 1.0, 30.0])
def test_the_sharp_bound_is_below_the_published_one(a, n):
    found = bounds(a, 2.0, 1.3, n)
    assert found.sharp_upper == pytest.approx(2 * (math.sqrt(n) * (1 + 1.69 * a) + 1.69 * a), rel=1e-14)
    assert found.sharp_upper < found.upper


def test_the_sharp_bound_is_near_the_truth():
    """The search finds 40 % of it (the published bound is twice as far)."""
    worst = tkf.lipschitz.adversarial(tkf.Softmax(A=DIAGONAL), 5, 1.5)
    assert worst.constant > 0.35 * worst.bounds.sharp_upper


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds([[1.0, 0.0]], None, 1.0, 3), r"A must have shape \(2, 2\)"),
        (lambda: bounds(np.eye(3), np.eye(2), 1.0, 3), r"V must have shape \(dv, 3\)"),
        (lambda: bounds(np.eye(3), None, 1.0, 3, d=2), r"A must have shape \(2, 2\) .* got \(3, 3\)"),
        (lambda: bounds([[math.nan]], None, 1.0, 3), "A must be finite"),
        (lambda: bounds(1.0, None, -1.0, 3), "R must be finite and >= 0, got -1.0"),
        (lambda: bounds(1.0, None, 1.0, 0), "n must be a whole number >= 1, got 0"),
        (lambda: bounds(1.0, None, 1.0, 3, x=np.eye(2)), r"x must have shape \(3, d\), got \(2, 2\)"),
        (lambda: bounds(np.eye(3), None, 1.0, 2, x=np.eye(2)), r"A must have shape \(2, 2\)"),
        (lambda: bounds(1.0, None, 0.5, 2, x=np.eye(2)), "x must lie within R = 0.5, got a token of length 1"),
        (lambda: tkf.lipschitz.data_bounds(tkf.L2(), np.eye(2)), "attention must be Softmax or a MultiHead of Softmax"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
