"""The mean shift map, which is attention to the data, and its iteration."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._xla.arrays import from_numpy
from ..attention import L2, Measure, Softmax
from .grouping import group, means

MET = 1e-5  # in bandwidths: blurring data closer than this continue as one
SAME_WAY = 1e-3  # in bandwidths: climbing points closer than this continue as one
SMALL_STEP = 0.05  # in bandwidths: shorter steps are extrapolated
LONGEST_JUMP = 0.2  # in bandwidths: an extrapolation is never longer, so that a point stays in its basin


class Kernel(NamedTuple):
    """A Gaussian kernel of precision beta on R^d, or `e^{beta<x,y>}` on the sphere; a fraction `step` of each shift is applied."""

    beta: float
    sphere: bool
    step: float

    @property
    def bandwidth(self) -> float:
        return self.beta**-0.5


def shift(
    x: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    w: Float[Array, " n"],
    beta: Float[Array, ""],
    step: Float[Array, ""],
    sphere: bool,
) -> Float[Array, "m d"]:
    """Return `x + step (m(x) - x)`, where `m(x) = sum_j w_j k(x,y_j) y_j / sum_j w_j k(x,y_j)` is attention to the keys y.

    On the sphere the result is normalized, and a point whose mean is 0 does not move.
    """
    attention = Softmax(beta) if sphere else L2(beta / 2)
    moved = x + step * (attention(jnp.zeros(()), x, Measure(keys, w, jnp.zeros_like(w))) - x)
    if not sphere:
        return moved
    length = jnp.linalg.norm(moved, axis=-1, keepdims=True)
    return jnp.where(length > 1e-12, moved / jnp.maximum(length, 1e-12), x)


_shift = jax.jit(shift, static_argnums=5)


@partial(jax.jit, static_argnums=5)
def _climb(x, keys, w, beta, step, sphere):
    """Apply two shifts, extrapolate them if they are small (SQUAREM), and shift once more; also return the last step's length.

    The extrapolated point is used only if its density is not lower. The gradient of the log density is `beta (m(x) - x)`;
    its change between two points follows from the trapezoidal rule.
    """
    move = lambda x: shift(x, keys, w, beta, step, sphere)  # noqa: E731
    x1 = move(x)
    x2 = move(x1)
    r, bend = x1 - x, x2 - 2 * x1 + x
    norm = lambda a: jnp.linalg.norm(a, axis=-1, keepdims=True)  # noqa: E731
    a = jnp.maximum(norm(r) / jnp.maximum(norm(bend), 1e-300), 1.0)
    jump = x + 2 * a * r + a * a * bend - x2
    h = beta**-0.5
    jump = jump * jnp.minimum(1, LONGEST_JUMP * h / jnp.maximum(norm(jump), 1e-300))
    guess = x2 + jnp.where(norm(x2 - x1) < SMALL_STEP * h, jump, 0)
    if sphere:
        guess = guess / norm(guess)
    x3 = move(guess)
    better = ((x2 - x1 + x3 - guess) * (guess - x1)).sum(-1, keepdims=True) >= 0
    length = jnp.where(better, norm(x3 - guess), norm(x2 - x1))[:, 0]
    return jnp.where(better, x3, x2), length


def climb(x, keys, w, kernel: Kernel, tol: float, max_iter: int) -> tuple[np.ndarray, int, int]:
    """Move each x (m, d) up the density of the keys until its step is below `tol` bandwidths.

    Points that have met continue as one, and points that have arrived no longer move. Return the end points (m, d), the
    number of shifts, and the number of points that have not arrived.
    """
    keys, w = from_numpy(np.array(keys)), from_numpy(np.array(w))
    ends, place = np.array(x), np.arange(len(x))  # place: the row of `ends` that holds each point
    active, shifts, h = np.arange(len(x)), 0, kernel.bandwidth
    while len(active) and shifts < max_iter:
        moved, length = _climb(_padded(ends[active]), keys, w, kernel.beta, kernel.step, kernel.sphere)
        ends[active], length = moved[: len(active)], np.asarray(length)[: len(active)]
        shifts += 3
        groups = group(ends[active], SAME_WAY * h)
        if groups.max() + 1 < len(active):
            first = active[np.unique(groups, return_index=True)[1]]
            onto = np.arange(len(ends))
            onto[active] = first[groups]
            place = onto[place]
            arrived = active[length < tol * h]
            active = np.setdiff1d(first, arrived)
        else:
            active = active[length >= tol * h]
    return ends[place], shifts, int(np.isin(place, active).sum())


def blur(x, w, kernel: Kernel, tol: float, max_iter: int) -> tuple[list[tuple[np.ndarray, np.ndarray]], int, bool]:
    """Move every point to its mean over all points, which also move, until no step exceeds `tol` bandwidths.

    Points that have met continue as one. Return the measures (points, weights) of all steps, the number of shifts, and
    whether the points came to rest.
    """
    x, w, history, h = np.array(x), np.array(w), [], kernel.bandwidth
    for shifts in range(1, max_iter + 1):
        history.append((x, w))
        moved = step_of(x, x, w, kernel)
        longest = float(np.linalg.norm(moved - x, axis=1).max())
        x = moved
        groups = group(x, MET * h)
        if groups.max() + 1 < len(x):
            x, w = means(x, w, groups)
            if kernel.sphere:
                x /= np.linalg.norm(x, axis=1, keepdims=True)
        if longest < tol * h:
            return [*history, (x, w)], shifts, True
    return [*history, (x, w)], max_iter, False


def step_of(x, keys, w, kernel: Kernel) -> np.ndarray:
    """Return the points x after one shift over the measure (keys, w)."""
    padding = _padded_size(len(keys)) - len(keys)
    keys, w = np.pad(np.asarray(keys), ((0, padding), (0, 0))), np.pad(np.asarray(w), (0, padding))
    return np.array(_shift(_padded(x), keys, w, kernel.beta, kernel.step, kernel.sphere)[: len(x)])


def _padded_size(n: int) -> int:
    """Return n rounded up to one of a few sizes, so that few programs are compiled."""
    power = 1 << max(n - 1, 15).bit_length()
    return 3 * power // 4 if n <= 3 * power // 4 else power


def _padded(x: np.ndarray) -> np.ndarray:
    return np.pad(np.asarray(x), ((0, _padded_size(len(x)) - len(x)), (0, 0)), mode="edge")
