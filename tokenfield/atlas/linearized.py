"""Linearized runs of causal attention, for the claims about positions: response of the last token, by `jax.grad`."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

STEPS = 16  # fixed steps: an adaptive run would choose its steps by the tokens, which do not move here


def weights(n: int, slope: float) -> np.ndarray:
    """Return (n, n) causal weights of positions j/n, `P_ij = e^{lambda j/n} / sum_{m <= i} e^{lambda m/n}`."""
    w = np.exp(slope * (np.arange(1, n + 1) / n - 1))
    return np.tril(np.broadcast_to(w, (n, n))) / np.cumsum(w)[:, None]


@lru_cache(maxsize=8)
def near_uniform(n: int, beta: float, mode: int, copies: int):
    """Return `(slope, t1) -> (n,)`: derivative of a mode's amplitude at the last position at t1, by its initial amplitudes.

    Each of the n positions has `copies` tokens evenly spaced on the circle, displaced by the angle `eps_j sin(mode angle)`.
    """
    angle, positions = 2 * np.pi * np.arange(copies) / copies, np.repeat(np.arange(1, n + 1) / n, copies)
    normal = np.stack([-np.sin(angle), np.cos(angle)], axis=1) * np.sin(mode * angle)[:, None]

    def part(eps, slope, t1):
        head = tkf.Softmax(beta=beta, causal=True, positions=tkf.ALiBi(slope))
        a = (angle + eps[:, None] * jnp.sin(mode * angle)).ravel()
        tokens = tkf.Tokens(jnp.stack([jnp.cos(a), jnp.sin(a)], axis=1), positions=positions)
        return 2 / copies * (normal * after(head, tokens, t1)[-copies:]).sum()

    return row_of(part, n)


@lru_cache(maxsize=8)
def near_one_cluster(n: int, beta: float):
    """Return `(slope, t1) -> (n,)`: derivative of the last token's displacement from (1, 0) at t1, by each initial displacement."""

    def part(eps, slope, t1):
        head = tkf.Softmax(beta=beta, causal=True, positions=tkf.ALiBi(slope))
        tokens = tkf.Tokens(jnp.stack([jnp.cos(eps), jnp.sin(eps)], axis=1), positions=np.arange(1, n + 1) / n)
        return after(head, tokens, t1)[-1, 1]

    return row_of(part, n)


def after(head, tokens, t1):
    """Return the tokens at time t1, under Post-LN on the sphere."""
    model = tkf.Transformer(head, norm=tkf.PostLN())
    return tkf.solve(model, tokens, t1, dt=t1 / STEPS, max_steps=STEPS + 2).final.x


def row_of(part, n: int):
    """Return the derivative of `part` with respect to its first argument, at 0."""
    compiled = jax.jit(jax.grad(part))
    return lambda slope, t1: np.asarray(compiled(jnp.zeros(n), jnp.asarray(float(slope)), jnp.asarray(float(t1))))


def richardson(values: Sequence) -> np.ndarray:
    """Return the Richardson extrapolation of values at n, 2n, 4n, …, whose errors are powers of 1/n."""
    found = [np.asarray(value) for value in values]
    for order in range(1, len(found)):
        found = [(2**order * fine - coarse) / (2**order - 1) for coarse, fine in pairwise(found)]
    return found[0]
