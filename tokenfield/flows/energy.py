"""The interaction energy of a model: what it depends on, as numbers and matrices."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, is_concrete, number
from ..attention.base import AbstractAttention
from ..attention.parameters import Bilinear, at
from ..attention.softmax import Softmax
from ..attention.unnormalized import Unnormalized
from ..normalization import AbstractGainNorm, AbstractSphereNorm, Rescaled
from ..spaces import Sphere
from ..transformer import Transformer


def energy_beta(model: Transformer, d: int) -> float | None:
    """Return beta such that the flow increases `∬ e^{beta<θ,θ'>} dmu dmu` of the directions θ; None if there is no such energy.

    It exists for one Softmax or Unnormalized head with a number beta >= 0 and V = I, without mask or MLP, under a norm that
    moves directions. Under a norm with gain g, attention acts on `g sqrt(d) θ`, so beta becomes `beta g^2 d`.

    Args:
        model: the model.
        d: dimension of the tokens.
    """
    if not (isinstance(model.space, Sphere) and model.attention.isotropic):
        return None
    try:
        _, beta, v = quadratic_form(model, d)
        beta = float(beta * reads_of(model, d)[0])
    except ValueError:
        return None
    return beta if v == 1 and beta >= 0 else None


def reads_of(model: Transformer | AbstractAttention | float, d: int | None) -> tuple[Array | float, bool]:
    """Return what the energy of a model depends on: a factor of beta, and True for the directions of tokens (a sphere norm).

    The output of a norm with gain g is `g sqrt(d) theta`, which multiplies beta by `g^2 d`. d = None is for a state without a
    dimension.
    """
    if not isinstance(model, Transformer) or not isinstance(model.norm, AbstractSphereNorm):
        return 1.0, False
    if not isinstance(model.norm, AbstractGainNorm) or model.norm.gain.g is None:
        return 1.0, True
    if d is None:
        raise ValueError(
            "the gain g of the norm multiplies beta by g^2 d, but this state has no dimension d: pass beta instead of the model"
        )
    if not model.norm.gain.uniform:
        raise ValueError(
            "a norm whose gain differs between coordinates has no interaction energy: pass beta instead of the model"
        )
    g = jnp.ravel(model.norm.gain.g)
    return jnp.where((g == g[0]).all(), g[0] ** 2 * d, jnp.nan), True  # inside jit, whether g is uniform is not known


def isotropic_beta(name: str, model: Transformer | AbstractAttention | float, d: int | None) -> Array | float:
    """Return beta of a model with `A = beta I`, `V = v I`; raise ValueError if the observable `name` is not defined."""
    M, beta, _ = quadratic_form(model, d)
    if M is not None:
        raise ValueError(
            f"{name} needs isotropic attention, A = beta I and V = v I, got another A: pass beta instead of the model"
        )
    return beta


def quadratic_form(
    model: Transformer | AbstractAttention | float, d: int | None
) -> tuple[Float[Array, "d d"] | None, Array | float, Array | float]:
    """Return `(M, c, v)` such that the energy is `(v/2c) ∬ e^{c <Mx,y>} dmu dmu`; raise ValueError if the flow has none.

    M is None, for the identity, if `A = c I` and `V = v I`. Otherwise M is `A/c` with A symmetric and `A = c V`, and v = 1.
    d = None is for a state without a dimension, which is then taken from the matrices.
    """
    if not isinstance(model, (Transformer, AbstractAttention)):
        return None, number("model", model) if is_concrete(model) else as_float("model", model, 0), 1.0
    attention = model.attention if isinstance(model, Transformer) else model
    if isinstance(model, Transformer) and isinstance(model.norm, Rescaled):
        raise ValueError(
            "energy is a function of x, but a state under Rescaled holds z = e^(-tV) x: for the energy of z, pass beta instead "
            "of the model"
        )
    if isinstance(model, Transformer) and model.depth is not None:
        raise ValueError("a model with weights by layer has no single energy: choose a layer, model.at_layer(0)")
    if isinstance(model, Transformer) and not (model.mlp is None and model.context is None):
        raise ValueError("a model with an MLP or a context has no interaction energy")
    if not isinstance(attention, (Softmax, Unnormalized)) or not isinstance(attention.score, Bilinear):
        raise ValueError(f"{type(attention).__name__} attention has no interaction energy: use Softmax or Unnormalized")
    if attention.uses_positions:
        raise ValueError("attention with a causal mask or rules for positions has no interaction energy")
    if not (attention.score.autonomous and attention.value.autonomous):
        raise ValueError("time-dependent attention has no interaction energy: pass beta instead of the model")
    given = [np.shape(m) for m in (attention.score.A, attention.score.Q, attention.value.V) if m is not None]  # type: ignore[arg-type]
    d = next((shape[1] for shape in given if len(shape) == 2), 2) if d is None else d
    attention.check(d)
    zero = jnp.zeros(())
    if attention.score.isotropic and attention.value.isotropic:
        v = 1.0 if attention.value.V is None else at(attention.value.V, zero, zero)
        return None, _sharpness(attention.score), v
    return _general_form(attention.score.matrix(zero, d), attention.value.matrix(zero, d))


def _sharpness(score: Bilinear) -> Array | float:
    if is_concrete(score.factor, score.beta):
        return float(score.factor) * float(score.beta)  # type: ignore[arg-type]  # compiles no program
    return score.sharpness(jnp.zeros(()), jnp.zeros(()))


def _general_form(A: Array, V: Array) -> tuple[Float[Array, "d d"] | None, Array | float, Array | float]:
    """Return `quadratic_form` from matrices; inside jit, vmap or grad, where their entries are not known, `A = c V` is assumed."""
    if not is_concrete(A, V):
        if A.shape != V.shape:
            raise ValueError(f"the energy needs V proportional to A, got shapes {V.shape} and {A.shape}")
        c = jnp.sum(A * V) / jnp.sum(V * V)
        return A / c, c, 1.0
    return _known_form(np.asarray(A), np.asarray(V))


def _known_form(A: np.ndarray, V: np.ndarray) -> tuple[Float[Array, "d d"] | None, float, float]:
    eye = np.eye(A.shape[0])
    if _proportional(A, eye) and _proportional(V, eye):
        return None, float(A[0, 0]), float(V[0, 0])
    c = float((A * V).sum() / (V * V).sum()) if A.shape == V.shape and V.any() else 0.0
    if c == 0 or not np.allclose(A, A.T, rtol=0, atol=1e-12 * np.abs(A).max()) or not _proportional(A, V):
        raise ValueError("the energy needs A symmetric and V proportional to A (or A = beta I, V = v I)")
    return jnp.asarray(A / c), c, 1.0


def _proportional(M: np.ndarray, N: np.ndarray) -> bool:
    """Return True if M is a multiple of N, up to rounding."""
    return M.shape == N.shape and bool(np.abs(M - (M * N).sum() / (N * N).sum() * N).max() <= 1e-12 * np.abs(M).max())


@jax.custom_jvp
def expm1_ratio(z: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return `(e^z - 1)/z`, and 1 at 0."""
    return jnp.where(z == 0, 1, jnp.expm1(z) / jnp.where(z == 0, 1, z))


@expm1_ratio.defjvp
def _(primals, tangents):
    """Return the derivative `((z - 1) e^z + 1)/z^2`, by its series where this would cancel."""
    (z,), (dz,) = primals, tangents
    small = jnp.abs(z) < 0.5
    far, near = jnp.where(small, 1, z), jnp.where(small, z, 0)
    series = jnp.polyval(jnp.array([(k + 1) / math.factorial(k + 2) for k in reversed(range(17))]), near)
    return expm1_ratio(z), jnp.where(small, series, jnp.exp(far) * (far - 1) / far**2 + 1 / far**2) * dz
