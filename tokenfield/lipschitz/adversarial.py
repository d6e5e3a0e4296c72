"""Tokens that an attention stretches most: the explicit ones, and a search by gradients."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._check import count, positive
from ..attention import AbstractAttention, Softmax, heads_and_outputs
from ..attention.parameters import Bilinear
from ..states import Tokens
from .bounds import Bounds, bounds
from .gap import score_gap
from .local import local

POWER_STEPS = 3  # products for the stretched direction in each step of the search


@dataclass(frozen=True)
class Adversarial:
    """The worst tokens found in a ball.

    Attributes:
        x: (n, d) the tokens with the largest local constant found.
        constant: that constant: a lower bound on the Lipschitz constant in the ball.
        explicit: (n, d) the explicit configuration, or None where none is known.
        explicit_constant: its local constant.
        found: (starts,) the constants that the searches reached; the first began at the explicit configuration.
        bounds: what is proved for softmax attention (one head), else None.
    """

    x: np.ndarray
    constant: float
    explicit: np.ndarray | None
    explicit_constant: float | None
    found: np.ndarray
    bounds: Bounds | None


def adversarial(
    attention: AbstractAttention,
    n: int,
    R: float,
    *,
    d: int | None = None,
    starts: int = 8,
    steps: int = 200,
    seed: int = 0,
) -> Adversarial:
    """n tokens within radius R at which an attention has a large local Lipschitz constant (FORMULAS §6).

    Explicit, for scores `<Ax, y>`: `x_1 = R Au/|Au|`, the others `R u`, u from `score_gap`; the same under a mask. Then
    `|D_X f [e]|` is maximised over tokens X in the ball by Adam with projection, and over unit e by steps of the power
    method, from the explicit tokens and from random ones. The best of all is returned, so it never falls short of the
    explicit one.

    Args:
        attention: any attention that can be differentiated, causal or not.
        n: number of tokens, at least 2.
        R: radius of the ball.
        d: dimension, where no matrix of the attention says it [2].
        starts: number of searches.
        steps: steps of each.
        seed: of the random starts.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.adversarial(tkf.Softmax(beta=-1.0), n=5, R=1.5, starts=2, steps=20).constant
    """
    if not isinstance(attention, AbstractAttention):
        raise ValueError(f"attention must be an attention such as Softmax(beta=1.0), got {attention!r}")
    n, R, starts = count("n", n, 2), positive("R", R), count("starts", starts)
    steps = count("steps", steps)
    d = _dimension(attention, d)
    attention.check(d)
    rng = np.random.default_rng(seed)
    explicit = _explicit(attention, n, R, d)
    random = rng.standard_normal((starts, n, d))
    random *= R * rng.uniform(0, 1, (starts, n, 1)) ** (1 / d) / np.linalg.norm(random, axis=2, keepdims=True)
    begin = np.concatenate([*[x[None] for x in explicit], random])[: max(starts, len(explicit))]
    # An exactly symmetric start may be a critical point: the search begins a little beside it.
    begin = begin + 1e-3 * R * rng.standard_normal(begin.shape)
    reached = np.asarray(
        _search(attention, jnp.asarray(begin), jnp.asarray(R), steps, jnp.asarray(rng.integers(1 << 30)))
    )

    constant = lambda x: local(attention, x).constant  # noqa: E731
    found = np.array([constant(x) for x in reached])
    known = [constant(x) for x in explicit]
    values, points = [*known, *found], [*explicit, *reached]
    best = int(np.argmax(values))
    which = int(np.argmax(known)) if known else None
    return Adversarial(
        x=points[best],
        constant=float(values[best]),
        explicit=None if which is None else explicit[which],
        explicit_constant=None if which is None else float(known[which]),
        found=found,
        bounds=_bounds(attention, n, R, d),
    )


def _parts(attention: AbstractAttention, d: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """`(A, W V)` of every head that scores by a matrix."""
    t, parts = jnp.zeros(()), []
    for head, W in heads_and_outputs(attention):
        if isinstance(head.score, Bilinear):
            V = W(t, head.value(t, jnp.eye(d)))
            parts.append((np.asarray(head.score.matrix(t, d)), np.asarray(V).T))
    return parts


def _explicit(attention: AbstractAttention, n: int, R: float, d: int) -> list[np.ndarray]:
    """Token 1 at `R Au/|Au|`, the others at `R u`, for each head."""
    made = []
    for A, V in _parts(attention, d):
        u = score_gap(A, across=np.linalg.svd(V)[2][0])[1]
        length = np.linalg.norm(A @ u)
        first = A @ u / length if length > 0 else u
        made.append(np.vstack([R * first, np.tile(R * u, (n - 1, 1))]))
    return made


def _bounds(attention: AbstractAttention, n: int, R: float, d: int) -> Bounds | None:
    if not isinstance(attention, Softmax):
        return None
    A, V = _parts(attention, d)[0]
    return bounds(A, V, R, n)


def _dimension(attention: AbstractAttention, d: int | None) -> int:
    for head in attention.heads:
        for owner in (head.score, head.value):
            for name in ("A", "Q", "K", "V"):
                value: Any = getattr(owner, name, None)
                if value is not None and not callable(value) and value.ndim == 2:
                    if d is not None and value.shape[1] != d:
                        raise ValueError(f"d must be {value.shape[1]}, the width of {name}, got {d}")
                    return value.shape[1]
    return 2 if d is None else count("d", d)


@eqx.filter_jit
def _search(attention: AbstractAttention, x: Array, R: Array, steps: int, seed: Array) -> Array:
    """The best tokens of each search."""
    import optax

    state = Tokens(x[0])
    f = lambda x: attention(jnp.zeros(()), x, state.weights, state.positions)  # noqa: E731
    schedule = optax.cosine_decay_schedule(0.05, steps)
    adam = optax.adam(schedule)

    def inside(x):
        return x * jnp.minimum(1, R / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-300))

    def stretch(x, e):
        return jnp.log(jnp.linalg.norm(jax.jvp(f, (x,), (e,))[1]) + 1e-300)

    def sharpened(x, e):
        _, pull = jax.vjp(f, x)
        for _ in range(POWER_STEPS):
            e = pull(jax.jvp(f, (x,), (e,))[1])[0]
            e = e / jnp.maximum(jnp.linalg.norm(e), 1e-300)
        return e

    def one(x, key):
        e = jax.random.normal(key, x.shape)
        e = sharpened(x, e / jnp.linalg.norm(e))

        def step(carry, _):
            x, e, memory, best, best_x = carry
            e = sharpened(x, e)
            value, slope = jax.value_and_grad(stretch)(x, e)
            better = value > best
            best, best_x = jnp.where(better, value, best), jnp.where(better, x, best_x)
            slope = jnp.where(jnp.isfinite(slope), slope, 0)
            update, memory = adam.update(-slope * R, memory)
            return (inside(x + R * update), e, memory, best, best_x), None

        x = inside(x)
        start = (x, e, adam.init(x), jnp.asarray(-jnp.inf), x)
        return jax.lax.scan(step, start, length=steps)[0][-1]

    return jax.vmap(one)(x, jax.random.split(jax.random.key(seed), len(x)))
