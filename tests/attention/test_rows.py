"""Rows of normalized kernels against loops in extended precision: any sharpness, any weights, any distance from the origin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.attention import Measure, base, series

LONG = np.longdouble


def rows(scores, w, seen=None):
    """`w_j e^{s_ij} / sum_j w_j e^{s_ij}` over the visible tokens of positive weight."""
    seen = (w > 0) & (np.ones_like(scores, bool) if seen is None else seen)
    s = np.where(seen, scores, -np.inf)
    p = w.astype(LONG) * np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def draw(rng, n, d):
    """Unit tokens, spread or in clusters, and weights, of which some may be 0 or tiny."""
    x = rng.standard_normal((rng.integers(1, n + 1) if rng.random() < 0.5 else n, d))
    x = x[np.arange(n) % len(x)] + rng.choice([0, 1e-9, 1e-4, 0.05]) * rng.standard_normal((n, d))
    w = [np.ones(n), rng.dirichlet(np.full(n, 0.05)), 10.0 ** rng.uniform(-300, 0, n), rng.random(n) > 0.5][
        rng.integers(4)
    ]
    w = np.asarray(w, float) if np.sum(w) > 0 else np.ones(n)
    return x / np.linalg.norm(x, axis=1, keepdims=True), w / w.sum()


@jax.jit
def on_the_sphere(beta, x, w):
    return tkf.Softmax(beta).of_itself(jnp.zeros(()), Measure(x, w, jnp.arange(len(x)) / len(x)), unit=True)


def check_on_the_sphere(x, w, beta, precise=LONG):
    expected = rows(LONG(beta) * (x.astype(precise) @ x.T.astype(precise)), w).astype(precise) @ x
    # A cosine is rounded by some 1e-16, which moves e^{beta cos} by beta times that.
    np.testing.assert_allclose(
        on_the_sphere(beta, x, w), expected.astype(float), rtol=0, atol=1e-14 + 1e-15 * abs(beta)
    )


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 3), (7, 2), (40, 3)])
def test_softmax_on_the_sphere_at_any_beta_and_weights(n, d):
    rng = np.random.default_rng(n)
    for _ in range(60):
        beta = 10 ** rng.uniform(-3, 4) * rng.choice([-1, 1])
        check_on_the_sphere(*draw(rng, n, d), beta)


@pytest.mark.parametrize("d", [3, 257], ids=["strips", "blocks"])
def test_softmax_on_the_sphere_in_blocks(d):
    rng, n = np.random.default_rng(d), 1100
    x = np.eye(d)[0] + 0.05 * rng.standard_normal((n, d)) / np.sqrt(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.random(n) * (x[:, 1] > 0)  # tokens of weight 0 look at others from a distance
    for beta in (-1e4, -500.0, 3e3):
        check_on_the_sphere(x, w / w.sum(), beta, float)


def test_a_member_of_a_batch_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    x, w = (np.stack(part) for part in zip(*(draw(rng, 7, 2) for _ in range(3)), strict=True))
    run = jax.jit(jax.vmap(on_the_sphere))
    alone, beside = (np.asarray(run(jnp.asarray([2.0, beta, 9.0]), x, w)) for beta in (4.0, -1e4))
    np.testing.assert_array_equal(alone[[0, 2]], beside[[0, 2]])
    np.testing.assert_allclose(beside[1], on_the_sphere(-1e4, x[1], w[1]), rtol=0, atol=1e-11)


@pytest.mark.parametrize("beta", [-500.0, 900.0])
def test_derivatives_where_rows_underflow(beta):
    rng = np.random.default_rng(1)
    x, w = draw(rng, 7, 3)[0], np.array([0, 0, 0.3, 0.2, 0.5, 0, 0])
    e, u = 1e-6 * rng.standard_normal((2, 7, 3))
    f = lambda x: jnp.vdot(u, on_the_sphere(beta, x, w))  # noqa: E731
    difference = float(f(x + e) - f(x - e)) / 2
    assert float(jax.jvp(f, (x,), (e,))[1]) == pytest.approx(difference, rel=1e-4)
    assert float(jnp.vdot(jax.grad(f)(x), e)) == pytest.approx(difference, rel=1e-4)


@pytest.mark.parametrize("kind", ["Softmax", "L2"])
def test_many_rows_at_any_distance(kind, monkeypatch):
    """Without a search for the largest score: blocks of rows in range, blocks with some rows out of it, and derivatives."""
    monkeypatch.setattr(base, "BLOCK_ENTRIES", 0)
    monkeypatch.setattr(base, "ENTRIES", 1)  # blocks of 16 rows
    rng, n, d = np.random.default_rng(5), 9, 3
    x, y, w = rng.standard_normal((80, d)), rng.standard_normal((n, d)), np.r_[0.0, rng.dirichlet(np.ones(n - 1))]
    far = np.ones((80, 1))
    far[[20, 40, 41, 60], 0] = 1e3, 1e9, 1e150, 1e300
    head = tkf.Softmax(0.7) if kind == "Softmax" else tkf.L2(0.7)
    average = jax.jit(lambda x, y: head(jnp.zeros(()), x, Measure(y, jnp.asarray(w), jnp.arange(n) / n)))
    for length in (1.0, 1e6):  # of a key of weight 0, which must not be seen
        y[0] *= length
        X, Y = (far * x).astype(LONG), y.astype(LONG)
        s = LONG(0.7) * (X @ Y.T if kind == "Softmax" else 2 * X @ Y.T - (Y * Y).sum(1))
        np.testing.assert_allclose(average(far * x, y), (rows(s, w) @ Y).astype(float), rtol=0, atol=1e-13)
    assert (np.isnan(average(np.where(far > 1e3, np.nan, x), y)).all(1) == (far[:, 0] > 1e3)).all()
    if kind == "Softmax":
        u, e = rng.standard_normal((80, d)), 1e-6 * rng.standard_normal((n, d))
        value = lambda y: jnp.vdot(u, average(x, y))  # noqa: E731
        for keys in (rng.standard_normal((n, d)), y):  # in range, and all rows out of it
            difference = float(value(keys + e) - value(keys - e)) / 2
            assert float(jax.jvp(value, (keys,), (e,))[1]) == pytest.approx(difference, rel=1e-6)
            assert float(jnp.vdot(jax.grad(value)(keys), e)) == pytest.approx(difference, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_series_are_used_only_where_their_absolute_accuracy_is_enough(d):
    """Some 1e-15 of the largest possible sum: too little where a token of weight 0, or any for beta < 0, sees far less."""
    n, rng = {2: 1000, 3: 6000}[d], np.random.default_rng(d)
    x = np.eye(d)[0] + 0.02 * rng.standard_normal((n, d))
    x[0] = -np.eye(d)[0]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    hidden = np.where(np.arange(n) > 0, 1.0, 0.0) / (n - 1)
    used = []
    for beta, w in [
        (25.0, hidden),
        (-25.0, np.full(n, 1 / n)),
        (25.0, np.full(n, 1 / n)),
        (-1.0, hidden),
        (1.0, hidden),
    ]:
        made = series.by_series(tkf.Softmax(beta), x, w, 1e-9)
        used.append(made is not made.heads[0])
        if used[-1]:
            expected = rows(beta * (x[:4] @ x.T), w) @ x
            found = made.of_itself(
                jnp.zeros(()), Measure(jnp.asarray(x), jnp.asarray(w), jnp.arange(n) / n), unit=True
            )[:4]
            np.testing.assert_allclose(found, expected.astype(float), rtol=0, atol=1e-9)
    assert used == [False, False, True, True, True]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["L2", "L2-QK", "Softmax", "Sinkhorn"])
def test_coefficients_far_from_the_origin(kind, causal):
    """Of tokens as they are in double precision: an offset costs no digits that scores do not lose themselves."""
    if causal and kind == "Sinkhorn":
        return
    rng, n, d = np.random.default_rng(3), 9, 3
    Q = rng.standard_normal((2, d))
    K = Q if kind == "L2-QK" else rng.standard_normal((2, d))
    w = np.r_[0.0, rng.dirichlet(np.ones(n - 1))]
    seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), bool)
    for offset in (0.0, 1e3, 1e6, 1e8):
        scale = (
            1 / max(offset, 1) if kind == "Softmax" else 1.0
        )  # its scores grow with the offset, so tokens come closer
        x = offset * np.array([0.6, -0.3, 0.7]) + scale * rng.standard_normal((n, d))
        X, centered = x.astype(LONG), x.astype(LONG) - x.mean(0)
        if kind == "L2":
            attention, s = tkf.L2(beta=0.7, causal=causal), -LONG(0.7) * ((X[:, None] - X) ** 2).sum(-1)
        elif kind == "L2-QK":
            attention, s = tkf.L2(Q=Q, K=K, causal=causal), -(((X @ Q.T)[:, None] - X @ K.T) ** 2)
            s = s.sum(-1)
        elif kind == "Softmax":
            attention, s = (
                tkf.Softmax(Q=Q, K=K, causal=causal),
                (X @ Q.T) @ (centered @ K.T).T,
            )  # the rest is a constant in each row
        else:
            attention, s = tkf.Sinkhorn(Q=Q, K=K, tolerance=1e-12), (centered @ Q.T) @ (centered @ K.T).T
        found = attention.average_of_itself(
            jnp.zeros(()), Measure(jnp.asarray(x), jnp.asarray(w), jnp.arange(n) / n), jnp.eye(n)
        )
        if kind == "Sinkhorn":
            g = np.zeros(n)
            for _ in range(3000):
                f = np.log(np.exp(s + g) @ w.astype(LONG))
                g = -np.log(w.astype(LONG) @ np.exp(s - f[:, None]))
            s = s + g
        first = 1 if causal else 0  # the first token has weight 0: under a mask it sees nothing
        expected = rows(s[first:], w, seen[first:])
        np.testing.assert_allclose(
            np.asarray(found)[first:], expected.astype(float), rtol=0, atol=1e-8 if offset > 1e6 else 1e-9
        )
        assert np.abs(expected - w).max() > 0.05
