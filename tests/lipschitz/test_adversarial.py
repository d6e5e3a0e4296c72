"""The worst tokens: the explicit ones, and what the search makes of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import tokenfield as tkf
from tokenfield.attention import Measure
from tokenfield.lipschitz import adversarial, local

DIAGONAL = np.diag([-1.0, 0.5])


@pytest.mark.parametrize(("causal", "explicit"), [(False, 2.34185), (True, 2.41953)])
def test_the_search_goes_beyond_the_explicit_tokens(causal, explicit):
    attention = tkf.Softmax(A=DIAGONAL, causal=causal)
    found = adversarial(attention, 5, 1.5)
    assert found.explicit_constant == pytest.approx(explicit, abs=5e-6)
    np.testing.assert_allclose(np.abs(found.explicit), [[1.5, 0]] * 5, atol=1e-12)
    assert found.constant == local(attention, found.x).constant
    assert found.constant > 1.4 * explicit
    assert found.bounds.lower < found.constant < found.bounds.sharp_upper
    assert np.linalg.norm(found.x, axis=1).max() <= 1.5 * (1 + 1e-12)
    again = adversarial(attention, 5, 1.5)
    assert (again.x == found.x).all()


def test_tokens_of_half_length_for_a_positive_matrix():
    """A = 8 I: others at R u/2 see the first at R u."""
    found = adversarial(tkf.Softmax(beta=8.0), 4, 1.0, starts=1, steps=1)
    np.testing.assert_allclose(np.linalg.norm(found.explicit, axis=1), [1, 0.5, 0.5, 0.5], rtol=1e-12)
    assert found.constant >= found.explicit_constant >= found.bounds.lower * (1 - 1e-12)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize(
    "attention",
    [
        tkf.L2(beta=1.0),
        tkf.MultiHead([tkf.Softmax(A=np.diag([1.0, -2.0, 0.5])), tkf.Sigmoid(beta=2.0)]),
        tkf.Linear(A=np.diag([1.0, -2.0, 0.5])),
        tkf.Softmax(A=np.zeros((2, 2)), V=np.diag([2.0, 1.0])),
    ],
)
def test_other_kernels(attention):
    found = adversarial(attention, 4, 1.2, starts=3, steps=60)
    assert np.linalg.norm(found.x, axis=1).max() <= 1.2 * (1 + 1e-12)
    values = [value for value in (found.explicit_constant, *found.found) if value is not None]
    assert found.constant == max(values)
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = rng.standard_normal(found.x.shape)
        x *= 1.2 * rng.uniform() / np.linalg.norm(x, axis=1, keepdims=True)
        assert local(attention, x).constant <= found.constant * (1 + 1e-9)
    if isinstance(attention, tkf.L2):
        assert found.explicit is None
        assert found.bounds is None


def test_linear_attention_has_a_known_maximum():
    """d = 1, `f_i = a x_i mean(x^2)`: D = a mean(x^2) I + (2a/n) x x^T is largest with all tokens at R, 3aR^2."""
    found = adversarial(tkf.Linear(A=[[2.0]]), 3, 1.5, starts=3, steps=200)
    assert found.constant == pytest.approx(3 * 2 * 1.5**2, rel=1e-6)


def softmax_constant(x, A, V, causal):
    """|D_X f|_2 from the formula of the derivative (FORMULAS §6), token by token."""
    n, d = x.shape
    D = np.zeros((n, len(V), n, d))
    for i in range(n):
        seen = range(i + 1 if causal else n)
        s = np.array([A @ x[i] @ x[j] for j in seen])
        p = np.exp(s - s.max())
        p /= p.sum()
        m = sum(p[j] * x[j] for j in seen)
        for j in seen:
            D[i, :, j] += V @ (p[j] * (np.eye(d) + np.outer(x[j] - m, A @ x[i])))
            D[i, :, i] += V @ (p[j] * np.outer(x[j] - m, x[j]) @ A)
    return np.linalg.norm(D.reshape(n * len(V), n * d), 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3])
def test_a_search_without_gradients_finds_no_more(seed):
    rng = np.random.default_rng(seed)
    n, d, causal = 4, 2, seed % 3 == 0
    A, V, R = rng.standard_normal((d, d)) * 2, rng.standard_normal((d, d)), rng.uniform(0.8, 1.5)
    found = adversarial(tkf.Softmax(A=A, V=V, causal=causal), n, R)
    assert found.constant == pytest.approx(softmax_constant(found.x, A, V, causal), rel=1e-9)
    ball = lambda y: R * (y := y.reshape(n, d)) / np.maximum(1, np.linalg.norm(y, axis=1, keepdims=True))  # noqa: E731
    loss = lambda y: -softmax_constant(ball(y), A, V, causal)  # noqa: E731
    for start in (found.x / R, *rng.standard_normal((4, n, d))):
        best = minimize(loss, start.ravel(), method="Powell", options={"maxiter": 12, "ftol": 1e-7})
        assert -best.fun <= found.constant * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_search_in_sinkhorn_attention(symmetric):
    """The derivative that the search follows is that of the coupling: against differences, to second order."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal((2, 2))
    attention = tkf.Sinkhorn(A=A + A.T if symmetric else A, tolerance=1e-12)
    w, x, e, u = jnp.asarray([0.4, 0.3, 0.3, 0.0]), *jnp.asarray(rng.standard_normal((3, 4, 2)))
    f = lambda x, w=w: attention.of_itself(jnp.zeros(()), Measure(x, w, jnp.arange(4.0)))  # noqa: E731
    central = lambda g, h=1e-4: (8 * (g(h) - g(-h)) - (g(2 * h) - g(-2 * h))) / (12 * h)  # noqa: E731
    moved = jax.jvp(f, (x,), (e,))[1]
    np.testing.assert_allclose(moved, central(lambda h: f(x + h * e)), rtol=0, atol=1e-9)
    pull = jax.grad(lambda x: jnp.vdot(u, f(x)))
    assert float(jnp.vdot(pull(x), e)) == pytest.approx(float(jnp.vdot(u, moved)), rel=1e-10)
    np.testing.assert_allclose(jax.jvp(pull, (x,), (e,))[1], central(lambda h: pull(x + h * e)), rtol=0, atol=1e-8)
    dw = jnp.asarray([0.1, -0.3, 0.2, 0.0])
    by_weight = jax.jvp(lambda w: f(x, w), (w,), (dw,))[1]
    np.testing.assert_allclose(by_weight, central(lambda h: f(x, w + h * dw)), rtol=0, atol=1e-9)
    found = adversarial(attention, 3, 1.0, starts=3, steps=40)
    assert found.constant >= max(1, found.explicit_constant)


def test_tokens_without_a_derivative_do_not_end_the_search():
    """Sinkhorn has no coupling there in so few iterations; a smaller ball is in the larger one."""
    attention = tkf.Sinkhorn(beta=4.0, max_iterations=300)
    found = adversarial(attention, 3, 3.0, d=2, starts=10, steps=40)
    assert np.isfinite(found.constant)
    assert found.constant == local(attention, found.x).constant == np.nanmax([*found.found, found.explicit_constant])
    assert found.constant > 1.3
    with pytest.raises(ValueError, match="R: the derivative overflows at all tokens tried"):
        adversarial(tkf.Unnormalized(beta=1.0, V=1e300), 3, 1e30, d=2, starts=2, steps=2)


@pytest.mark.slow
def test_many_tokens_do_no_less_than_two():
    """Two clusters of tokens are stretched as two tokens are."""
    few, many = (adversarial(tkf.Sinkhorn(beta=1.0), n, 1.0, d=3, starts=10, steps=60).constant for n in (2, 12))
    assert many > 0.999 * few > 1.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adversarial("softmax", 3, 1.0), "attention must be an attention .* got 'softmax'"),
        (lambda: adversarial(tkf.Softmax(), 1, 1.0), "n must be a whole number >= 2, got 1"),
        (lambda: adversarial(tkf.Softmax(), 3, 0.0), "R must be finite and > 0, got 0.0"),
        (lambda: adversarial(tkf.Softmax(), 3, np.nan), "R must be finite and > 0, got nan"),
        (lambda: adversarial(tkf.Softmax(A=np.eye(3)), 3, 1.0, d=2), "d must be 3, the width of A, got 2"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
