"""Faster exponentials: base 2 for arguments that are not positive, as in a normalized kernel, and base e for any argument."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import on_cpu


def _coefficients(degree: int) -> np.ndarray:
    """Return the polynomial for 2^r on |r| <= 1/2 from its Chebyshev series, with coefficients I_k(ln2/2) (Bessel functions)."""
    half = math.log(2) / 2
    bessel = [
        sum((half / 2) ** (2 * m + k) / (math.factorial(m) * math.factorial(m + k)) for m in range(20))
        for k in range(degree + 1)
    ]
    terms = []
    before, chebyshev = np.zeros(degree + 1), np.eye(degree + 1)[0]  # T_{k-1} and T_k, by their coefficients: integers
    for k, b in enumerate(bessel):
        terms.append((2 if k else 1) * b * chebyshev)
        before, chebyshev = chebyshev, (2 if k else 1) * np.roll(chebyshev, 1) - before
    return np.array([math.fsum(column) for column in zip(*terms, strict=True)]) * 2.0 ** np.arange(degree + 1)


# For each precision: the polynomial, the smallest exponent, an integer type of equal width, the position of the exponent bits.
_FORMATS = {
    "float64": (_coefficients(11), -1022.0, jnp.int64, 52),
    "float32": (_coefficients(6), -126.0, jnp.int32, 23),
}


@jax.custom_jvp
def exp2(t: Array) -> Array:
    """Return `2^t` to rounding, clipped to [2^-1022, 2^817] in float64, so that sums of many values stay finite.

    2^t = 2^k 2^r, where k is the integer nearest to t: a polynomial gives 2^r, and k is added to the exponent bits.
    """
    polynomial, smallest, integer, shift = _FORMATS[t.dtype.name]
    number = t.dtype.type
    t = jnp.clip(t, number(smallest), number(-0.8 * smallest))
    if not on_cpu():
        return jnp.exp2(t)
    k = jax.lax.round(t, jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    r, value = t - k, jnp.full_like(t, polynomial[-1])
    for coefficient in polynomial[-2::-1]:
        value = value * r + number(coefficient)
    bits = jax.lax.bitcast_convert_type(value, integer) + (k.astype(integer) << shift)
    return jax.lax.bitcast_convert_type(bits, t.dtype)


@exp2.defjvp
def _(primals, tangents):
    value = exp2(*primals)
    return value, value * tangents[0] * value.dtype.type(math.log(2))


# ln 2 in two parts; the first has so few bits that its products with integers up to 1100 are exact.
_LN2 = {
    "float64": (float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")),
    "float32": (float.fromhex("0x1.62e000p-1"), float.fromhex("0x1.0bfbe8p-15")),
}


@jax.custom_jvp
def exp(s: Array) -> Array:
    """Return `e^s` to rounding, clipped below at the smallest normal number; inf on overflow.

    e^s = 2^k e^r, where k is the integer nearest to s/ln 2. `r = s - k ln 2` is accurate to rounding, however large s is.
    """
    polynomial, smallest, integer, shift = _FORMATS[s.dtype.name]
    number, (high, low) = s.dtype.type, _LN2[s.dtype.name]
    largest = number(np.log(jnp.finfo(s.dtype).max))
    clipped = jnp.clip(s, number(smallest * math.log(2)), largest)
    if not on_cpu():
        return jnp.where(s > largest, jnp.inf, jnp.exp(clipped))
    k = jax.lax.round(clipped * number(math.log2(math.e)), jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    r = (clipped - k * number(high)) - k * number(low)
    coefficients = polynomial * math.log2(math.e) ** np.arange(len(polynomial))
    value = jnp.full_like(s, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * r + number(coefficient)
    bits = jax.lax.bitcast_convert_type(value, integer) + (k.astype(integer) << shift)
    return jnp.where(s > largest, jnp.inf, jax.lax.bitcast_convert_type(bits, s.dtype))


@exp.defjvp
def _(primals, tangents):
    value = exp(*primals)
    return value, value * tangents[0]
