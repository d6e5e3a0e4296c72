"""The interaction energy that the SA and USA flows increase."""

from collections.abc import Callable
from functools import singledispatch

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..attention.base import AbstractAttention
from ..attention.parameters import Bilinear
from ..attention.softmax import Softmax
from ..attention.sums import map_rows
from ..attention.unnormalized import Unnormalized
from ..states import AbstractDensity, Equiangular, Tokens
from ..states.tokens import only_tokens
from ..transformer import Transformer


@singledispatch
def energy(
    state: Tokens | Equiangular, model: Transformer | AbstractAttention | float, *, centred: bool = False
) -> float:
    """`E_beta(mu) = (1/2beta) ∬ e^{beta<x,y>} dmu dmu`, which the SA and USA flows increase (FORMULAS §2).

    For a general symmetric A with `A = c V` it is `(1/2c) ∬ e^{<Ax,y>} dmu dmu`; other models have no energy.

    Args:
        state: the tokens.
        model: a Transformer, an attention, or beta itself.
        centred: subtract the constant `1/(2 beta)`, computed without cancellation as `½ ∬ expm1(beta s)/beta`.
            At beta = 0, where the constant is infinite, this is always done: E = ½ |∫ x dmu|^2.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.energy(tkf.uniform_sphere(64, 3, seed=0), 4.0)
    """
    state = only_tokens("energy", state)
    A, c = quadratic_form(model, state.d)
    if c == 0:
        return 0.5 * float(jnp.sum((state.weights @ state.x) ** 2))
    q = c * state.x if A is None else state.x @ A.T
    if centred:
        return 0.5 * float(_double_sum(jnp.expm1, q, state.x, state.weights)) / c
    value = 0.5 * float(_double_sum(jnp.exp, q, state.x, state.weights)) / c
    if not np.isfinite(value):
        raise ValueError(f"energy overflows at beta = {c:g}: use normalized_energy")
    return value


@singledispatch
def normalized_energy(
    state: Tokens | Equiangular | AbstractDensity, model: Transformer | AbstractAttention | float
) -> float:
    """`Ebar = ∬ e^{beta(<x,y>-1)} dmu dmu` in (0, 1] for tokens on the unit sphere (FORMULAS §2).

    It does not overflow, is 1 for one cluster, and has plateaus at `sum_c mass_c^2` while clusters wait.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.normalized_energy(tkf.uniform_sphere(64, 3, seed=0), 4.0)
    """
    state = only_tokens("normalized_energy", state)
    A, beta = quadratic_form(model, state.d)
    if A is not None:
        raise ValueError("normalized_energy needs isotropic attention (A = beta I)")
    return float(normalized_energy_of(state.x, state.weights, jnp.asarray(beta)))


@eqx.filter_jit
def _double_sum(f: Callable, q: Float[Array, "n d"], x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, ""]:
    """`sum_ij w_i w_j f(<q_i, x_j>)`."""
    return w @ map_rows(lambda rows: f(rows @ x.T) @ w, x.shape[0], x.shape[0], q)


@eqx.filter_jit
def normalized_energy_of(x: Float[Array, "n d"], w: Float[Array, " n"], beta: Array) -> Float[Array, ""]:
    """As `normalized_energy`, on arrays, for use inside jit."""
    sums = map_rows(lambda rows: jnp.exp(beta * (rows @ x.T - 1)) @ w, x.shape[0], x.shape[0], x)
    return w @ sums


def quadratic_form(model: Transformer | AbstractAttention | float, d: int) -> tuple[Array | None, float]:
    """`(A, c)` with A symmetric and `A = c V`; A is None when it is c I. Raises where the flow has no energy."""
    if not isinstance(model, (Transformer, AbstractAttention)):
        return None, float(model)
    attention = model.attention if isinstance(model, Transformer) else model
    if isinstance(model, Transformer) and model.mlp is not None:
        raise ValueError("a model with an MLP has no interaction energy")
    if not isinstance(attention, (Softmax, Unnormalized)) or not isinstance(attention.score, Bilinear):
        raise ValueError(f"{type(attention).__name__} attention has no interaction energy: use Softmax or Unnormalized")
    if attention.causal:
        raise ValueError("causal attention has no interaction energy")
    if not (attention.score.autonomous and attention.value.autonomous):
        raise ValueError("attention that changes with time has no interaction energy: pass beta itself")
    zero = jnp.zeros(())
    A, V = attention.score.matrix(zero, d), attention.value.matrix(zero, d)
    if attention.isotropic and attention.value.V is None:
        return None, float(A[0, 0])
    c = float((A * V).sum() / (V * V).sum())
    scale = float(jnp.abs(A).max())
    if float(jnp.abs(A - A.T).max()) > 1e-12 * scale or float(jnp.abs(A - c * V).max()) > 1e-12 * scale or c == 0:
        raise ValueError("the energy needs A symmetric and V proportional to A (or A = beta I, V = I)")
    return A, c
