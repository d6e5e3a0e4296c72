"""What an attention is: the map `Gamma_mu(x) = ∫ k(x, y) V y dmu(y)`, evaluated at every token."""

import abc
import math
from inspect import isabstract
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import flag
from .._types import Beta, Map, Values
from .pairs import pair_sums, softmax_sums
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

    def __init_subclass__(cls, **options):
        """Refuse to derive from a concrete attention: what is known of it (series, energies, …) would be taken for true of cls."""
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if (
                base.__module__.startswith("tokenfield.")
                and issubclass(base, AbstractAttention)
                and not isabstract(base)
            ):
                raise TypeError(
                    f"{cls.__name__} cannot derive from {base.__name__}, which is final: derive from an Abstract class"
                )


class AbstractHead(AbstractAttention):
    """One head: a score, a value map and a kernel that turns scores into mixing coefficients."""

    score: eqx.AbstractVar[AbstractScore]
    value: eqx.AbstractVar[ValueMap]
    causal: eqx.AbstractVar[bool]
    stochastic: eqx.AbstractClassVar[bool]
    """True when the coefficients of each row sum to 1."""
    by_scores: ClassVar[bool] = False
    """True promises that the coefficients depend on the tokens through their scores and distances alone. Rotations then
    commute with a head whose score and V are isotropic, and such a run may be reduced to the span of its tokens."""
    unit_exponent: ClassVar[Array | None] = None
    """A head whose numbers may leave all range has a field of this name instead: it divides its sums by `e^unit_exponent`."""

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
        return self.by_scores and self.score.isotropic and self.value.isotropic

    @property
    def log_unit(self):
        return jnp.zeros(()) if self.unit_exponent is None else self.unit_exponent

    def check(self, d):
        self.score.check(d)
        self.value.check(d)


class AbstractPairwise(AbstractHead):
    """A kernel that is a function of the score alone, `k = phi(s)`, or `phi(s)` normalized along each row.

    A new kernel of this kind says `stochastic` and writes `phi`. A row that sums to 0 attends to nothing. If it is
    normalized and phi is exp, `softmax = True` says so: the largest score is then taken from each row, which keeps it in range.
    """

    score: AbstractScore
    value: ValueMap
    causal: bool = eqx.field(static=True)
    stochastic: ClassVar[bool]
    softmax: ClassVar[bool] = False
    by_scores: ClassVar[bool] = True

    def __init__(
        self, beta: Beta = None, *, A: Map = None, Q: Map = None, K: Map = None, V: Values = None, causal: bool = False
    ):
        self.score = Bilinear(beta, A, Q, K)
        self.value = ValueMap(V)
        self.causal = flag("causal", causal)

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if overridden := {"average", "__call__", "factors"} & cls.__dict__.keys():
            raise TypeError(
                f"{cls.__name__} overrides {min(overridden)}, which is final: derive from AbstractHead instead"
            )

    def __check_init__(self):
        if not self.softmax and not self.score.exact:
            raise ValueError(
                f"{type(self).__name__} cannot take {type(self.score).__name__} as its score, which is known up to a constant in "
                "each row: only softmax (softmax = True) does not see that"
            )

    @abc.abstractmethod
    def phi(self, s: Array) -> Array:
        """The kernel as a function of the score, entry by entry."""

    def factors(
        self, t: Float[Array, ""], x: Float[Array, "n d"], w: Float[Array, " n"], positions: Float[Array, " n"]
    ) -> tuple[Float[Array, "n k"], Float[Array, "n k"], Float[Array, " n"] | None]:
        """Queries, keys and bias of the scores.

        Softmax sees no constant in a row, so its keys are those of tokens about a point among them, which keeps digits far
        from 0: the mean, or under a mask the first token, which all rows see.
        """
        if not self.softmax:
            return self.score.factors(t, x)
        first = positions == positions.min()
        return self.score.factors(t, x, (first / first.sum()).astype(x.dtype) if self.causal else w)

    def average(self, t, x, w, positions, values, unit=False):
        if not (unit and not self.causal and self.score.isotropic):
            return self._by_rows(t, x, w, positions, values)
        b = self.score.sharpness(t, x)
        if self.softmax:
            return softmax_sums(b, x, w, values, lambda: self._by_rows(t, x, w, positions, values))
        return pair_sums(self.phi, self.stochastic, b, x, w, values)

    def _by_rows(self, t, x, w, positions, values):
        """The sum for any score and mask, in blocks of rows."""
        q, k, bias = self.factors(t, x, w, positions)
        if q.shape[1] == 1:
            # A product of single numbers would be fused with the subtraction of the row's maximum and rounded
            # differently from it, which is fatal for scores beyond 1e18. A product of pairs is not.
            q, k = (jnp.pad(a, ((0, 0), (0, 1))) for a in (q, k))

        def rows(q, position):
            s = q @ k.T if bias is None else q @ k.T + bias
            seen = visible_weights(w, positions, position if self.causal else None)
            if self.softmax:
                # What is not seen may score far above all that is: it must not overflow before its weight 0 takes it out. A
                # derivative by that weight needs its kernel all the same.
                s, most = s - row_max(s, seen > 0), 0.8 * math.log(jnp.finfo(s.dtype).max)
                s = jnp.where((seen > 0) | (s < most), s, most)
            c = seen * self.phi(s)
            return divide(c @ values, c.sum(-1, keepdims=True)) if self.stochastic else c @ values

        n = x.shape[0]
        return map_rows(rows, n, n, q, positions)
