"""The local Lipschitz constant: how much a layer stretches small displacements of given tokens."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from .._check import as_float, count, positive
from .._cost import check_derivative
from .._jax import in_double
from .._shown import shown
from ..attention import AbstractAttention
from ..flows.base import require_closed
from ..flows.tokens import check
from ..states import Tokens
from ..states.base import require_one
from ..transformer import Transformer
from .derivative import AbstractDerivative, Chain, Shifted, Weighted
from .layer import attention_derivative, layer_derivative
from .singular import basis_rows, largest_singular

MAX_PRODUCTS = 1000


@dataclass(frozen=True)
class LocalConstant:
    """The largest singular values of the derivative D of a map of tokens, with their vectors.

    The norm is `|X|^2 = n sum_i m_i |x_i|^2` for tokens with weights m_i, which is `sum_i |x_i|^2` for equal weights: a token of
    weight 2/n counts as two tokens that move together.

    Attributes:
        values: (k,) decreasing. The first is the local Lipschitz constant `|D|`. Each is at most the singular value of the
            same rank, up to rounding.
        right: (k, n, d) right singular vectors: displacements of the tokens, orthonormal in this norm.
        left: (k, n, d') left singular vectors: `D right = values left` (0 where the value is 0).
        radius: (k,) *a* singular value lies within this distance of each value, by the residual
            `|D^T left - values right|`. That no larger one was missed is only as certain as a random start makes it. The error
            of a value is usually far smaller: of order `radius^2 / gap`.
        products: number of products with D, each together with one with its transpose.
        converged: True if every radius is at most `rtol values[0]`; if not, the intervals still hold.
        log_unit: the map was divided by `e^{log_unit}` (0 except for `Unnormalized` at large beta).
    """

    values: np.ndarray
    right: np.ndarray
    left: np.ndarray
    radius: np.ndarray
    products: int
    converged: bool
    log_unit: float

    @property
    def constant(self) -> float:
        """The local Lipschitz constant, `values[0]`."""
        return float(self.values[0])

    @property
    def intervals(self) -> np.ndarray:
        """(k, 2) intervals, each of which contains a singular value."""
        return np.stack([np.maximum(self.values - self.radius, 0), self.values + self.radius], axis=1)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        shown = ", ".join(f"{v:.9g} ± {r:.1g}" for v, r in zip(self.values, self.radius, strict=True))
        return f"LocalConstant({shown}; {self.products} products, {state})"


@in_double
def local(
    model: AbstractAttention | Transformer,
    x: Tokens | ArrayLike,
    *,
    rtol: float = 1e-8,
    top_k: int = 1,
    residual: bool | None = None,
    step: float = 1.0,
    t: float = 0.0,
    max_products: int = MAX_PRODUCTS,
) -> LocalConstant:
    """Return `|D_X f|_2`, the local Lipschitz constant of one layer at tokens X (FORMULAS §6).

    The map f takes all tokens to all outputs, (n, d) to (n, d): an attention `X -> (Gamma(x_i))_i`, or a Transformer's
    layer with its norm, residual connections and MLP, as in `layers`. Displacements in all of R^d count, even under a
    norm that keeps tokens on a sphere. Kernels that are functions of the score are differentiated in blocks of rows,
    without n x n arrays for n above a few thousand. ReLU has a derivative where no score is 0, and Hardmax where no scores tie.

    Args:
        model: an attention, or a Transformer without noise.
        x: (n, d) tokens, or `Tokens` with positive weights; see `LocalConstant` for the norm.
        rtol: allowed radius of the intervals, relative to the largest value.
        top_k: number of singular values, counted with multiplicity.
        residual: True for `x + step Gamma(x)`; False for `Gamma(x)`, which is the default for an attention. For a
            Transformer the default True is the layer, and False the layer minus x.
        step: the step h of the layer.
        t: the time at which A(t), V(t), … are evaluated.
        max_products: maximum number of products with D; if it is not enough, the result has `converged=False`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.local(tkf.Softmax(beta=4.0), tkf.uniform_sphere(64, 8, seed=0)).constant
        1.8709307117917209
    """
    state = tokens_of(x)
    step, time = positive("step", step), jnp.asarray(float(as_float("t", t, 0)))
    check_derivative(state.n, state.d, basis_rows(state.n * state.d, count("top_k", top_k)))
    attention, D = derivative(model, state, time, residual, step)
    return singular_values(D, state, float(attention.log_unit), rtol, top_k, max_products)


def tokens_of(x: Any) -> Tokens:
    """Return x as `Tokens`; raise ValueError unless all weights are positive."""
    state = x if isinstance(x, Tokens) else Tokens(x)
    require_one("lipschitz", state)
    if float(state.weights.min()) <= 0:
        raise ValueError(
            f"weights must be > 0, got 0 for token {int(jnp.argmin(state.weights))}: it has no length in the norm "
            "|X|^2 = n sum_i m_i |x_i|^2"
        )
    return state


def derivative(
    model: Any, state: Tokens, t: Array, residual: bool | None, step: float
) -> tuple[AbstractAttention, AbstractDerivative]:
    """Return the attention of a model, and the derivative of the map that the model and `residual` define."""
    if residual not in (None, True, False):
        raise ValueError(f"residual must be True, False or None, got {shown(residual)}")
    h = jnp.asarray(step)
    if isinstance(model, Transformer):
        check_layer(model, state)
        D, _ = layer_derivative(model, t, state, h)
        return model.attention, D if residual in (None, True) else Shifted(D, -jnp.ones(()), jnp.ones(()))
    if not isinstance(model, AbstractAttention):
        raise ValueError(f"model must be an attention such as Softmax(beta=1.0) or a Transformer, got {shown(model)}")
    model.check(state.d)
    D = attention_derivative(model, t, state)
    if not residual:
        return model, D if step == 1 else Shifted(D, jnp.zeros(()), h)
    width = jax.eval_shape(D.apply, state.x).shape[1]
    if width != state.d:
        raise ValueError(f"residual needs V to map R^{state.d} to itself, got an attention with values in R^{width}")
    return model, Shifted(D, jnp.ones(()), h)


def check_metric(model: Transformer) -> None:
    """Raise ValueError unless lengths of tangent vectors are those of R^d."""
    if model.space.indefinite:
        raise ValueError(
            f"model: tangent vectors of {type(model.space).__name__} are not measured by their length in R^d: use "
            "another space"
        )


def check_layer(model: Transformer, state: Tokens) -> None:
    """Raise ValueError unless the model has a layer for these tokens."""
    if model.noise is not None:
        raise ValueError("model must be without noise: the derivative of a random layer is not defined")
    check_metric(model)
    require_closed(state, model)
    check(state, model)


@eqx.filter_jit
def _apply(D: AbstractDerivative, e: Array) -> Array:
    return jax.lax.map(D.apply, e) if len(e) > 1 else D.apply(e[0])[None]


@eqx.filter_jit
def _transpose(D: AbstractDerivative, u: Array) -> Array:
    return jax.lax.map(D.transpose, u) if len(u) > 1 else D.transpose(u[0])[None]


def singular_values(
    D: AbstractDerivative, state: Tokens, log_unit: float, rtol: float, top_k: int, max_products: int
) -> LocalConstant:
    """Return the largest singular values of D in the norm of weighted tokens."""
    rtol, top_k = positive("rtol", rtol), count("top_k", top_k)
    max_products = count("max_products", max_products)
    n, d = state.x.shape
    if top_k > n * d:
        raise ValueError(f"top_k must be at most n d = {n * d}, the number of singular values, got {top_k}")
    weights = np.asarray(state.weights)
    equal = bool((weights == weights[0]).all())
    root = 1.0 if equal else np.sqrt(n * weights)[:, None]
    # Layers are multiplied one by one, so that equal ones share a compiled program.
    parts = [
        part if equal else Weighted.of(part, state.weights) for part in (D.parts if isinstance(D, Chain) else (D,))
    ]

    def apply(e: np.ndarray) -> Array:
        y = jnp.asarray(e.reshape(-1, n, d), float)
        for part in parts:
            y = _apply(part, y)
        return y

    def transpose(u: np.ndarray | Array) -> np.ndarray:
        y = u if isinstance(u, Array) else jnp.asarray(u.reshape(len(u), n, -1), float)
        for part in reversed(parts):
            y = _transpose(part, y)
        return _finite(np.asarray(y).reshape(len(u), -1))

    found = largest_singular(apply, transpose, n * d, top_k, rtol, max_products)
    return LocalConstant(
        values=found.values,
        right=found.right.reshape(-1, n, d) / root,
        left=found.left.reshape(len(found.left), n, -1) / root,
        radius=found.radius,
        products=found.products,
        converged=found.converged,
        log_unit=log_unit,
    )


class NotFinite(ValueError):
    """The derivative of an attention is not finite."""


def _finite(product: np.ndarray) -> np.ndarray:
    if not np.isfinite(product).all():
        raise NotFinite(
            "x: the derivative overflows at these tokens: use smaller tokens or scores "
            "(or, for Unnormalized, a larger log_unit; for Sinkhorn, more max_iterations)"
        )
    return product
