"""The pair sum of an isotropic kernel on the unit sphere, where the matrix of scores is symmetric."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .sums import map_rows


def pair_sums(phi, normalised, b, x, w, values):
    def rows(x_rows):
        s = b * (x_rows @ x.T)
        c = w * phi(s - jnp.abs(b) if normalised else s)
        out = c @ values
        return out / c.sum(-1, keepdims=True) if normalised else out

    return map_rows(rows, x.shape[0], x.shape[0], x)
