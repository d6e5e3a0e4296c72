"""Weighted tokens: the measure `mu = sum_i w_i delta_{x_i}`."""

from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, has_values, is_concrete
from .._memory import refuse_large
from .._shown import shown
from .._types import Matrix, Vector
from ..spaces import AbstractSpace, Euclidean, Sphere
from .base import AbstractState, require_one


class Tokens(AbstractState):
    """Tokens `x_1 … x_n` in R^d with weights: `mu = sum_i w_i delta_{x_i}` (FORMULAS §0).

    Args:
        x: (n, d) array of tokens.
        weights: (n,) non-negative weights that sum to 1; 1/n by default.
        positions: (n,) positions: causal attention lets a token at s see those at `tau <= s`, and `RoPE`, `ALiBi`, … depend
            on them. By default (i+1)/n, in (0, 1], so that token i sees j <= i; real models count 0, 1, 2, ….
        space: the space in which they live, e.g. `Torus()`. By default the sphere if all lengths are 1, otherwise R^d.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Tokens([[1.0, 0.0], [0.0, 1.0]], weights=[0.25, 0.75])
        Tokens(n=2, d=2, weights=[0.25, 0.75])
    """

    x: Float[Array, "*batch n d"]
    weights: Float[Array, "*batch n"]
    positions: Float[Array, "*batch n"]
    kind: ClassVar[str] = "tokens"
    title: ClassVar[str] = "tokens"
    given_space: AbstractSpace | None = None
    """The space, if it was given."""

    def __init__(
        self,
        x: Matrix,
        weights: Vector | None = None,
        positions: Vector | None = None,
        space: AbstractSpace | None = None,
    ):
        if not (space is None or isinstance(space, AbstractSpace)):
            raise ValueError(f"space must be a space such as Torus(), got {shown(space)}")
        self.given_space = space
        if isinstance(x, np.ndarray):  # may be a memory-mapped file larger than memory
            refuse_large("x", *x.shape)
        self.x = as_float("x", x, 2).astype(jnp.float64)
        n, d = self.x.shape
        if n == 0 or d == 0:
            raise ValueError(f"x must hold at least one token of at least one coordinate, got shape {self.x.shape}")
        self.weights = _equal(n) if weights is None else as_float("weights", weights, 1).astype(jnp.float64)
        self.positions = _in_order(n) if positions is None else as_float("positions", positions, 1)
        if weights is None and positions is None:
            return
        for name in ("weights", "positions"):
            if getattr(self, name).shape != (n,):
                raise ValueError(
                    f"{name} must have one entry for each of the {n} tokens, got {getattr(self, name).shape}"
                )
        if is_concrete(self.weights):
            w = np.asarray(self.weights)
            if w.min() < 0:
                raise ValueError(f"weights must be >= 0, got {shown(float(w.min()))}")
            if abs(w.sum() - 1) > 1e-9:
                raise ValueError(f"weights must sum to 1, got a sum of {shown(float(w.sum()))}")

    def arguments(self):
        return {"x": self.x, "weights": self.weights, "positions": self.positions, "space": self.given_space}

    def shown_arguments(self):
        if np.ndim(self.x) < 2:  # no tokens, as in a tree of axes for vmap
            return {"x": self.x}
        n, d = self.n, self.d
        if self.batch_shape:
            return {"batch_shape": self.batch_shape, "n": n, "d": d}
        more: dict[str, Any] = {"weights": self.weights, "positions": self.positions, "space": self.given_space}
        defaults = {"weights": _equal(n), "positions": _in_order(n), "space": None}
        given = {name: value for name, value in more.items() if not _same(value, defaults[name])}
        return {"n": n, "d": d} | given

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the tokens (n, d), for `np.asarray(tokens)`."""
        return np.array(self.x, dtype, copy=copy)

    @property
    def batch_shape(self):
        return self.x.shape[:-2]

    @property
    def n(self) -> int:
        """Number of tokens."""
        return self.x.shape[-2]

    @property
    def d(self) -> int:
        """Dimension of the space the tokens live in."""
        return self.x.shape[-1]

    @property
    def space(self) -> AbstractSpace:
        """The space in which the tokens live: the given one; otherwise the sphere if all tokens have length 1, or R^d."""
        if self.given_space is not None:
            return self.given_space
        if not is_concrete(self.x):
            raise ValueError("space: lengths are not known inside jit, vmap or grad: use Tokens(x, space=Sphere())")
        unit = np.abs(np.linalg.norm(np.asarray(self.x), axis=-1) - 1).max() <= 1e-6
        return Sphere() if unit else Euclidean()

    def normalized(self) -> "Tokens":
        """Return the same tokens with every length set to 1."""
        return Tokens(self.x / jnp.linalg.norm(self.x, axis=-1, keepdims=True), self.weights, self.positions)

    def with_encoding(self, encoding: Matrix) -> "Tokens":
        """Return the tokens `x_i + e_i` for a positional encoding e, (n, d): `sinusoidal(n, d)`, or a learned one.

        Under a norm that fixes lengths, normalize afterwards: `tokens.with_encoding(e).normalized()`.
        """
        e = as_float("encoding", encoding, 2)
        if e.shape != self.x.shape:
            raise ValueError(f"encoding must have the shape of the tokens, {self.x.shape}, got {e.shape}")
        return Tokens(self.x + e, self.weights, self.positions)


def _same(value: Any, default: Any) -> bool:
    return value is default or (has_values(value, default) and np.array_equal(value, default))


@lru_cache(maxsize=64)
def _equal(n: int) -> Float[Array, " n"]:
    with jax.ensure_compile_time_eval():
        return jnp.asarray(np.full(n, 1 / n), float)


@lru_cache(maxsize=64)
def _in_order(n: int) -> Float[Array, " n"]:
    with jax.ensure_compile_time_eval():
        return jnp.asarray(np.arange(1, n + 1) / n, float)


def moved_to(tokens: Tokens, x: np.ndarray) -> Tokens:
    """Return tokens at points x, with the weights and positions of `tokens`, without checks; a NumPy array is kept as it is.

    This is faster than `Tokens(...)`, for sweeps that create thousands of states.
    """
    _, weights, positions = jax.tree.leaves(tokens)
    return jax.tree.unflatten(jax.tree.structure(tokens), [x, weights, positions])


def wrap_hint(state: object) -> str:
    """Return a hint for a user who passed a plain array of tokens; "" for any other object."""
    return ": write tkf.Tokens(x) for an array x (n, d)" if isinstance(state, (Array, np.ndarray, list, tuple)) else ""


def only_tokens(name: str, state: object) -> Tokens:
    """Return the state if it consists of tokens; raise TypeError for another state, and ValueError for a stack of states."""
    if not isinstance(state, Tokens):
        raise TypeError(f"{name} is not defined for a state of type {type(state).__name__}{wrap_hint(state)}")
    require_one(name, state)
    return state
