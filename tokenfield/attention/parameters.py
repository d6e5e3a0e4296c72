"""The parameters of attention: scores s(x, y) and value maps V, each constant or a function of time."""

import abc
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, is_concrete, parameter, shape_of

Parameter: TypeAlias = Array | Callable | None


def at(value: Parameter, t: Float[Array, ""], like: Array) -> Array:
    """Return a parameter at time t, in the precision of `like`."""
    return jnp.asarray(value(t) if callable(value) else value, like.dtype)


def mean(x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, " d"]:
    """Return `w @ x` without a derivative: results do not depend on it, except by rounding."""
    return jax.lax.stop_gradient(w @ x)


class AbstractScore(eqx.Module):
    """A score that factors: `s(x_i, x_j) = <q_i, k_j> + bias_j`, up to a constant in each row if it is not `exact`."""

    beta: eqx.AbstractVar[Parameter]
    factor: eqx.AbstractVar[Array]
    exact: ClassVar[bool] = True

    @abc.abstractmethod
    def factors(
        self,
        t: Float[Array, ""],
        x: Float[Array, "m d"],
        y: Float[Array, "n d"],
        about: Float[Array, " n"] | None = None,
    ) -> tuple[Float[Array, "m k"], Float[Array, "n k"], Float[Array, " n"] | None]:
        """Return the queries q of points x, the keys k of points y, and the bias (None if it is zero).

        With weights `about`, keys are computed relative to the weighted mean of y. This changes scores only by a constant in
        each row, and is more accurate if all points are far from 0.
        """

    @abc.abstractmethod
    def width(self, d: int) -> int:
        """Return the number of coordinates of queries and keys."""

    @property
    @abc.abstractmethod
    def isotropic(self) -> bool:
        """True if the score depends on lengths and the angle only."""

    @property
    @abc.abstractmethod
    def autonomous(self) -> bool:
        """True if no parameter is a function of time."""

    @abc.abstractmethod
    def sharpness(self, t: Float[Array, ""], like: Array) -> Array:
        """Return b such that two *unit* vectors with cosine c have score `b c`, up to a constant in each row (isotropic only)."""

    @property
    @abc.abstractmethod
    def biases(self) -> dict[str, Array]:
        """The biases of queries and keys, by name."""

    def check(self, d: int) -> None:
        """Raise ValueError unless beta, A, Q, K and the biases fit the dimension of the tokens."""
        given = {name: getattr(self, name, None) for name in ("beta", "A", "Q", "K")}
        shapes = {name: shape_of(name, value) for name, value in given.items() if value is not None}
        if beta := shapes.pop("beta", ()):
            raise ValueError(f"beta must be a number at every time, got shape {beta}")
        for name, shape in shapes.items():
            if len(shape) != 2 or shape[1] != d or (name == "A" and shape[0] != d):
                wanted = f"({d}, {d})" if name == "A" else f"(k, {d})"
                raise ValueError(f"{name} must have shape {wanted} for tokens in R^{d}, got {shape}")
        if "Q" in shapes and shapes["Q"] != shapes["K"]:
            raise ValueError(f"Q and K must have the same number of rows, got shapes {shapes['Q']} and {shapes['K']}")
        for name, bias in self.biases.items():
            if bias.shape != (self.width(d),):
                raise ValueError(
                    f"{name} must have length {self.width(d)}, the number of rows of Q and K, got {bias.shape[0]}"
                )


class Bilinear(AbstractScore):
    """`s(x, y) = factor <A x, y>`, with `A` given, or `A = beta I`, or `A = beta K^T Q` (FORMULAS §0).

    With biases q and k of queries and keys, `s(x, y) = factor beta <Q x + q, K y + k>`.
    """

    beta: Parameter
    A: Parameter
    Q: Parameter
    K: Parameter
    q: Float[Array, " k"] | None
    k: Float[Array, " k"] | None
    factor: Array

    def __init__(self, beta=None, A=None, Q=None, K=None, q=None, k=None):
        if A is not None and (Q is not None or K is not None):
            raise ValueError("give A or the pair Q, K, not both: A = K^T Q")
        if A is not None and beta is not None:
            raise ValueError("give beta or A, not both: beta is shorthand for A = beta I")
        check_pair(Q, K)
        if beta is None and A is None:
            beta = 1.0
        self.beta = parameter("beta", beta, 0)
        self.A = parameter("A", A, 2)
        self.Q = parameter("Q", Q, 2)
        self.K = parameter("K", K, 2)
        if Q is None and not (q is None and k is None):
            raise ValueError("q and k are biases of the queries Q x and the keys K x: give Q and K too")
        self.q = None if q is None else as_float("q", q, 1)
        self.k = None if k is None else as_float("k", k, 1)
        self.factor = as_float("factor", 1.0)

    @property
    def isotropic(self) -> bool:
        return self.A is None and self.Q is None

    @property
    def biases(self):
        return {name: bias for name, bias in (("q", self.q), ("k", self.k)) if bias is not None}

    @property
    def autonomous(self) -> bool:
        return not any(callable(p) for p in (self.beta, self.A, self.Q, self.K))

    def width(self, d):
        return d if self.Q is None else shape_of("Q", self.Q)[0]

    def factors(self, t, x, y, about=None):
        bias = self.k if about is None else None  # with keys relative to their mean, k adds only a constant to each row
        y = y if about is None else y - mean(y, about)
        if self.A is not None:
            return self.factor.astype(x.dtype) * (x @ at(self.A, t, x).T), y, None
        beta = self.sharpness(t, x)
        if self.Q is None:
            return beta * x, y, None
        q, k = x @ at(self.Q, t, x).T, y @ at(self.K, t, x).T
        q = q if self.q is None else q + self.q.astype(q.dtype)
        return beta * q, k if bias is None else k + bias.astype(k.dtype), None

    def sharpness(self, t, like):
        return self.factor.astype(like.dtype) * at(self.beta, t, like)

    def matrix(self, t: Float[Array, ""], d: int) -> Float[Array, "d d"]:
        """Return A, where `s(x, y) = <A x, y>`; raise ValueError if there are biases."""
        if self.biases:
            raise ValueError("attention: scores with biases q, k are not <Ax, y> for any matrix A")
        q, k, _ = self.factors(t, jnp.eye(d), jnp.eye(d))
        return k @ q.T if self.A is None else q.T

    def symmetric(self) -> bool:
        """Return True if A is known to be symmetric and constant."""
        if self.isotropic:
            return True
        if self.biases or not self.autonomous or not is_concrete(self.A, self.Q, self.K):
            return False
        rows, columns = shape = jnp.shape(self.A if self.Q is None else self.Q)  # type: ignore[arg-type]
        if 0 in shape or (rows != columns if self.Q is None else shape != jnp.shape(self.K)):  # type: ignore[arg-type]
            return False  # `check` raises for these shapes in any dimension
        with jax.ensure_compile_time_eval():  # inside jit too
            A = np.asarray(self.matrix(jnp.zeros(()), columns))
        return bool(np.abs(A - A.T).max() <= 1e-14 * np.abs(A).max())


class SquaredDistance(AbstractScore):
    """`s(x, y) = -factor beta |Q x - K y|^2`; Q and K are the identity by default."""

    beta: Parameter
    Q: Parameter
    K: Parameter
    factor: Array
    exact: ClassVar[bool] = False

    def __init__(self, beta=None, Q=None, K=None):
        check_pair(Q, K)
        self.beta = parameter("beta", 1.0 if beta is None else beta, 0)
        self.Q = parameter("Q", Q, 2)
        self.K = parameter("K", K, 2)
        self.factor = as_float("factor", 1.0)

    @property
    def biases(self):
        return {}

    @property
    def isotropic(self) -> bool:
        return self.Q is None

    @property
    def autonomous(self) -> bool:
        return not any(callable(p) for p in (self.beta, self.Q, self.K))

    def width(self, d):
        return d if self.Q is None else shape_of("Q", self.Q)[0]

    def factors(self, t, x, y, about=None):
        # -|q|^2 is the same along a row, so the normalized kernel does not see it.
        beta = self.sharpness(t, x) / 2
        m = jnp.zeros_like(y[0]) if about is None else mean(y, about)
        x, y = x - m, y - m
        if self.Q is None or self.K is None:
            return 2 * beta * x, y, -beta * (y * y).sum(-1)
        # |Qx - Ky|^2 = |Q(x-m) - K(y-m) - (K-Q)m|^2: squares of numbers far from 0 would cancel
        Q, K = at(self.Q, t, x), at(self.K, t, x)
        q, k = x @ Q.T, y @ K.T
        return 2 * beta * q, k, -beta * (k * (k + 2 * ((K - Q) @ m))).sum(-1)

    def sharpness(self, t, like):
        return 2 * self.factor.astype(like.dtype) * at(self.beta, t, like)


def check_pair(Q: Parameter, K: Parameter) -> None:
    """Raise ValueError unless Q and K are both given or both None, and map to the same space."""
    if (Q is None) != (K is None):
        raise ValueError(f"Q and K must be given together, got only {'K' if Q is None else 'Q'}")
    if Q is None or K is None or callable(Q) or callable(K):
        return
    rows = as_float("Q", Q, 2).shape, as_float("K", K, 2).shape
    if rows[0][0] != rows[1][0]:
        raise ValueError(f"Q and K must have the same number of rows, got shapes {rows[0]} and {rows[1]}")


class ValueMap(eqx.Module):
    """`y -> V y`: the identity (None), a scalar multiple of it, or a matrix."""

    V: Parameter

    def __init__(self, V=None):
        self.V = parameter("V", V, (0, 2))

    @property
    def isotropic(self) -> bool:
        return self.V is None or (not callable(self.V) and self.V.ndim == 0)

    @property
    def autonomous(self) -> bool:
        return not callable(self.V)

    @property
    def narrow(self) -> bool:
        """True if V has fewer rows than columns: averaging V y is then faster than averaging y."""
        shape = self.shape()
        return len(shape) == 2 and shape[0] < shape[1]

    def __call__(self, t: Float[Array, ""], y: Float[Array, "n d"]) -> Float[Array, "n dv"]:
        if self.V is None:
            return y
        V = at(self.V, t, y)
        return V * y if V.ndim == 0 else y @ V.T

    def matrix(self, t: Float[Array, ""], d: int) -> Float[Array, "dv d"]:
        return self(t, jnp.eye(d)).T

    def shape(self, name: str = "V") -> tuple[int, ...]:
        """Return the shape of V; that of a number for the identity."""
        return () if self.V is None else shape_of(name, self.V)

    def check(self, d: int) -> None:
        shape = self.shape()
        if shape and (len(shape) != 2 or shape[1] != d):
            raise ValueError(f"V must have shape (dv, {d}) for tokens in R^{d}, got {shape}")
