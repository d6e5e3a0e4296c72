"""Tokens with a large local Lipschitz constant: explicit configurations, and a search by gradients."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.optimize import minimize

from .._check import count, positive
from .._jax import in_double
from .._shown import shown
from ..attention import AbstractAttention, Measure, Softmax, heads_and_outputs
from ..attention.parameters import Bilinear
from ..driver.progress import Progress
from ..states import Tokens
from ..theory.ball_bounds import Bounds
from ..theory.gap import score_gap
from .bounds import bounds
from .local import NotFinite, local

POWER_STEPS = 3  # steps of the power method at the start of a search
FAR = 1e10  # objective where the derivative is not finite: larger than minus the logarithm of any constant
LONGEST = 0.98  # largest length at the start, relative to R: on the sphere itself the radial derivative is 0


@dataclass(frozen=True)
class Adversarial:
    """The worst tokens found in a ball. There may be worse ones, as a search finds local maxima.

    Attributes:
        x: (n, d) the tokens with the largest local constant found.
        constant: their local constant, a lower bound on the Lipschitz constant in the ball.
        explicit: (n, d) the best explicit configuration, or None if none is known.
        explicit_constant: its local constant.
        found: (starts,) the constants that the searches reached; the first ones start at the explicit configurations. NaN for
            a search in which the derivative was never finite.
        bounds: the proved bounds for softmax attention (one head), or None for other attentions.
    """

    x: np.ndarray
    constant: float
    explicit: np.ndarray | None
    explicit_constant: float | None
    found: np.ndarray
    bounds: Bounds | None


@in_double
def adversarial(
    attention: AbstractAttention,
    n: int,
    R: float,
    *,
    d: int | None = None,
    starts: int = 24,
    steps: int = 200,
    seed: int = 0,
    progress: bool | None = None,
) -> Adversarial:
    """Search for n tokens within radius R at which an attention has a large local Lipschitz constant (FORMULAS §6).

    Explicit configurations, for scores `<Ax, y>` with or without a mask: `x_1 = R Au/|Au|`, the others `R u`, u from
    `score_gap`; and all tokens at 0. Then `|D_X f [e]|` is maximized jointly over tokens X in the ball and unit displacements e,
    by L-BFGS, starting from the explicit tokens, from random ones and from two random clusters. The best of all is returned, so
    it is at least as large as the explicit ones. It is a lower bound on the largest constant in the ball: more `starts` may
    find a larger one.

    Args:
        attention: any attention that can be differentiated, causal or not.
        n: number of tokens, at least 2.
        R: radius of the ball.
        d: dimension of the tokens, if no matrix of the attention determines it [2].
        starts: number of searches.
        steps: maximum number of iterations of each search.
        seed: seed of the random starts.
        progress: show a progress bar; by default on a terminal only.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.adversarial(tkf.Softmax(beta=-1.0), n=5, R=1.5, starts=2, steps=20).constant
        2.8929855524469894
    """
    if not isinstance(attention, AbstractAttention):
        raise ValueError(f"attention must be an attention such as Softmax(beta=1.0), got {shown(attention)}")
    n, R, starts = count("n", n, 2), positive("R", R), count("starts", starts)
    steps = count("steps", steps)
    d = _dimension(attention, d)
    attention.check(d)
    rng = np.random.default_rng(seed)
    explicit = _explicit(attention, n, R, d)
    random = rng.standard_normal((starts, n, d))
    random *= R * rng.uniform(0, 1, (starts, n, 1)) ** (1 / d) / np.linalg.norm(random, axis=2, keepdims=True)
    for k, x in enumerate(random[1::2]):  # two clusters, so that many tokens act like two, at several lengths
        x[:] = (x[:2] * R * 0.5 ** (k % 4) / np.linalg.norm(x[:2], axis=1, keepdims=True))[rng.permutation(n) % 2]
    begin = np.concatenate([*[x[None] for x in explicit], random])[: max(starts, len(explicit))]
    # An exactly symmetric start may be a critical point, so starts are perturbed.
    begin = begin + 1e-3 * R * rng.standard_normal(begin.shape)
    reached = []
    with Progress(progress, "searching", len(begin), "searches") as bar:
        for x in begin:
            reached.append(_search(attention, x, R, steps, rng))
            bar.update(len(reached))
    found = np.array([_constant(attention, x) for x in reached])
    known = [_constant(attention, x) for x in explicit]
    values, points = [*known, *found], [*explicit, *reached]
    if np.isnan(values).all():
        raise ValueError(f"R: the derivative overflows at all tokens tried: use a smaller R, got {R:g}")
    best = int(np.nanargmax(values))
    which = int(np.nanargmax(known)) if np.isfinite(known).any() else None
    return Adversarial(
        x=points[best],
        constant=float(values[best]),
        explicit=None if which is None else explicit[which],
        explicit_constant=None if which is None else float(known[which]),
        found=found,
        bounds=_bounds(attention, n, R, d),
    )


def _constant(attention: AbstractAttention, x: np.ndarray) -> float:
    """Return the local constant at tokens; NaN if the derivative is not finite."""
    try:
        return local(attention, x).constant
    except NotFinite:
        return np.nan


def _parts(attention: AbstractAttention, d: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return `(A, W V)` of every head that scores by a matrix."""
    t, parts = jnp.zeros(()), []
    for head, W in heads_and_outputs(attention):
        if isinstance(head.score, Bilinear) and not head.score.biases:
            V = W(t, head.value(t, jnp.eye(d)))
            parts.append((np.asarray(head.score.matrix(t, d)), np.asarray(V).T))
    return parts


def _explicit(attention: AbstractAttention, n: int, R: float, d: int) -> list[np.ndarray]:
    """Return the explicit configurations: for each head, token 1 at `R Au/|Au|` and the others at `R u`; all at 0."""
    made = []
    for A, V in _parts(attention, d):
        u = score_gap(A, across=np.linalg.svd(V)[2][0])[1]
        length = np.linalg.norm(A @ u)
        first = A @ u / length if length > 0 else u
        made.append(np.vstack([R * first, np.tile(R * u, (n - 1, 1))]))
    return [*made, np.zeros((n, d))] if made else []


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


def _search(attention: AbstractAttention, x: np.ndarray, R: float, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Return the tokens that L-BFGS reaches from x."""
    lengths = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    y = np.arcsin(np.minimum(lengths / R, LONGEST)) / lengths * x
    e = _sharpened(attention, _inside(jnp.asarray(y), R), jnp.asarray(rng.standard_normal(x.shape)))

    start = np.stack([y, e]).ravel()
    best: list[Any] = [FAR, start]

    def descend(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _stretch(attention, jnp.asarray(z.reshape(2, *x.shape)), R)
        if not np.isfinite(value):
            return FAR, np.zeros(z.shape)
        if -float(value) < best[0]:
            best[:] = -float(value), z.copy()
        return -float(value), -np.nan_to_num(np.asarray(slope), posinf=0, neginf=0).ravel()

    minimize(descend, start, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    z = best[1]
    found = np.asarray(_inside(jnp.asarray(z.reshape(2, *x.shape)[0]), R))
    return found * np.minimum(1, R / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-300))


def _inside(y: Array, R: float | Array) -> Array:
    """Return `R sin|y| y/|y|`, which maps R^d onto the ball, so that the maximization has no constraint."""
    r = jnp.sqrt((y * y).sum(-1, keepdims=True) + 1e-300)
    return R * jnp.sin(r) / r * y


def _map(attention: AbstractAttention, x: Array):
    state = Tokens(np.zeros(x.shape))
    return lambda x: attention.of_itself(jnp.zeros(()), Measure(x, state.weights, state.positions))


@eqx.filter_jit
@partial(jax.value_and_grad, argnums=1)
def _stretch(attention: AbstractAttention, z: Array, R: Array) -> Array:
    """Return `log |D_X f [e]| / |e|` at `X = inside(y)`, z = (y, e), with its gradient."""
    x = _inside(z[0], R)
    moved = jax.jvp(_map(attention, x), (x,), (z[1],))[1]
    return jnp.log(jnp.linalg.norm(moved) + 1e-300) - jnp.log(jnp.linalg.norm(z[1]))


@eqx.filter_jit
def _sharpened(attention: AbstractAttention, x: Array, e: Array) -> Array:
    """Return e after a few steps of the power method toward the most stretched displacement."""
    f = _map(attention, x)
    pull = jax.vjp(f, x)[1]
    for _ in range(POWER_STEPS):
        e = pull(jax.jvp(f, (x,), (e,))[1])[0]
        e = jnp.where(jnp.linalg.norm(e) > 0, e / jnp.maximum(jnp.linalg.norm(e), 1e-300), 1.0)
    return e
