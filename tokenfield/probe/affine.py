"""Attention of real models: queries, keys and values with biases, and queries and keys rotated by position."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import AbstractPairwise
from ..attention.base import AbstractHead
from ..attention.parameters import AbstractScore, Parameter, ValueMap, mean


class AffineScore(AbstractScore):
    """`s(x_i, x_j) = factor <R_i (Q x_i + q), R_j (K x_j + k)>`, R_i the rotation by position i, or the identity.

    A rotation by position cannot be a constant matrix A, so each token is rotated by its place in the sequence: row i of x is
    token i. Rotary positions turn the coordinates a and a + k/2 by the angle `i frequencies_a` (Su et al. 2021, in the order
    that Llama's weights have).

    Example:
        >>> import jax.numpy as jnp
        >>> AffineScore(jnp.eye(2), jnp.zeros(2), jnp.eye(2), jnp.zeros(2), 1.0).factors(jnp.zeros(()), jnp.eye(2))[0]
    """

    Q: Float[Array, "k d"]
    q: Float[Array, " k"]
    K: Float[Array, "k d"]
    k: Float[Array, " k"]
    frequencies: Float[Array, " half"] | None
    beta: Parameter
    factor: Array

    def __init__(self, Q, q, K, k, scaling, frequencies=None):
        self.Q, self.q, self.K, self.k = map(jnp.asarray, (Q, q, K, k))
        self.frequencies = None if frequencies is None else jnp.asarray(frequencies)
        self.beta, self.factor = None, jnp.asarray(float(scaling))

    @property
    def isotropic(self) -> bool:
        return False

    @property
    def autonomous(self) -> bool:
        return True

    def factors(self, t, x, about=None):
        q, k = x @ self.Q.T + self.q, self._turned(x @ self.K.T + self.k)
        return self.sharpness(t, x) * self._turned(q), k if about is None else k - mean(k, about), None

    def sharpness(self, t, like):
        return self.factor.astype(like.dtype)

    def _turned(self, y: Float[Array, "n k"]) -> Float[Array, "n k"]:
        if self.frequencies is None:
            return y
        angle = jnp.arange(y.shape[0])[:, None] * self.frequencies
        a, b = jnp.split(y, 2, axis=1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)


class AffineSoftmax(AbstractPairwise):
    """One softmax head with an `AffineScore`. Biases of values are in `Offset`: rows of attention sum to 1."""

    stochastic: ClassVar[bool] = True
    softmax: ClassVar[bool] = True

    def __init__(self, score: AffineScore, V, causal: bool):
        self.score, self.value, self.causal = score, ValueMap(V), bool(causal)

    def phi(self, s):
        return jnp.exp(s)


class Offset(AbstractHead):
    """A head that says the same to all tokens, `Gamma(x_i) = b`: the biases of values and outputs. Its derivative is 0."""

    score: AbstractScore
    value: ValueMap
    b: Float[Array, " d"]
    causal: bool = eqx.field(static=True)
    stochastic: ClassVar[bool] = False

    def __init__(self, b):
        b = jnp.asarray(b)
        none = jnp.zeros((1, len(b)))
        self.score, self.value, self.b = AffineScore(none, none[0, :1], none, none[0, :1], 0.0), ValueMap(), b
        self.causal = False

    def average(self, t, x, w, positions, values, unit=False):
        return jnp.zeros_like(values)

    def __call__(self, t, x, w, positions, unit=False):
        return jnp.broadcast_to(self.b.astype(x.dtype), x.shape)
