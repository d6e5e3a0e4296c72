"""Attention by a series of its kernel: on the circle and on the 2-sphere a sum over n tokens costs O(n · modes).

`e^{beta<x,y>}` is smooth, so a series of about `sqrt(70 beta)` waves represents it to rounding. The moments of the tokens
against the waves are computed once, multiplied by the kernel's coefficients, and summed at each token. The accuracy of
such a sum is *absolute*: exponentially small forces between distant clusters need the direct sum.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spectral.legendre import legendre
from .base import AbstractAttention, AbstractHead
from .softmax import Softmax
from .unnormalized import Unnormalized

BLOCK = 2048
TRUNCATION = 1e-16  # of the largest kernel value
MODES = tuple(k << s for s in range(6) for k in range(8, 16))  # 8, 9, …, 16, 18, …: so that few shapes are compiled
MOST_MODES = {2: MODES[-1], 3: 288}  # for d = 2 and 3
FEWEST = {2: 5, 3: 0.5}  # tokens per wave from which on the series is faster than the direct sum
FEWEST_TOKENS = 256  # more than are batched in an ensemble of a sweep, whose cells then have the numbers of single runs


class SeriesSum(AbstractAttention):
    """`Gamma` of a softmax or unnormalized head with A = beta I, for tokens of length 1 in R^2 or R^3."""

    head: AbstractHead
    coefficients: Float[Array, "..."]
    """The coefficients of the kernel, divided by `e^{|beta|}`: see `kernel_waves`."""
    log_scale: Float[Array, ""]

    def __init__(self, head: AbstractHead, d: int, modes: int):
        beta = float(head.score.sharpness(jnp.zeros(()), jnp.zeros(())))
        self.head = head
        self.coefficients = jnp.asarray(kernel_waves(beta, d, modes), float)
        self.log_scale = jnp.abs(beta) - head.log_unit

    def __call__(self, t, x, mu, positions=None):
        return self.head(t, x, mu, positions)

    def of_itself(self, t, mu, unit=False):
        if not unit:
            return self.head.of_itself(t, mu)
        sums = wave_sums(self.coefficients, mu.x, mu.weights)
        if self.head.normalized:
            return self.head.value(t, sums[:, :-1] / sums[:, -1:])
        return self.head.value(t, jnp.exp(self.log_scale) * sums[:, :-1])

    @property
    def heads(self):
        return self.head.heads

    @property
    def isotropic(self):
        return True

    @property
    def log_unit(self):
        return self.head.log_unit

    def check(self, d):
        self.head.check(d)


def by_series(attention: AbstractAttention, x: Any, w: Any, tolerance: float) -> AbstractAttention:
    """Return the attention as a `SeriesSum` if that is faster and its error is well below a tolerance of the velocity.

    Softmax divides by `Z_i`. In units of `e^{|beta|}`, `Z_i` is at least w_i (for beta >= 0) and at least `e^{-2|beta|}`, so
    the error is at most that of a sum divided by the smallest of these.
    """
    n, d = x.shape
    if not isinstance(attention, (Softmax, Unnormalized)) or d not in MOST_MODES or attention.uses_positions:
        return attention
    if not (attention.isotropic and attention.score.autonomous):
        return attention
    fewest = lambda modes: FEWEST[d] * (2 * modes + 1) ** (d - 1)  # noqa: E731
    beta = float(attention.score.factor) * float(attention.score.beta)  # type: ignore[arg-type]
    if n < max(FEWEST_TOKENS, fewest(least_modes(beta, d))):
        return attention
    modes = modes_needed(beta, d)
    if modes is None or n < fewest(modes):
        return attention
    own = float(np.min(w)) if beta >= 0 else 0.0
    least = max(own, math.exp(-2 * abs(beta))) if isinstance(attention, Softmax) else 1.0
    return SeriesSum(attention, d, modes) if rounding(modes) < 0.2 * tolerance * least else attention


def least_modes(beta: float, d: int) -> int:
    """Return a lower bound of `modes_needed`, from `I_k(b) >= (b/2)^k / k!`, without Bessel functions."""
    half = abs(beta) / 2

    def term(k: int) -> float:
        order = k if d == 2 else k + 0.5
        log = order * math.log(half) - math.lgamma(order + 1) - 2 * half
        return log if d == 2 else log + 0.5 * math.log(math.pi / (4 * half))

    few = [modes for modes in MODES if half > 0 and term(modes + 1) > math.log(TRUNCATION)]
    return max(few, default=0)


def modes_needed(beta: float, d: int) -> int | None:
    """Return the number of waves of the kernel above rounding level, rounded up; None if there are too many."""
    for modes in MODES:
        rest = multipliers(beta, d, 2 * modes + 64)[modes + 1 :]
        dimensions = 2.0 if d == 2 else 2 * np.arange(modes + 1, modes + 1 + len(rest)) + 1.0
        if modes <= MOST_MODES[d] and float((np.abs(rest) * dimensions).sum()) < TRUNCATION:
            return modes
    return None


def rounding(modes: int) -> float:
    """Return a bound of a sum's error, relative to its largest possible value: above all errors measured up to beta = 1000."""
    return 4e-17 * (modes + 64)


def multipliers(beta: float, d: int, modes: int) -> np.ndarray:
    """Return `w_k e^{-|beta|}`, k = 0 … modes: the factors by which the kernel multiplies harmonics of degree k (FORMULAS §8)."""
    from scipy.special import ive

    k, b = np.arange(modes + 1), abs(beta)
    if b == 0:
        return (k == 0).astype(float)
    w = ive(k, b) if d == 2 else math.sqrt(math.pi / (2 * b)) * ive(k + 0.5, b)
    return np.where(k % 2 == 1, math.copysign(1.0, beta), 1.0) * w


def kernel_waves(beta: float, d: int, modes: int) -> np.ndarray:
    """Return the coefficients of the kernel in waves.

    On the circle these are the numbers c_k in `e^{beta cos(a-b)} = sum_k c_k cos k(a-b)`. On the sphere, with colatitudes a, b
    and longitudes p, q, they are the array G in `e^{beta<x,y>} = sum_m cos m(p-q) sum_{jk} G_mjk f_j(a) f_k(b)`, where f_k is
    a cosine for even m and a sine for odd m, like the harmonics of order m.
    """
    w = multipliers(beta, d, modes)
    if d == 2:
        return w * np.where(np.arange(modes + 1) == 0, 1.0, 2.0)
    each = (harmonic_waves(m, modes) for m in range(modes + 1))
    return np.stack([(p.T * w[m:]) @ p for m, p in enumerate(each)])


def harmonic_waves(m: int, modes: int) -> np.ndarray:
    """Return the `(l, k)` coefficients of associated Legendre functions of order m and degrees l = m … modes in waves.

    Wave k is a cosine or sine of k times the colatitude. The coefficients follow exactly from values at enough nodes.
    """
    nodes = 2 * (modes + 1)
    theta = math.pi * (np.arange(nodes) + 0.5) / nodes
    k = np.arange(modes + 1)
    wave = (np.sin if m % 2 else np.cos)(np.outer(theta, k))
    return legendre(m, modes, np.cos(theta)) @ (wave * np.where(k == 0, 1.0, 2.0) / nodes)


def wave_sums(coefficients: Float[Array, "..."], x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, "n m"]:
    """Return `sum_j w_j k(x_i, x_j) (x_j, 1)` for unit x: d+1 columns.

    A wave is a product of two factors f and p, so both sums over waves are products of matrices. A wave times a coordinate
    is a sum of neighboring waves, so the moments of x follow from those of 1.
    """
    n, d = x.shape
    factors, fields = (_circle_factors, _circle_fields) if d == 2 else (_sphere_factors, _sphere_fields)
    modes = coefficients.shape[-1] - 1
    blocks = -(-n // BLOCK)
    size = -(-n // blocks)
    split = lambda a: jnp.pad(a, ((0, blocks * size - n), (0, 0))).reshape(blocks, size, -1).transpose(0, 2, 1)  # noqa: E731
    x, w = split(x), split(w[:, None])
    moments = lambda x, w: [f @ (p * w).T for f, p in factors(x, modes + 1)]  # noqa: E731
    add = lambda total, block: (jax.tree.map(jnp.add, total, moments(*block)), None)  # noqa: E731
    none = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), jax.eval_shape(moments, x[0], w[0]))
    total, _ = jax.lax.scan(add, none, (x, w))
    F = fields(coefficients, total)

    def evaluate(x):
        parts = zip(F, factors(x, modes), strict=True)
        return sum(((field @ f).reshape(d + 1, len(p), size) * p).sum(1) for field, (f, p) in parts)

    return jax.lax.map(evaluate, x).transpose(0, 2, 1).reshape(blocks * size, d + 1)[:n]


def times(p: tuple[Array, Array], q: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the product of complex numbers, given as real and imaginary parts."""
    return p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]


def few_powers(z: tuple[Array, Array], count: int) -> tuple[Array, Array]:
    """Return `z^0, …, z^{count-1}` on a new first axis, computed one by one."""
    found = [(jnp.ones_like(z[0]), jnp.zeros_like(z[0])), z]
    while len(found) < count:
        found.append(times(found[len(found) // 2], found[-(-len(found) // 2)]))  # errors then grow like log k
    real, imaginary = zip(*found[:count], strict=True)
    return jnp.stack(real), jnp.stack(imaginary)


def powers(z: tuple[Array, Array], count: int) -> tuple[Array, Array]:
    """Return the same powers as products of a few powers, which compile quickly."""
    step = math.isqrt(count - 1) + 1
    low = few_powers(z, step + 1)
    high = few_powers((low[0][step], low[1][step]), -(-count // step))
    real, imaginary = times((high[0][:, None], high[1][:, None]), (low[0][:step], low[1][:step]))
    return real.reshape(-1, *z[0].shape)[:count], imaginary.reshape(-1, *z[0].shape)[:count]


def _circle_factors(x: Float[Array, "2 b"], modes: int) -> list[tuple[Array, Array]]:
    """Return the factors of waves: wave `k = step i + r` is the product of the waves `step i` and r < step."""
    step = _step(modes)
    c, s = few_powers((x[0], x[1]), step + 1)
    high = few_powers((c[step], s[step]), modes // step + 1)
    return [(jnp.concatenate(high), jnp.concatenate([c[:step], s[:step]]))]


def _step(modes: int) -> int:
    return math.isqrt(modes) + 1


def _circle_fields(c: Float[Array, " k"], moments: list[Array]) -> list[Array]:
    """Return the matrices between the factors for `sum_k c_k Re(e^{ika} conj M_k)`, `M_k = sum_j w_j v_j e^{ikb_j}`."""
    modes = len(c) - 1
    (hc, hs), step = moments[0].reshape(2, -1, moments[0].shape[1]), _step(modes + 1)
    M = (hc[:, :step] - hs[:, step:] + 1j * (hc[:, step:] + hs[:, :step])).reshape(-1)[: modes + 2]
    before, after = jnp.concatenate([M[1:2].conj(), M[:modes]]), M[1:]  # of e^{-ib} and of e^{ib}
    M = c * jnp.stack([(after + before) / 2, (after - before) / 2j, M[:-1]])
    step = _step(modes)
    high = modes // step + 1
    M = jnp.pad(M, ((0, 0), (0, high * step - len(c)))).reshape(3, high, step).transpose(0, 2, 1)
    return [jnp.block([[M.real, M.imag], [M.imag, -M.real]]).reshape(-1, 2 * high)]


def _sphere_factors(x: Float[Array, "3 b"], modes: int) -> list[tuple[Array, Array]]:
    """Return cosines of the colatitude for longitudes of even order, and sines for those of odd order."""
    r = jnp.sqrt(x[0] ** 2 + x[1] ** 2)
    safe = jnp.where(r > 0, r, 1)
    z = jnp.where(r > 0, x[0] / safe, 1.0), x[1] / safe
    even = powers(times(z, z), modes // 2 + 1)
    odd = times(z, (even[0][: (modes + 1) // 2], even[1][: (modes + 1) // 2]))
    colatitude = powers((x[2], r), modes + 1)
    return [(f, jnp.concatenate(p)) for f, p in zip(colatitude, (even, odd), strict=True)]


def _sphere_fields(G: Float[Array, "k k k"], moments: list[Array]) -> list[Array]:
    """Return the same on the sphere, `M_mk = sum_j w_j v_j f_k(b_j) e^{imq_j}`, for even and for odd m."""
    modes = len(G) - 1
    M = jnp.zeros((modes + 3, modes + 2), complex)  # m = -1, 0, …, modes + 1
    for parity, moment in enumerate(moments):
        real, imaginary = jnp.split(moment.T, 2)
        M = M.at[1 + parity :: 2].set(real + 1j * imaginary)
    M = M.at[0].set(M[2].conj())
    even = (jnp.arange(-1, modes + 2) % 2 == 0)[:, None]
    # f_{-1} = f_1 for cosines, -f_1 for sines; f_k cos a = (f_{k+1} + f_{k-1})/2; f_k sin a is of the other kind.
    after, before = M[:, 1:], jnp.concatenate([jnp.where(even, M[:, 1:2], -M[:, 1:2]), M[:, :modes]], axis=1)
    up = (after + before) / 2
    across = jnp.where(even, before - after, after - before) / 2  # in row m: what (x ± iy) makes of rows m ∓ 1
    east, west = across[2:], across[:-2]
    values = jnp.stack([(east + west) / 2, (east - west) / 2j, up[1:-1], M[1:-1, :-1]])
    field = jnp.einsum("mjk,vmk->vmj", G, values)
    return [
        jnp.concatenate([part.real, part.imag], 1).reshape(-1, modes + 1) for part in (field[:, ::2], field[:, 1::2])
    ]
