"""The interaction energy that the SA and USA flows increase."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, is_concrete, number
from ..attention.base import AbstractAttention
from ..attention.parameters import Bilinear, at
from ..attention.softmax import Softmax
from ..attention.sums import map_rows
from ..attention.unnormalized import Unnormalized
from ..normalization import Rescaled
from ..normalization.base import AbstractSphereNorm
from ..states import AbstractDensity, Equiangular, Tokens
from ..states.tokens import only_tokens
from ..transformer import Transformer
from .safe import units
from .series import observable


@observable("interaction energy", rotation_invariant=True)
def energy(
    state: Tokens | Equiangular, model: Transformer | AbstractAttention | float, *, centered: bool = False
) -> Float[Array, ""]:
    """Return the energy `E_beta(mu) = (1/2beta) ∬ e^{beta<x,y>} dmu dmu`, which the SA and USA flows increase (FORMULAS §2).

    With `V = v I` it is multiplied by v, so that the velocity is its gradient. For a general symmetric A with `A = c V` it is
    `(1/2c) ∬ e^{<Ax,y>} dmu dmu`. Other models have no energy. If the norm moves directions on the sphere, it is the energy of
    the directions. Inside jit, vmap or grad, `A = c V` is assumed, because the entries of matrices are not known there.

    Args:
        state: the tokens.
        model: a Transformer, an attention, or beta itself.
        centered: subtract the constant `1/(2 beta)`, computed without cancellation as `½ ∬ expm1(beta s)/beta`.
            At beta = 0, where the constant is infinite, this is always done: E = ½ |∫ x dmu|^2.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.energy(tkf.uniform_sphere(64, 3, seed=0), 4.0)
        1.000626453568482
    """
    state = _flat("energy", state, model)
    M, c, v = quadratic_form(model, state.d)
    gain, directions = reads_of(state, model)
    x, c = units(state.x) if directions else state.x, jnp.asarray(c * gain)
    return finite_energy(v * energy_of(x, state.weights, c, M, centered), c)


def _flat(name: str, state: Any, model: Any) -> Tokens:
    """Return the tokens; raise ValueError if their inner product is not that of R^d."""
    state = only_tokens(name, state)
    for space in (state.given_space, model.space if isinstance(model, Transformer) else None):
        if space is not None and space.indefinite:
            raise ValueError(
                f"{name} is defined in R^d and on its sphere, not in {type(space).__name__}: see mean_distance"
            )
    return state


def finite_energy(value: Array, beta: Array) -> Array:
    """Return an energy; raise ValueError if it has overflowed, unless it is traced."""
    if is_concrete(value) and not np.isfinite(float(value)):
        raise ValueError(f"energy overflows at beta = {float(beta):g}: use normalized_energy")
    return value


@observable("normalized energy", rotation_invariant=True)
def normalized_energy(
    state: Tokens | Equiangular | AbstractDensity, model: Transformer | AbstractAttention | float
) -> Float[Array, ""]:
    """Return `Ebar = ∬ e^{beta(<x,y>-1)} dmu dmu`, in (0, 1] for tokens on the unit sphere (FORMULAS §2).

    It does not overflow, is 1 for one cluster, and has plateaus at `sum_c mass_c^2` in metastable states. It needs
    `A = beta I` and `V = v I`, given as numbers or as matrices; v only sets the speed of the flow and its sign. If the norm
    moves directions on the sphere, it is the energy of the directions; a gain g of the norm multiplies beta by `g^2 d`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.normalized_energy(tkf.uniform_sphere(64, 3, seed=0), 4.0)
        0.14661690228860041
    """
    state = _flat("normalized_energy", state, model)
    beta = isotropic_beta("normalized_energy", model, state.d)
    gain, directions = reads_of(state, model)
    value = normalized_energy_of(state.x, state.weights, beta, gain, directions)
    if is_concrete(value) and not np.isfinite(float(value)):
        longest = float(jnp.linalg.norm(state.x, axis=1).max())
        raise ValueError(
            f"normalized_energy overflows for tokens of length {longest:.3g}: it is for unit tokens, use state.normalized()"
        )
    return value


def reads_of(state: Tokens, model: Transformer | AbstractAttention | float) -> tuple[Array | float, bool]:
    """Return what the energy of a model depends on: a factor of beta, and True for the directions of tokens (a sphere norm).

    The output of a norm with gain g is `g sqrt(d) theta`, which multiplies beta by `g^2 d`.
    """
    if not isinstance(model, Transformer) or not isinstance(model.norm, AbstractSphereNorm):
        return 1.0, False
    gain = getattr(getattr(model.norm, "gain", None), "g", None)
    if gain is not None and is_concrete(gain) and np.ptp(np.asarray(gain)) != 0:
        raise ValueError(
            "a norm whose gain differs between coordinates has no interaction energy: pass beta instead of the model"
        )
    return 1.0 if gain is None else jnp.ravel(gain)[0] ** 2 * state.d, True


@partial(jax.jit, static_argnames="centered")
def energy_of(
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    c: Float[Array, ""],
    M: Float[Array, "d d"] | None = None,
    centered: bool = False,
) -> Float[Array, ""]:
    """Return `(1/2c) ∬ e^{c <Mx,y>} dmu dmu` for arrays; M = None is the identity. Centered if `centered` or c = 0."""
    left, n = x if M is None else x @ M.T, x.shape[0]

    def double_sum(f: Callable) -> Array:
        return w @ map_rows(jax.checkpoint(lambda rows: f(rows @ x.T) @ w), n, n, left)

    if centered:
        return 0.5 * double_sum(lambda s: s * expm1_ratio(c * s))
    whole = 0.5 * double_sum(lambda s: jnp.exp(c * s)) / jnp.where(c == 0, 1, c)
    # Near c = 0, correct up to the first derivative: ½ ∬ s + c s^2/2, s = <Mx,y>.
    flat = 0.5 * (w @ left) @ (w @ x) + 0.25 * c * jnp.sum((w * left.T) @ left * ((w * x.T) @ x))
    return jnp.where(c == 0, flat, whole)


@partial(jax.jit, static_argnames="directions")
def normalized_energy_of(
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    beta: Array | float,
    gain: Array | float = 1.0,
    directions: bool = False,
) -> Float[Array, ""]:
    """Return the `normalized_energy` for arrays at inverse temperature `beta gain`, of directions x/|x| if `directions`."""
    x, beta = units(x) if directions else x, beta * gain
    rows = jax.checkpoint(lambda rows: jnp.exp(beta * (rows @ x.T - 1)) @ w)
    return w @ map_rows(rows, x.shape[0], x.shape[0], x)


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
