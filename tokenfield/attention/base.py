"""What an attention is: the map `Gamma_mu(x) = ∫ k(x, y) V y dmu(y)`, evaluated at every token."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Beta, Map, Values
from .pairs import pair_sums
from .parameters import AbstractScore, Bilinear, ValueMap
from .sums import divide, map_rows, row_max, visible_weights


class AbstractAttention(eqx.Module):
    """`Gamma_mu` at every token. Calls take the measure as tokens x, weights w and positions.

    `positions` matter under a causal mask only: a token at position s sees those at `tau <= s`.
    `unit=True` promises that all tokens have length 1, which admits a faster sum.
    """

    @abc.abstractmethod
    def __call__(
        self,
        t: Float[Array, ""],
        x: Float[Array, "n d"],
        w: Float[Array, " n"],
        positions: Float[Array, " n"],
        unit: bool = False,
    ) -> Float[Array, "n d"]:
        """`Gamma_mu(x_i)` for every i, divided by `e^{log_unit}`."""

    @property
    @abc.abstractmethod
    def heads(self) -> tuple["AbstractHead", ...]:
        """The single heads that make up this attention."""

    @property
    @abc.abstractmethod
    def isotropic(self) -> bool:
        """True when rotations commute with the map: A = beta I and V scalar."""

    @property
    @abc.abstractmethod
    def log_unit(self) -> Array:
        """Logarithm of the factor taken out of Gamma to keep it in range (0 but for `Unnormalized`)."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise a ValueError if the matrices do not fit tokens in R^d."""


class AbstractHead(AbstractAttention):
    """One head: a score, a value map and a kernel that turns scores into mixing coefficients."""

    score: eqx.AbstractVar[AbstractScore]
    value: eqx.AbstractVar[ValueMap]
    causal: eqx.AbstractVar[bool]
    stochastic: eqx.AbstractClassVar[bool]
    """True when the coefficients of each row sum to 1."""

    @abc.abstractmethod
    def average(
        self,
        t: Float[Array, ""],
        x: Float[Array, "n d"],
        w: Float[Array, " n"],
        positions: Float[Array, " n"],
        values: Float[Array, "n m"],
        unit: bool = False,
    ) -> Float[Array, "n m"]:
        """`sum_j w_j k(x_i, x_j) values_j` for every i: values = x gives Gamma before V, values = I the matrix."""

    def __call__(self, t, x, w, positions, unit=False):
        return self.value(t, self.average(t, x, w, positions, x, unit))

    @property
    def heads(self):
        return (self,)

    @property
    def isotropic(self):
        return self.score.isotropic and self.value.isotropic

    @property
    def log_unit(self):
        return jnp.zeros(())

    def check(self, d):
        self.score.check(d)
        self.value.check(d)


class AbstractPairwise(AbstractHead):
    """A kernel that is a function of the score alone, `k = phi(s)`, or `phi(s)` normalised along each row.

    A new kernel of this kind says `stochastic` and writes `phi`. If it is normalised, `phi` must be `exp`
    (any constant may then be taken from a row of scores, which keeps it in range).
    """

    score: AbstractScore
    value: ValueMap
    causal: bool = eqx.field(static=True)
    stochastic: ClassVar[bool]

    def __init__(
        self, beta: Beta = None, *, A: Map = None, Q: Map = None, K: Map = None, V: Values = None, causal: bool = False
    ):
        self.score = Bilinear(beta, A, Q, K)
        self.value = ValueMap(V)
        self.causal = bool(causal)

    @abc.abstractmethod
    def phi(self, s: Array) -> Array:
        """The kernel as a function of the score, entry by entry."""

    def average(self, t, x, w, positions, values, unit=False):
        if unit and not self.causal and self.score.isotropic:
            return pair_sums(self.phi, self.stochastic, self.score.sharpness(t, x), x, w, values)
        q, k, bias = self.score.factors(t, x)
        if q.shape[1] == 1:
            # A product of single numbers would be fused with the subtraction of the row's maximum and rounded
            # differently from it, which is fatal for scores beyond 1e18. A product of pairs is not.
            q, k = (jnp.pad(a, ((0, 0), (0, 1))) for a in (q, k))

        def rows(q, position):
            s = q @ k.T if bias is None else q @ k.T + bias
            seen = visible_weights(w, positions, position if self.causal else None)
            if not self.stochastic:
                return (seen * self.phi(s)) @ values
            # what is not seen may score far above all that is: it must not overflow before its weight 0 takes it out
            c = seen * self.phi(jnp.where(seen > 0, s - row_max(s, seen > 0), -jnp.inf))
            return divide(c @ values, c.sum(-1, keepdims=True))

        n = x.shape[0]
        return map_rows(rows, n, n, q, positions)
