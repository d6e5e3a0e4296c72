"""Effect of independent noise on a density on a sphere: the adjoint of its generator, by products and Laplacians alone.

A generator `tr(D(x) ∇²f)`, D a matrix on the tangent space, makes a density obey `p_t = ∇·∇·(D p)`.

- Isotropic, `D = a(x) P`, or on the circle: `Δ(a p)`.
- `D = P M P`, M a symmetric matrix of R^d. Let `b = <M x, x>`; its Hessian on the sphere is `2 P M P - 2 b P`. So the generator is
  `½ <∇²b, ∇²f> + b Δf`, and Bochner's formula, `<∇²b, ∇²f> = ½ Δ<∇b, ∇f> - ½ <∇b, ∇Δf> + 2 <∇b, ∇f>`, leaves Laplacians only,
  as `<∇b, ∇f> = ½ (Δ(bf) - b Δf - f Δb)`. For traceless M, `Δb = -2d b`, and the adjoint is
  `⅛ (b Δ²p - 2 Δ(b Δp) + Δ²(b p)) + (d+2)/4 b Δp - (d-2)/4 Δ(b p) + d b p`.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..noise import AbstractNoise, AnisotropicNoise, MultiplicativeNoise
from ..spectral import AbstractHarmonics
from ..states import ZonalDensity

SYMMETRIC = 1e-12  # relative tolerance for noise that must be symmetric about an axis


class AbstractUneven(eqx.Module):
    """The noise minus a uniform isotropic diffusion a.

    a is halfway between the least and the largest diffusion, so this part is at most as strong as a at any point and in any
    direction. The decay by a, which is exact, then damps the modes that explicit steps would amplify.
    """

    @abc.abstractmethod
    def __call__(self, basis: AbstractHarmonics, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the contribution to the right-hand side for a density with coefficients y."""


class UnevenStrength(AbstractUneven):
    """`Δ(a p)`, a(x) at the nodes, or in the sense of Stratonovich `Δ(a p) - ½ ∇·(p ∇a)`."""

    strength: Float[Array, " N"]
    stratonovich: bool = eqx.field(static=True)

    def __call__(self, basis, y):
        p, laplacian = basis.values(y), -basis.laplacian
        spread = laplacian * basis.coefficients(self.strength * p)
        if not self.stratonovich:
            return spread
        bent = basis.values(laplacian * basis.coefficients(self.strength))
        return 0.75 * spread + 0.25 * basis.coefficients(self.strength * basis.values(laplacian * y) - bent * p)


class UnevenDirections(AbstractUneven):
    """`∇·∇·(P M P p) + a Δp`, M traceless; `b = <M x, x>` at the nodes."""

    b: Float[Array, " N"]
    a: Float[Array, ""]

    def __call__(self, basis, y):
        laplacian, d = -basis.laplacian, basis.d
        times_b = lambda c: basis.coefficients(self.b * basis.values(c))  # noqa: E731
        plain, bent, twice = times_b(y), times_b(laplacian * y), times_b(laplacian**2 * y)
        fourth = (twice - 2 * laplacian * bent + laplacian**2 * plain) / 8
        return fourth + (d + 2) / 4 * bent + laplacian * (self.a * y - (d - 2) / 4 * plain) + d * plain


def density_noise(noise: AbstractNoise | None, basis: AbstractHarmonics) -> tuple[Array, AbstractUneven | None]:
    """Return the diffusion a, which multiplies the Laplacian, and the rest of the noise (None if there is none)."""
    if noise is None:
        return jnp.zeros(()), None
    noise.check(basis.d)
    x = basis.nodes
    if isinstance(noise, AnisotropicNoise):
        M = noise.S @ noise.S.T / noise.kappa
        b, whole = jnp.einsum("ni,ij,nj->n", x, M, x), jnp.trace(M)
        if basis.d == 2:  # one direction, in which the diffusion is tr(M) - b
            return _even(whole - b, False)
        strengths = jnp.linalg.eigvalsh(M)
        a, mean = (strengths[0] + strengths[-1]) / 2, whole / basis.d
        return a, UnevenDirections(b - mean, mean - a)
    if isinstance(noise, MultiplicativeNoise):
        return _even(jax.vmap(noise.g)(x) ** 2 / noise.kappa, noise.sense == "stratonovich")
    return 1 / noise.kappa, None


def _even(strength: Float[Array, " N"], stratonovich: bool) -> tuple[Array, AbstractUneven]:
    a = (strength.min() + strength.max()) / 2
    return a, UnevenStrength(strength - a, stratonovich)


def noise_obstacle(kind: type, noise: AbstractNoise | None) -> str | None:
    """Return why densities of a kind have no closed equation under this independent noise, or None."""
    if kind is not ZonalDensity:
        return None
    if isinstance(noise, MultiplicativeNoise):
        return "the strength g of MultiplicativeNoise may change around the axis"
    if isinstance(noise, AnisotropicNoise) and not _has_axis(noise.S):
        known = "" if is_concrete(noise.S) else ", and S must be known outside of jit, vmap and grad"
        return f"AnisotropicNoise is symmetric about the axis only if S S^T = diag(a, …, a, b){known}"
    return None


def _has_axis(S: Array) -> bool:
    """Return True if `S S^T = diag(a, …, a, b)`; False if that is not known, inside jit, vmap or grad."""
    if not is_concrete(S):
        return False
    M = np.asarray(S) @ np.asarray(S).T
    even = np.diag(np.append(np.full(len(M) - 1, M[0, 0]), M[-1, -1]))
    return bool(np.abs(M - even).max() <= SYMMETRIC * np.abs(M).max())
