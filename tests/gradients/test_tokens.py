"""Derivatives of tokens by their first positions, beta, V and their weights, against the variational equation."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

from . import tokens
from .compare import SHORT, column_error, jacobians
from .tokens import A0, A1, ALPHA, K0, Q0, TAU, V1, D, N, T

SCORED = {
    "softmax": tkf.Softmax,
    "unnormalized": tkf.Unnormalized,
    "linear": tkf.Linear,
    "relu": tkf.ReLU,
    "sigmoid": tkf.Sigmoid,
    "hardmax": tkf.Hardmax,
    "normalized": partial(tkf.Sigmoid, normalized=True),
}
NORMS = {
    "none": tkf.NoNorm(),
    "rescaled": tkf.Rescaled(),
    "post": tkf.PostLN(),
    "pre": tkf.PreLN(),
    "peri": tkf.PeriLN(),
    "mix": tkf.MixLN(TAU),
    "ngpt": tkf.NGPT(ALPHA),
    "sqrt": tkf.SqrtScaling(),
}


def build(kernel, norm, p):
    """The model and the tokens of `tokens.split`."""
    p = jnp.asarray(p)
    x, beta, V, logits = p[: N * D].reshape(N, D), p[N * D], p[N * D + 1 : N * D + 1 + D * D].reshape(D, D), p[-N:]
    if norm in tokens.ON_SPHERE:
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    w = jnp.exp(logits) / jnp.exp(logits).sum()
    if kernel == "l2":
        attention = tkf.L2(beta, Q=Q0, K=K0, V=V)
    elif kernel == "sinkhorn":
        attention = tkf.Sinkhorn(A=beta * A0, V=V, tolerance=1e-13)
    elif kernel == "multi_head":
        attention = tkf.MultiHead([tkf.Softmax(A=beta * A0, V=V), tkf.Sigmoid(A=beta * A1, V=V1)])
    else:
        attention = SCORED[kernel](A=beta * A0, V=V)
    return tkf.Transformer(attention, norm=NORMS[norm]), tkf.Tokens(x, w)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["pre", "none"])
def test_softmax_against_the_variational_equation(norm):
    """`d x(T) / d (x(0), beta, V, weights)`, all 150 + 15 x 15 entries of it."""
    p = tokens.parameters()
    value, exact = tokens.run("softmax", norm, p)
    reached, modes = jacobians(lambda p: tkf.solve(*build("softmax", norm, p), T, **SHORT).final.x.ravel(), p)
    assert np.abs(reached - value).max() < 1e-10
    for mode, found in modes.items():
        assert column_error(found, exact) < 1e-8, mode


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["post", "none"])
def test_isotropic_attention_in_many_dimensions(norm):
    """`A = beta I`, d > n, where a run may go on in the span of the tokens: the derivative leaves the span."""
    n, d, beta, t1 = 3, 5, 1.4, 0.5
    rng = np.random.default_rng(5)
    z, w = rng.standard_normal((n, d)), np.full((1, n), 1 / n)
    on_sphere = norm == "post"
    begin = lambda Z: (tokens.unit if on_sphere else np.asarray)(Z[:, :-1].reshape(-1, n, d)).reshape(len(Z), -1)  # noqa: E731

    def f(t, Y, P):
        x = Y.reshape(-1, n, d)
        drift = tokens.rows(P[:, -1:, None] * x @ x.transpose(0, 2, 1), w) @ x
        return (tokens.tangent(x, drift) if on_sphere else drift).reshape(len(Y), -1)

    p = np.append(z.ravel(), beta)
    value, exact = tokens.sensitivity(f, 0.0, t1, begin(p[None])[0], p, tokens.jacobian(begin, p))

    def final(p):
        x = p[:-1].reshape(n, d)
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True) if on_sphere else x
        model = tkf.Transformer(tkf.Softmax(beta=p[-1]), norm=NORMS[norm])
        return tkf.solve(model, tkf.Tokens(x), t1, **SHORT).final.x.ravel()

    reached, modes = jacobians(final, p)
    assert np.abs(reached - value).max() < 1e-10
    for mode, found in modes.items():
        assert column_error(found, exact) < 1e-8, mode


def test_softmax_under_post_ln_and_saved_states():
    """The end of a run, and rows of `Solution.states`, in the middle of a run, where steps do not end."""
    p = tokens.parameters()
    times = np.array([0.13, 0.31, T])

    def rows(p):
        found = tkf.solve(*build("softmax", "post", p), T, save_at=times, **SHORT)
        return jnp.stack([*found.states.x, found.final.x]).reshape(4, -1)

    reached, modes = jacobians(rows, p)
    for k, t in enumerate([*times, T]):
        value, exact = tokens.run("softmax", "post", p, t)
        assert np.abs(reached[k] - value).max() < (1e-10 if t == T else 1e-9)
        for mode, found in modes.items():
            assert column_error(found[k], exact) < 1e-8, (mode, t)
