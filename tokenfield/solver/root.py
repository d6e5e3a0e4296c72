"""The time at which a function changes its sign."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

PRECISION = 2 * np.finfo(float).eps  # of the root, relative to the end of the bracket
INTERPOLATIONS = 20  # evaluations after which only bisections follow: more than a smooth function needs


def sign_change(function: Callable[[Array], Array], begin: Float[Array, ""], end: Float[Array, ""]) -> Float[Array, ""]:
    """Return a time in [begin, end], exact to rounding, at which a function that is negative at `begin` becomes >= 0.

    Chandrupatla's method (1997): the next point is that of inverse quadratic interpolation if the last three points show
    that this is safe, and the middle of the bracket otherwise. A smooth function needs about 10 evaluations, a
    discontinuous one about 50. NaN counts as negative.

    Args:
        function: a function of time; it is not evaluated at the ends.

    Example:
        >>> import jax.numpy as jnp
        >>> sign_change(lambda t: t**2 - 2.0, jnp.asarray(0.0), jnp.asarray(2.0))
        Array(1.41421356, dtype=float64)
    """
    tolerance = PRECISION * jnp.abs(end)

    def narrow(state):
        x1, f1, x2, f2, share, count = state
        x = x1 + share * (x2 - x1)
        f = function(x)
        f = jnp.where(jnp.isnan(f), -jnp.inf, f)
        same = (f >= 0) == (f1 >= 0)
        x3, f3 = jnp.where(same, x1, x2), jnp.where(same, f1, f2)
        x2, f2 = jnp.where(same, x2, x1), jnp.where(same, f2, f1)
        # Now x and x2 enclose the root. Infinite values make `safe` false.
        xi, phi = (x - x2) / (x3 - x2), (f - f2) / (f3 - f2)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & (count < INTERPOLATIONS)
        share = f / (f2 - f) * f3 / (f2 - f3) + (x3 - x) / (x2 - x) * f / (f3 - f) * f2 / (f3 - f2)
        least = tolerance / jnp.abs(x2 - x)
        return x, f, x2, f2, jnp.where(safe, jnp.clip(share, least, 1 - least), 0.5), count + 1

    def wide(state):
        x1, _, x2, *_ = state
        return jnp.abs(x2 - x1) > 2 * tolerance

    infinite = jnp.full_like(end, jnp.inf)
    start = end, infinite, begin, -infinite, jnp.full_like(end, 0.5), jnp.zeros((), int)
    x1, f1, x2, *_ = jax.lax.while_loop(wide, narrow, start)
    return jnp.where(f1 >= 0, x1, x2)
