"""Attention to a density, evaluated at any points of the sphere, and the density after its points have moved.

With the kernel `phi(beta<x,y>)` and V = v attention is `v (∇G + R x)/N`: `G = ∫ F dmu`, `F' = phi`, is the part along the sphere,
`R = ∫ <x,y> phi dmu` that along x, and `N = ∫ phi dmu` if the kernel is normalized, otherwise 1. All three are convolutions, which
multiply the harmonics of degree l by a number. Since `(2l + d - 2) u P_l = (l + d - 2) P_{l+1} + l P_{l-1}`, the multipliers of R
are `((l + d - 2) w_{l+1} + l w_{l-1})/(2l + d - 2)`, where w are those of N.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..attention import AbstractAttention, AbstractPairwise
from ..spectral import AbstractHarmonics, CircleHarmonics, ZonalHarmonics
from .density_heads import at_degrees, head_multipliers, speeds

POLE = 1e-6  # radians between the last points and the poles, where longitude is undefined


class HeadAtPoints(eqx.Module):
    """One head: the multipliers of G, R and N, the first two times v."""

    slope: Float[Array, " k"]
    radial: Float[Array, " k"]
    mass: Float[Array, " k"] | None


class DensityField(eqx.Module):
    """Attention to densities in a basis.

    Points are unit vectors, in R^d or, for zonal densities, in a half plane bounded by the axis: (distance from the axis, height).
    """

    basis: AbstractHarmonics
    heads: tuple[HeadAtPoints, ...]

    def __init__(self, attention: AbstractAttention, basis: AbstractHarmonics):
        d, modes = basis.d, basis.modes
        self.basis = basis
        found = []
        for head, speed in speeds(attention):
            assert isinstance(head, AbstractPairwise)
            w, slope = head_multipliers(head, d, modes + 1)
            degree = jnp.arange(modes + 1)
            lower = jnp.concatenate([jnp.zeros(1), w[:modes]])
            mixed = ((degree + d - 2) * w[1:] + degree * lower) / jnp.maximum(2 * degree + d - 2, 1)
            radial = mixed.at[0].set(w[1])
            found.append(HeadAtPoints(speed * slope[:-1], speed * radial, w[:-1] if head.normalized else None))
        self.heads = tuple(found)

    @property
    def nodes(self) -> Float[Array, "N D"]:
        """The nodes of the basis, as points."""
        x = self.basis.nodes
        return x[:, jnp.array([0, -1])] if isinstance(self.basis, ZonalHarmonics) else x

    @property
    def around(self) -> Float[Array, "n D"]:
        """Points all over the circle or the sphere, or for zonal densities of the half circle, up to its poles."""
        if not isinstance(self.basis, ZonalHarmonics):
            return self.basis.nodes
        a = jnp.linspace(POLE, jnp.pi - POLE, 4 * (self.basis.modes + 1))
        return jnp.stack([jnp.sin(a), jnp.cos(a)], axis=1)

    def tangent(self, c: Float[Array, "..."], x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """Return the part of attention along the sphere."""
        return self._parts(c, x)[0]

    def __call__(self, c: Float[Array, "..."], x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """Return attention at points x to the density with coefficients c."""
        tangent, radial = self._parts(c, x)
        return tangent + radial[:, None] * x

    def _parts(self, c: Float[Array, "..."], x: Float[Array, "n D"]) -> tuple[Array, Array]:
        tangent, radial = jnp.zeros_like(x), jnp.zeros_like(x[:, 0])
        at = lambda w, x: self.basis.at(at_degrees(self.basis, w) * c, x)  # noqa: E731
        for head in self.heads:
            Z = 1.0 if head.mass is None else at(head.mass, x)
            slope = jax.vmap(lambda v, head=head: jax.jvp(lambda x: at(head.slope, x), (x,), (v,))[1])(directions(x))
            tangent += jnp.einsum("in,ind->nd", slope / Z, directions(x))
            radial += at(head.radial, x) / Z
        return tangent, radial

    def pushed(self, x: Float[Array, "N D"], weights: Float[Array, " N"]) -> Float[Array, "..."]:
        """Return the coefficients of the measure of weighted points, `∫ phi_l(T x) p(x) dsigma` for moved nodes."""
        return self.basis.moments(x, weights)

    def spread(self, c: Float[Array, "..."]) -> tuple[Float[Array, "N D"], Float[Array, " N"]]:
        """Return the nodes, and the mass that a density has at each."""
        return self.nodes, self.basis.node_weights * self.basis.values(c)


def directions(x: Float[Array, "n D"]) -> Float[Array, "i n D"]:
    """Return tangent vectors `v_i` at points, `sum_i v_i v_i^T` the projection onto the tangent space."""
    if x.shape[1] == 2:
        return jnp.stack([-x[:, 1], x[:, 0]], axis=1)[None]
    return jnp.eye(x.shape[1])[:, None] - x.T[:, :, None] * x


def folds(basis: AbstractHarmonics, z: Float[Array, "N 2"], dz: Float[Array, "N 2"]) -> Bool[Array, ""]:
    """Return True if the map `x -> z(x)/|z(x)|` is not one-to-one, from z and its derivative along the circle at the nodes."""
    det = determinant(z, dz)
    one_to_one = (det > 0).all() | (det < 0).all()
    if isinstance(basis, CircleHarmonics):  # the map must wind around the circle once
        a = jnp.arctan2(z[:, 1], z[:, 0])
        winding = jnp.round((jnp.mod(jnp.diff(a, append=a[:1]) + jnp.pi, 2 * jnp.pi) - jnp.pi).sum() / (2 * jnp.pi))
        one_to_one &= jnp.abs(winding) == 1
    else:  # no circle of latitude may be mapped to a pole
        one_to_one &= (z[:, 0] > 0).all() | (z[:, 0] < 0).all()
    return ~one_to_one


def determinant(z: Float[Array, "N 2"], dz: Float[Array, "N 2"]) -> Float[Array, " N"]:
    """Return `det(z, dz)` at each node."""
    return z[:, 0] * dz[:, 1] - z[:, 1] * dz[:, 0]
