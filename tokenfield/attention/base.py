"""The interface of attention: the map `Gamma_mu(x) = ∫ k(x, y) V y dmu(y)`."""

import abc
import math
from inspect import isabstract
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._check import flag
from .._kinds import Named
from .._types import Beta, Map, Values, Vector
from .._xla.exponential import exp2
from .._xla.rounding import as_product_of_pairs
from .bounded import ENTRIES, BoundedSoftmax
from .measure import AtomicMeasure, last
from .pairs import Weighted, pair_sums, softmax_sums
from .parameters import AbstractScore, Bilinear, Parameter, ValueMap
from .positions import Positions, Rules, as_rules, biased, check_rules, only_rotations, rotated, rotates, visible
from .sums import BLOCK_ENTRIES, divide, map_rows, row_max


class AbstractAttention(Named, eqx.Module):
    """`Gamma_mu`, a function of a point x and a measure mu: weighted tokens y_j at positions tau_j, e.g. `Tokens`."""

    bias: ClassVar[Array | None] = None
    """A vector added to Gamma. Subclasses with a bias override this with a field."""
    offsets: ClassVar[tuple[Array, ...] | None] = None
    """Vectors added to the outputs of the heads. Subclasses with offsets override this with a field."""
    outputs: ClassVar[tuple[ValueMap, ...]] = (ValueMap(),)
    """The output map W of each head: W = I for a single one. `MultiHead` overrides this with a field."""
    whole_matrix: ClassVar[bool] = False
    """True if the n x n matrix of all pairs is materialized for any number of tokens."""

    @abc.abstractmethod
    def __call__(
        self,
        t: Float[Array, ""],
        x: Float[Array, "m d"],
        mu: AtomicMeasure,
        positions: Float[Array, " m"] | None = None,
    ) -> Float[Array, "m dv"]:
        """Return `Gamma_mu(x_i)` at points x, divided by `e^{log_unit}`: cross-attention, with queries x and context mu.

        Args:
            positions: the positions of the points, for a causal mask and for rules such as `RoPE`; by default after all
                positions of mu.
        """

    @abc.abstractmethod
    def of_itself(self, t: Float[Array, ""], mu: AtomicMeasure, unit: bool = False) -> Float[Array, "n dv"]:
        """Return `Gamma_mu(y_i)` at the tokens of mu itself: self-attention.

        With `unit=True`, the caller guarantees that all tokens have length 1, which allows a faster sum.
        """

    @property
    @abc.abstractmethod
    def heads(self) -> tuple["AbstractHead", ...]:
        """The heads of this attention."""

    @property
    @abc.abstractmethod
    def isotropic(self) -> bool:
        """True if rotations commute with the map: A = beta I and V scalar."""

    @property
    @abc.abstractmethod
    def log_unit(self) -> Array:
        """Logarithm of the factor by which Gamma is divided to prevent overflow (0 except for `Unnormalized`)."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise ValueError if the matrices do not fit tokens in R^d."""

    def __init_subclass__(cls, **options):
        """Forbid subclasses of a concrete attention: its series, energies, … would be used for the subclass as well."""
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
    """One head: a score, a value map and a kernel that maps scores to mixing coefficients."""

    score: eqx.AbstractVar[AbstractScore]
    value: eqx.AbstractVar[ValueMap]
    causal: eqx.AbstractVar[bool]
    normalized: eqx.AbstractVar[bool]
    """True if the coefficients of each row are divided by their sum. If the sum is 0, the row stays 0."""
    by_scores: ClassVar[bool] = False
    """True if the coefficients depend on the tokens only through their scores and distances. Rotations then commute with
    a head whose score and V are isotropic, and such a run may be reduced to the span of its tokens."""
    unit_exponent: ClassVar[Array | None] = None
    """The head divides its sums by `e^unit_exponent`. Heads that may overflow override this with a field."""

    positions: ClassVar[Rules] = ()
    """The rules by which scores depend on positions. Heads that take such rules override this with a field."""

    @abc.abstractmethod
    def average(
        self,
        t: Float[Array, ""],
        x: Float[Array, "m d"],
        mu: AtomicMeasure,
        positions: Float[Array, " m"],
        values: Float[Array, "n v"],
    ) -> Float[Array, "m v"]:
        """Return `sum_j w_j k(x_i, y_j) values_j` for every i: values = y gives Gamma before V, values = I the matrix."""

    @abc.abstractmethod
    def average_of_itself(
        self, t: Float[Array, ""], mu: AtomicMeasure, values: Float[Array, "n v"], unit: bool = False
    ) -> Float[Array, "n v"]:
        """Return `average` at the tokens of mu, by a faster sum if there is one."""

    @property
    @abc.abstractmethod
    def selective(self) -> bool:
        """True if tokens attend only to the largest scores in the limit of large scores, as with softmax."""

    def __call__(self, t, x, mu, positions=None):
        positions = last(mu, len(x)) if positions is None else positions
        if self.value.narrow:
            return self.average(t, x, mu, positions, self.value(t, mu.x))
        return self.value(t, self.average(t, x, mu, positions, mu.x))

    def of_itself(self, t, mu, unit=False):
        if self.value.narrow:
            return self.average_of_itself(t, mu, self.value(t, mu.x), unit)
        return self.value(t, self.average_of_itself(t, mu, mu.x, unit))

    @property
    def uses_positions(self) -> bool:
        """True if tokens at different positions are treated differently."""
        return self.causal or bool(self.positions)

    @property
    def heads(self):
        return (self,)

    @property
    def isotropic(self):
        return self.by_scores and self.score.isotropic and self.value.isotropic and not rotates(self.positions)

    @property
    def log_unit(self):
        return jnp.zeros(()) if self.unit_exponent is None else self.unit_exponent

    def check(self, d):
        self.score.check(d)
        self.value.check(d)
        for rule in self.positions:
            rule.check(self.score.width(d))


class AbstractGeneralHead(AbstractHead):
    """A head defined by its `average` alone. Derive from it to write a kernel that is not a function of the score."""

    def average_of_itself(self, t, mu, values, unit=False):
        return self.average(t, mu.x, mu, mu.positions, values)

    @property
    def selective(self):
        return self.normalized


class AbstractPairwise(AbstractHead):
    """A kernel that is a function phi of the score alone, normalized or not.

    Token i gives token j the coefficient `w_j phi(s_ij)`, divided by `sum_l w_l phi(s_il)` if `normalized`. If that sum is 0,
    the row is 0: the token attends to nothing. A new kernel of this kind defines `phi`. If phi is exp, set
    `exponential = True`: the largest score is then subtracted from each normalized row, which prevents overflow.
    """

    score: AbstractScore
    value: ValueMap
    causal: bool = eqx.field(static=True)
    positions: Rules  # type: ignore[misc]
    normalized: bool = eqx.field(static=True)
    exponential: ClassVar[bool] = False
    by_scores: ClassVar[bool] = True

    def __init__(
        self,
        beta: Beta = None,
        *,
        A: Map = None,
        Q: Map = None,
        K: Map = None,
        V: Values = None,
        causal: bool = False,
        positions: Positions = None,
        q: Vector | None = None,
        k: Vector | None = None,
        normalized: bool = False,
    ):
        self.score = Bilinear(beta, A, Q, K, q, k)
        self.value = ValueMap(V)
        self.causal = flag("causal", causal)
        self.positions = as_rules(positions)
        self.normalized = flag("normalized", normalized)

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        final = {"average", "average_of_itself", "of_itself", "__call__", "factors", "scores", "seen", "softmax"}
        if overridden := final & cls.__dict__.keys():
            raise TypeError(
                f"{cls.__name__} overrides {min(overridden)}, which is final: derive from AbstractGeneralHead instead"
            )

    def __check_init__(self):
        if not self.softmax and not self.score.exact:
            raise ValueError(
                f"{type(self).__name__} cannot use {type(self.score).__name__} as its score, which is known only up to a "
                "constant in each row: use a normalized exponential kernel, which does not depend on that constant"
            )

    @property
    def softmax(self) -> bool:
        """True if each row is the softmax of its scores, with weights."""
        return self.exponential and self.normalized

    @property
    def selective(self):
        return self.softmax

    @property
    def beta(self) -> Parameter:
        """The inverse temperature, a number or a function of time; None if the head has a matrix A instead."""
        return self.score.beta

    @abc.abstractmethod
    def phi(self, s: Array) -> Array:
        """Return the kernel of each score (elementwise)."""

    def factors(
        self, t: Float[Array, ""], x: Float[Array, "m d"], mu: AtomicMeasure, positions: Float[Array, " m"]
    ) -> tuple[Float[Array, "m k"], Float[Array, "n k"], Float[Array, " n"] | None]:
        """Return the queries of the points x, the keys of mu, and the bias of each key (None for 0).

        Softmax does not change if a constant is added to a row. Its keys are therefore computed relative to the mean of the
        tokens (with a mask: to the first token, which all rows see), which is more accurate far from 0. This does not apply to
        keys that are rotated by their position.
        """
        about = None
        if self.softmax and not rotates(self.positions):
            first = mu.positions == mu.positions.min()
            about = (first / first.sum()).astype(mu.x.dtype) if self.causal else mu.weights
        q, k, b = self.score.factors(t, x, mu.x, about)
        return rotated(self.positions, q, positions), rotated(self.positions, k, mu.positions), b

    def scores(
        self,
        q: Float[Array, "b k"],
        k: Float[Array, "n k"],
        b: Float[Array, " n"] | None,
        s: Float[Array, " b"],
        tau: Float[Array, " n"],
        row: Int[Array, " b"],
        factor: float = 1.0,
    ) -> Float[Array, "b n"]:
        """Return the scores of a block of rows: queries q at positions s, numbered by `row`, with keys k at positions tau.

        Scores are multiplied by `factor`, which q and b already contain.
        """
        scores = q @ k.T if b is None else q @ k.T + b
        return biased(self.positions, scores, s, tau, row, factor)

    def seen(self, s: Float[Array, " b"], tau: Float[Array, " n"]) -> Bool[Array, "b n"] | None:
        """Return the mask of the keys at positions tau that are visible from positions s; None if all are visible."""
        return visible(self.positions, self.causal, s, tau)

    def average(self, t, x, mu, positions, values):
        many = len(x) * len(mu.x) > BLOCK_ENTRIES
        bounded = many and self.softmax and not self.causal and only_rotations(self.positions)
        return self._average(t, x, mu, positions, values, bounded)

    def _average(
        self,
        t: Float[Array, ""],
        x: Float[Array, "m d"],
        mu: AtomicMeasure,
        positions: Float[Array, " m"],
        values: Float[Array, "n v"],
        bounded: bool,
    ) -> Float[Array, "m v"]:
        """Return `average`; with `bounded`, compute the largest score of a row only if its upper bound is too large."""
        check_rules(self.positions, len(x), len(mu.x))
        q, k, b = self.factors(t, x, mu, positions)
        q, k = as_product_of_pairs(q, k)  # each score is then equal to the largest of its row, or below it
        base = math.log2(math.e) if self.softmax else 1.0  # e^s = 2^{base s}, and powers of 2 are faster
        q, b = base * q, None if b is None else base * b
        weighted = Weighted(self.normalized).columns(values, mu.weights)

        def rows(q, position, row):
            s = self.scores(q, k, b, position, mu.positions, row, base)
            seen = self.seen(position, mu.positions)
            if self.softmax:
                # Masked scores may be far above the visible ones. `exp2` clips them, and then the weight 0 is applied. The
                # derivative with respect to that weight still needs their kernel.
                counts = mu.weights > 0 if seen is None else seen & (mu.weights > 0)
                c = exp2(s - row_max(s, counts))
            else:
                c = self.phi(s)
            sums = (c if seen is None else jnp.where(seen, c, 0)) @ weighted
            return divide(sums[:, :-1], sums[:, -1:]) if self.normalized else sums

        given = q, positions, jnp.arange(len(x))
        if not bounded:
            return map_rows(rows, len(x), len(mu.x), *given)
        softmax = BoundedSoftmax(k, b, mu.weights, values)
        quick = lambda q, *others: softmax(q, lambda: rows(q, *others))  # noqa: E731
        return map_rows(quick, len(x), len(mu.x), *given, entries=ENTRIES)

    def average_of_itself(self, t, mu, values, unit=False):
        given = t, mu.x, mu, mu.positions, values
        if self.uses_positions or not (unit and self.score.isotropic):
            return self.average(*given)
        b = self.score.sharpness(t, mu.x)
        if self.softmax:
            return softmax_sums(b, mu.x, mu.weights, values, lambda: self._average(*given, bounded=False))
        return pair_sums(self.phi, self.normalized, b, mu.x, mu.weights, values)
