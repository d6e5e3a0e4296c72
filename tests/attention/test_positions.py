"""Rules for positions: naive loops over all pairs, and what each rule must not see (FORMULAS §13)."""

import itertools
import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tokenfield.attention import Measure
from tokenfield.flows import segments

N, D = 7, 4
RNG = np.random.default_rng(3)
A, V = RNG.standard_normal((2, D, D))
MATRIX = RNG.standard_normal((N, N))
X, W = RNG.standard_normal((N, D)), RNG.dirichlet(np.ones(N))
S = np.array([0.9, 0.1, 0.4, 0.4, 0.7, 0.2, 1.0])  # not in order, and two are the same
PHI = {
    "softmax": math.exp,
    "unnormalized": math.exp,
    "linear": lambda s: s,
    "relu": lambda s: max(s, 0.0),
    "sigmoid": lambda s: 1 / (1 + math.exp(-s)),
    "squared relu": lambda s: max(s, 0.0) ** 2,
    "normalized sigmoid": lambda s: 1 / (1 + math.exp(-s)),
}
KERNELS = {
    "softmax": tkf.Softmax,
    "unnormalized": tkf.Unnormalized,
    "linear": tkf.Linear,
    "relu": tkf.ReLU,
    "sigmoid": tkf.Sigmoid,
    "squared relu": partial(tkf.ReLU, power=2, normalized=True),
    "normalized sigmoid": partial(tkf.Sigmoid, normalized=True),
    "hardmax": tkf.Hardmax,
}
NORMALIZED = ("softmax", "squared relu", "normalized sigmoid", "hardmax")
ALIBI = tkf.Softmax(positions=tkf.ALiBi(1.0))
RULES = {
    "rope": (tkf.RoPE(frequencies=[3.0, 0.5]),),
    "halves": (tkf.RoPE(20.0, halves=True),),
    "alibi": (tkf.ALiBi(1.7),),
    "function": (tkf.Bias(lambda s, tau: jnp.sin(3 * s) * tau),),
    "matrix": (tkf.Bias(MATRIX),),
    "window": (tkf.Window(0.35),),
    "window and sinks": (tkf.Window(0.25), tkf.Sinks(2)),
    "all": (tkf.RoPE(frequencies=[3.0, 0.5]), tkf.ALiBi(0.6), tkf.Window(0.35), tkf.Sinks(1)),
}


def turned(rule, q, s):
    omega = [3.0, 0.5] if rule.frequencies is not None else [1.0, 20.0 ** (-2 / D)]
    q = list(q)
    for m, w in enumerate(omega):
        i, j = (m, m + D // 2) if rule.halves else (2 * m, 2 * m + 1)
        z = complex(q[i], q[j]) * np.exp(1j * w * s)
        q[i], q[j] = z.real, z.imag
    return np.array(q)


def score(rules, x, y, s, tau, i, j):
    q, k = A @ x, y
    for rule in rules:
        if isinstance(rule, tkf.RoPE):
            q, k = turned(rule, q, s), turned(rule, k, tau)
    found = float(q @ k)
    for rule in rules:
        if isinstance(rule, tkf.ALiBi):
            found -= float(rule.slope) * abs(s - tau)
        if isinstance(rule, tkf.Bias):
            found += math.sin(3 * s) * tau if callable(rule.b) else MATRIX[i, j]
    return found


def sees(rules, causal, s, tau, taus):
    inside = all(abs(s - tau) <= float(rule.width) for rule in rules if isinstance(rule, tkf.Window))
    sink = any(tau <= sorted(taus)[rule.k - 1] for rule in rules if isinstance(rule, tkf.Sinks))
    return (inside or sink) and (not causal or tau <= s)


def naive(kernel, rules, causal, points, positions):
    out = []
    for i, (x, s) in enumerate(zip(points, positions, strict=True)):
        seen = [j for j in range(N) if sees(rules, causal, s, S[j], S)]
        scores = {j: score(rules, x, X[j], s, S[j], i, j) for j in seen}
        if kernel == "hardmax":
            top = max(scores.values(), default=0.0)
            weight = {j: W[j] * (abs(scores[j] - top) < 1e-9) for j in seen}
        else:
            weight = {j: W[j] * PHI[kernel](scores[j]) for j in seen}
        total = sum((weight[j] * X[j] for j in seen), np.zeros(D))
        if kernel in NORMALIZED and sum(weight.values()) > 0:
            total = total / sum(weight.values())
        out.append(V @ total)
    return np.array(out)


def head(kernel, rules, causal):
    return KERNELS[kernel](A=A, V=V, causal=causal, positions=rules)


@pytest.mark.grid
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_naive_loops(kernel, rules):
    """At the tokens themselves, and at other points at other positions."""
    points, places = RNG.standard_normal((5, D)), np.array([0.05, 0.3, 0.5, 0.8, 1.0])
    state = tkf.Tokens(X, W, S)
    for causal in (False, True):
        attention = head(kernel, RULES[rules], causal)
        own = attention.of_itself(jnp.zeros(()), state)
        np.testing.assert_allclose(own, naive(kernel, RULES[rules], causal, X, S), rtol=1e-12, atol=1e-12)
        again = attention(jnp.zeros(()), state.x, state, state.positions)
        np.testing.assert_allclose(again, own, rtol=1e-14, atol=1e-14)
        if rules == "matrix":  # which has one row for each query
            attention = head(kernel, (tkf.Bias(MATRIX[:5]),), causal)
        found = attention(jnp.zeros(()), jnp.asarray(points), state, jnp.asarray(places))
        np.testing.assert_allclose(found, naive(kernel, RULES[rules], causal, points, places), rtol=1e-12, atol=1e-12)


def test_points_without_a_position_come_after_all_tokens():
    attention, state = tkf.Softmax(A=A, causal=True), tkf.Tokens(X, W, S)
    free = tkf.Softmax(A=A)(jnp.zeros(()), state.x[:3], state)
    np.testing.assert_allclose(attention(jnp.zeros(()), state.x[:3], state), free, rtol=0, atol=1e-14)


def test_rope_depends_on_relative_positions_only():
    for rule in (tkf.RoPE(50.0), tkf.RoPE(50.0, halves=True)):
        attention = tkf.Softmax(A=A, causal=True, positions=rule)
        outputs = [attention.of_itself(jnp.zeros(()), tkf.Tokens(X, W, S + shift)) for shift in (0.0, 0.3, 17.0)]
        np.testing.assert_allclose(outputs[1], outputs[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(outputs[2], outputs[0], rtol=0, atol=1e-12)
        stretched = attention.of_itself(jnp.zeros(()), tkf.Tokens(X, W, 2 * S))
        assert np.abs(stretched - outputs[0]).max() > 1e-3


def test_alibi_on_the_circle():
    """64 tokens to T = 10, beside SciPy on the angles."""
    n, T = 64, 10.0
    theta = np.random.default_rng(0).uniform(0, 2 * np.pi, n)
    s = np.arange(1, n + 1) / n
    decay = -np.abs(s[:, None] - s)

    def field(t, a):
        difference = a[:, None] - a
        weight = np.exp(np.cos(difference) + decay)
        return -(weight * np.sin(difference)).sum(1) / weight.sum(1)

    expected = solve_ivp(field, (0, T), theta, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    model = tkf.Transformer(tkf.Softmax(beta=1.0, positions=tkf.ALiBi(1.0)), norm=tkf.PostLN())
    final = tkf.simulate(model, tkf.circle_tokens(theta), T, save_at=[T], rtol=1e-11, atol=1e-12).final.x
    exact = np.stack([np.cos(expected), np.sin(expected)], 1)
    np.testing.assert_allclose(final, exact, rtol=0, atol=1e-8)
    plain = tkf.simulate(tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN()), tkf.circle_tokens(theta), T).final.x
    assert np.abs(plain - exact).max() > 0.01


@pytest.mark.parametrize("rules", [name for name in RULES if name != "matrix"])
def test_weights_order_and_causality(rules):
    """Two tokens at one place and position are one of their total weight; order does not matter; nothing comes from later."""
    attention = tkf.Softmax(A=A, V=V, causal=True, positions=RULES[rules])
    gamma = lambda x, w, s: np.asarray(attention.of_itself(jnp.zeros(()), Measure(*map(jnp.asarray, (x, w, s)))))  # noqa: E731
    once = gamma(X, W, S)
    twice = gamma(
        np.vstack([X, X[2:3]]), np.append(np.where(np.arange(N) == 2, W / 3, W), 2 * W[2] / 3), np.append(S, S[2])
    )
    if "sinks" not in rules:  # which count tokens
        np.testing.assert_allclose(twice[:N], once, rtol=0, atol=1e-13)
        np.testing.assert_allclose(twice[N], once[2], rtol=0, atol=1e-13)
    order = np.random.default_rng(1).permutation(N)
    np.testing.assert_allclose(gamma(X[order], W[order], S[order]), once[order], rtol=0, atol=1e-13)
    moved = X.copy()
    moved[S == 0.7] += 1.0
    change = np.abs(gamma(moved, W, S) - once).max(1)
    assert (change[S < 0.7] == 0).all()
    assert change[S == 0.7] > 1e-3


@pytest.mark.parametrize("rules", [name for name in RULES if name != "window and sinks"])
def test_sinkhorn_scales_rows_and_columns_of_what_the_rules_give(rules):
    """Plain loops over all pairs, scaled in turn until nothing changes; the potential of the keys holds at other points."""
    given = RULES[rules]
    E = np.array([[math.exp(score(given, X[i], X[j], S[i], S[j], i, j)) for j in range(N)] for i in range(N)])
    E = E * [[sees(given, False, s, tau, S) for tau in S] for s in S]
    v = np.ones(N)
    for _ in range(200_000):
        u = 1 / (E @ (W * v))
        v, before = 1 / (E.T @ (W * u)), v
        if np.abs(v - before).max() <= 1e-15 * v.max():
            break
    attention, state = tkf.Sinkhorn(A=A, V=V, positions=given, tolerance=1e-13), tkf.Tokens(X, W, S)
    expected = (u[:, None] * E * (W * v)) @ X @ V.T
    np.testing.assert_allclose(attention.of_itself(jnp.zeros(()), state), expected, rtol=0, atol=1e-11)
    if rules != "matrix":  # which has one row for each token
        points, places = RNG.standard_normal((3, D)), np.array([0.3, 0.5, 0.8])
        E = np.array(
            [
                [math.exp(score(given, x, X[j], s, S[j], 0, j)) for j in range(N)]
                for x, s in zip(points, places, strict=True)
            ]
        )
        p = E * [[sees(given, False, s, tau, S) for tau in S] for s in places] * W * v
        found = attention(jnp.zeros(()), jnp.asarray(points), state, jnp.asarray(places))
        np.testing.assert_allclose(found, p / p.sum(1, keepdims=True) @ X @ V.T, rtol=0, atol=1e-11)


def test_sinkhorn_has_no_solution_where_sinks_are_out_of_reach():
    """Tokens at 0.7 and later see the sinks, but no chain of windows leads from the sinks to them."""
    attention = tkf.Sinkhorn(A=A, positions=RULES["window and sinks"], max_iterations=500)
    assert np.isnan(attention.of_itself(jnp.zeros(()), tkf.Tokens(X, W, S))).all()


@pytest.mark.slow
@pytest.mark.parametrize("rules", [tkf.Window(0.05), (tkf.RoPE(frequencies=[3.0, 0.5]), tkf.ALiBi(0.6))])
def test_derivatives_of_sinkhorn_with_positions(rules):
    """Difference quotients, also where a window leaves tokens alone; Lipschitz constants take the same derivative."""
    attention, state = tkf.Sinkhorn(A=A, positions=rules, tolerance=1e-13), tkf.Tokens(X, positions=S)
    move = eqx.Partial(moved, attention, state)
    e, h = jnp.asarray(RNG.standard_normal((N, D))), 1e-5
    slope = jax.jvp(move, (state.x,), (e,))[1]
    np.testing.assert_allclose(slope, (move(state.x + h * e) - move(state.x - h * e)) / (2 * h), rtol=0, atol=1e-7)
    dense = jax.jacobian(move)(state.x).reshape(N * D, N * D)
    assert tkf.lipschitz.local(attention, state, rtol=1e-10).constant == pytest.approx(
        np.linalg.norm(dense, 2), rel=1e-8
    )


def moved(attention, state, x):
    return attention.of_itself(jnp.zeros(()), Measure(x, state.weights, state.positions))


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kernel", ["softmax", "sigmoid", "unnormalized"])
def test_lipschitz_uses_the_same_positions(kernel, rules):
    """The singular values of the dense derivative of a naive formula, with positions that are not in order."""
    for causal in (False, True):
        attention = head(kernel, RULES[rules], causal)
        state = tkf.Tokens(X, positions=S)
        move = eqx.Partial(moved, attention, state)
        dense = jax.jacobian(move)(state.x).reshape(N * D, N * D)
        found = tkf.lipschitz.local(attention, state, rtol=1e-10).constant
        assert found == pytest.approx(np.linalg.norm(dense, 2), rel=1e-8)
        e = np.random.default_rng(0).standard_normal((N, D))
        h = 1e-6
        ends = [np.asarray(move(state.x + c * e)) for c in (h, -h)]
        slope = (dense @ e.ravel()).reshape(N, D)
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-7 * np.abs(slope).max())


@pytest.mark.parametrize(
    ("rules", "norm"), [*itertools.product(["rope", "alibi", "window and sinks"], ["none", "post", "pre", "peri"])]
)
def test_every_norm_reads_what_the_rules_give(rules, norm):
    """The velocity by the norm's own equation, from the attention of the naive loop."""
    rule = {"none": tkf.NoNorm(), "post": tkf.PostLN(), "pre": tkf.PreLN(), "peri": tkf.PeriLN()}[norm]
    r = np.linalg.norm(X, axis=1, keepdims=True)
    start = X / r if norm == "post" else X
    state = tkf.Tokens(start, W, S)
    model = tkf.Transformer(tkf.Softmax(A=A, V=V, positions=RULES[rules]), norm=rule)
    flow = segments(state, model)[0].flow
    move = lambda x: flow.unpack(x).x  # noqa: E731
    y = flow.pack(state)
    found = jax.jvp(move, (y,), (flow.velocity(jnp.zeros(()), y),))[1]
    read = X if norm == "none" else X / r
    scores = np.array([[score(RULES[rules], read[i], read[j], S[i], S[j], i, j) for j in range(N)] for i in range(N)])
    seen = np.array([[sees(RULES[rules], False, s, tau, S) for tau in S] for s in S])
    P = W * np.exp(scores) * seen
    gamma = P / P.sum(1, keepdims=True) @ read @ V.T
    expected = {
        "none": gamma,
        "post": gamma - (gamma * read).sum(1, keepdims=True) * read,
        "pre": gamma,
        "peri": gamma / np.linalg.norm(gamma, axis=1, keepdims=True),
    }[norm]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_gradients_by_the_numbers_of_a_rule():
    state = tkf.Tokens(X, W, S)

    def value(slope, omega, width):
        rules = [tkf.ALiBi(slope), tkf.RoPE(frequencies=omega), tkf.Window(width)]
        model = tkf.Transformer(tkf.Softmax(A=A, positions=rules), norm=tkf.PreLN())
        return jnp.sum(tkf.solve(model, state, 0.5, rtol=1e-9, atol=1e-11).final.x[:, 0])

    point = (0.7, jnp.array([2.0, 0.4]), 0.35)
    by_slope, by_omega = jax.grad(value, (0, 1))(*point)
    h = 1e-5
    assert float(by_slope) == pytest.approx(
        float(value(0.7 + h, *point[1:]) - value(0.7 - h, *point[1:])) / (2 * h), rel=1e-6
    )
    up, down = (value(0.7, point[1].at[0].add(c), 0.35) for c in (h, -h))
    assert float(by_omega[0]) == pytest.approx(float(up - down) / (2 * h), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.Softmax(positions="rope"), "positions must be rules such as .* got 'rope'"),
        (lambda: tkf.Softmax(positions=3), "positions must be rules such as .* got 3"),
        (lambda: tkf.Softmax(positions=[tkf.Softmax()]), "positions must be rules such as"),
        (lambda: tkf.RoPE(100.0, frequencies=[1.0]), "theta or frequencies, not both"),
        (lambda: tkf.Softmax(positions=tkf.RoPE(frequencies=[1.0])).of_itself(0.0, tkf.Tokens(X)), "must have length 2"),
        (lambda: tkf.RoPE(-1.0), "theta must be"),
        (lambda: tkf.Window(-1.0), "width must be"),
        (lambda: tkf.Sinks(0), "k must be"),
        (lambda: tkf.Bias([1.0, 2.0]), "b must be"),
        (lambda: tkf.Softmax(positions=tkf.Bias(np.eye(2)))(0.0, jnp.eye(3), tkf.Tokens(np.eye(3)[:2])), "3 queries and 2 keys"),
        (lambda: tkf.Softmax(q=[1.0]), "give Q and K too"),
        (lambda: tkf.simulate(tkf.Transformer(tkf.Softmax(positions=tkf.RoPE())), tkf.Tokens(np.eye(3)), 1.0), "odd number"),
        (
            lambda: tkf.simulate(tkf.Transformer(tkf.Softmax(positions=tkf.Bias(np.eye(2)))), tkf.Tokens(np.eye(3)), 1.0),
            r"b must have shape \(3, 3\)",
        ),
        (
            lambda: tkf.simulate(tkf.Transformer(ALIBI, tkf.PostLN()), tkf.Equiangular(0.1, 4), 1.0),
            "rules for positions change the angles differently",
        ),
        (lambda: tkf.energy(tkf.Tokens(np.eye(2)), ALIBI), "rules for positions has no interaction"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
