"""Derivatives by the numbers that other tests leave alone: MLP, gain, alpha, fisher_rao, A(t) over arrays."""

import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

from .compare import SHORT, column_error, jacobians
from .tokens import rows, tangent, unit
from .variational import jacobian, sensitivity

N, D, T = 4, 3, 0.5
_rng = np.random.default_rng(11)
START = 0.8 * _rng.standard_normal((N, D))
W = np.full((1, N), 1 / N)


def against(drift, build, p, on_sphere):
    """Compare `x(T)` and its derivatives by p; drift maps `(t, x (b, n, d), P (b, k))` to velocities."""
    x0 = (START / np.linalg.norm(START, axis=1, keepdims=True)) if on_sphere else START
    f = lambda t, Y, P: drift(t, Y.reshape(-1, N, D), P).reshape(len(Y), -1)  # noqa: E731
    value, exact = sensitivity(f, 0.0, T, x0.ravel(), p)
    final = lambda p: tkf.solve(build(p), tkf.Tokens(x0), T, **SHORT).final.x.ravel()  # noqa: E731
    reached, modes = jacobians(final, p)
    assert np.abs(reached - value).max() < 1e-10
    for mode, found in modes.items():
        assert column_error(found, exact) < 1e-8, mode


def attend(x, beta):
    return rows(beta * (x @ x.transpose(0, 2, 1)), W) @ x


def test_mlp_weights_and_matrices_that_are_functions_of_time():
    """`A(t) = A_0 + t A_1`, `V(t) = cos(t) V_0`, and `W_2 tanh(W_1 x + b_1) + b_2`, four hidden numbers."""
    sizes = [3 * D * D, 4 * D, 4, D * 4, D]
    p = 0.6 * np.random.default_rng(2).standard_normal(sum(sizes))
    ends = np.cumsum(sizes)[:-1]

    def drift(t, x, P):
        matrices, W1, b1, W2, b2 = np.split(P, ends, axis=1)
        A0, A1, V = matrices.reshape(-1, 3, D, D).transpose(1, 0, 2, 3)
        weights = rows(x @ (A0 + t * A1).transpose(0, 2, 1) @ x.transpose(0, 2, 1), W)
        hidden = np.tanh(x @ W1.reshape(-1, 4, D).transpose(0, 2, 1) + b1[:, None])
        attended = np.cos(t) * weights @ x @ V.transpose(0, 2, 1)
        return attended + hidden @ W2.reshape(-1, D, 4).transpose(0, 2, 1) + b2[:, None]

    def build(p):
        matrices, W1, b1, W2, b2 = jnp.split(p, ends)
        A0, A1, V = matrices.reshape(3, D, D)
        mlp = tkf.MLP(W1.reshape(4, D), W2.reshape(D, 4), b1, b2, activation="tanh")
        return tkf.Transformer(tkf.Softmax(A=lambda t: A0 + t * A1, V=lambda t: jnp.cos(t) * V), mlp=mlp)

    against(drift, build, p, on_sphere=False)


def test_gain_queries_and_keys():
    """Pre-LN with a gain: sublayers read `g ⊙ (x/|x|) sqrt(d)`; scores are `<Qx, Ky>`."""
    p = np.append([0.9, 0.6, 1.2], 0.8 * np.random.default_rng(6).standard_normal(12))

    def drift(t, x, P):
        x = P[:, None, :3] * unit(x) * np.sqrt(D)
        Q, K = P[:, 3:].reshape(-1, 2, 2, D).transpose(1, 0, 2, 3)
        return rows((x @ Q.transpose(0, 2, 1)) @ (x @ K.transpose(0, 2, 1)).transpose(0, 2, 1), W) @ x

    def build(p):
        attention = tkf.Softmax(Q=p[3:9].reshape(2, D), K=p[9:].reshape(2, D))
        return tkf.Transformer(attention, norm=tkf.PreLN(gain=p[:3]))

    against(drift, build, p, on_sphere=False)


@pytest.mark.slow
@pytest.mark.parametrize("of_time", [False, True])
def test_alpha(of_time):
    """nGPT: a number, or a function of time that closes over numbers."""
    alpha = lambda t, P: P[..., 0] * np.exp(-P[..., 1] * t) if of_time else P[..., 0]  # noqa: E731
    drift = lambda t, x, P: alpha(t, P)[:, None, None] * tangent(x, unit(attend(x, 1.2)))  # noqa: E731

    def build(p):
        norm = tkf.NGPT(lambda t: p[0] * jnp.exp(-p[1] * t)) if of_time else tkf.NGPT(p[0])
        return tkf.Transformer(tkf.Softmax(1.2), norm=norm)

    against(drift, build, np.array([0.8, 0.5] if of_time else [0.8]), on_sphere=True)


def test_fisher_rao():
    """Weights move too: `m_i' = c m_i (phi_i - sum_j m_j phi_j)`; by beta and c, tokens and weights."""
    x0 = START / np.linalg.norm(START, axis=1, keepdims=True)

    def f(t, Y, P):
        x, m = Y[:, : N * D].reshape(-1, N, D), Y[:, N * D :]
        beta, c = P[:, :1], P[:, 1:]
        k = m[:, None] * np.exp(beta[..., None] * (x @ x.transpose(0, 2, 1)))
        phi = k.sum(-1) / beta
        dm = c * m * (phi - (m * phi).sum(-1, keepdims=True))
        return np.concatenate([tangent(x, k @ x).reshape(len(Y), -1), dm], 1)

    p = np.array([1.3, 0.8])
    value, exact = sensitivity(f, 0.0, T, np.concatenate([x0.ravel(), W[0]]), p)

    def final(p):
        model = tkf.Transformer(tkf.Unnormalized(beta=p[0]), norm=tkf.PostLN(), fisher_rao=p[1])
        end = tkf.solve(model, tkf.Tokens(x0), T, **SHORT).final
        return jnp.concatenate([end.x.ravel(), end.weights])

    reached, modes = jacobians(final, p)
    assert np.abs(reached - value).max() < 1e-10
    for mode, found in modes.items():
        assert column_error(found, exact) < 1e-8, mode


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("norm", ["post", "pre", "peri", "none"])
def test_layers(norm):
    """Six layers of step 1/2 by complex steps through the layers themselves; by beta, V and the tokens."""
    h, depth = 0.5, 6
    x0 = START / np.linalg.norm(START, axis=1, keepdims=True)
    p = np.concatenate([[1.2], (np.eye(D) + 0.2 * _rng.standard_normal((D, D))).ravel(), x0.ravel()])

    def run(P):
        beta, V, x = P[:, :1, None], P[:, 1:10].reshape(-1, D, D), unit(P[:, 10:].reshape(-1, N, D))
        for _ in range(depth):
            read = unit(x) if norm in ("pre", "peri") else x
            drift = rows(beta * (read @ read.transpose(0, 2, 1)), W) @ read @ V.transpose(0, 2, 1)
            moved = x + h * (unit(drift) if norm == "peri" else drift)
            x = unit(moved) if norm == "post" else moved
        return x.reshape(len(P), -1)

    rules = {"post": tkf.PostLN(), "pre": tkf.PreLN(), "peri": tkf.PeriLN(), "none": tkf.NoNorm()}

    def final(p):
        x = p[10:].reshape(N, D)
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        model = tkf.Transformer(tkf.Softmax(beta=p[0], V=p[1:10].reshape(D, D)), norm=rules[norm])
        return tkf.solve(model, tkf.Tokens(x), depth * h, method=tkf.Layers(step=h)).final.x.ravel()

    reached, modes = jacobians(final, p)
    assert np.abs(reached - run(p[None])[0]).max() < 1e-12
    for mode, found in modes.items():
        assert column_error(found, jacobian(run, p)) < 1e-10, mode
