"""Rules by which attention depends on positions: rotations of queries and keys, biases of the scores, masks (FORMULAS §13).

Each rule depends on the position s of the query and the position tau of the key. A head can have any number of rules.
"""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._check import as_float, count, flag, positive_number
from .._kinds import Named
from .._shown import shown
from .._types import Matrix, Number, Vector


class AbstractPositions(Named, eqx.Module):
    """A rule for positions: an `AbstractRotation`, an `AbstractBias` or an `AbstractMask`."""

    @abc.abstractmethod
    def check(self, width: int) -> None:
        """Raise ValueError unless the rule fits queries and keys in R^width."""


class AbstractRotation(AbstractPositions):
    """A linear map of queries and keys that depends on their position. Keys are then not centered at their mean."""

    @abc.abstractmethod
    def rotated(self, q: Float[Array, "n k"], s: Float[Array, " n"]) -> Float[Array, "n k"]:
        """Return the rotated queries (or keys) at positions s."""


class AbstractBias(AbstractPositions):
    """A number added to each score."""

    @abc.abstractmethod
    def bias(self, s: Float[Array, "b 1"], tau: Float[Array, "1 n"], row: Int[Array, " b"]) -> Float[Array, "b n"]:
        """Return the bias of the scores of queries at s with keys at tau. `row` is the index of the query, for a bias matrix."""


class AbstractMask(AbstractPositions):
    """A rule that hides keys from queries or, if it is `stronger`, shows keys that other masks hide."""

    stronger: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def sees(self, s: Float[Array, "b 1"], tau: Float[Array, "1 n"]) -> Bool[Array, "b n"]:
        """Return True where a query at s sees a key at tau."""


class RoPE(AbstractRotation):
    """Rotary positions: coordinate pair m of queries and keys rotates by `omega_m s`, `omega_m = theta^{-2m/k}` (Su et al. 2021).

    The score then depends on `s - tau` only. Positions of real models are indices: `Tokens(x, positions=range(n))`.

    Args:
        theta: the base of the frequencies. Instead of theta, the frequencies themselves can be given:
        frequencies: (k/2,) frequencies omega_m.
        halves: the pairs are coordinates m and m + k/2, as in Llama; by default 2m and 2m + 1.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Softmax(beta=1.0, positions=tkf.RoPE(theta=100.0))
        Softmax(beta=1.0, positions=[RoPE(theta=100.0)])
    """

    theta: Array | None
    frequencies: Float[Array, " m"] | None
    halves: bool = eqx.field(static=True)
    kind: ClassVar[str] = "rope"
    title: ClassVar[str] = "RoPE"

    def __init__(self, theta: Number | None = None, *, frequencies: Vector | None = None, halves: bool = False):
        if theta is not None and frequencies is not None:
            raise ValueError("give theta or frequencies, not both")
        self.frequencies = None if frequencies is None else as_float("frequencies", frequencies, 1)
        theta = 10_000.0 if theta is None else theta
        self.theta = positive_number("theta", theta) if frequencies is None else None
        self.halves = flag("halves", halves)

    def rotated(self, q, s):
        k = q.shape[-1]
        self.check(k)
        omega = self.frequencies
        if omega is None:
            omega = self.theta ** (-2 * jnp.arange(k // 2) / k)  # type: ignore[operator]
        angle = (s[:, None] * omega).astype(q.dtype)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        a, b = (q[:, : k // 2], q[:, k // 2 :]) if self.halves else (q[:, 0::2], q[:, 1::2])
        pairs = a * cos - b * sin, a * sin + b * cos
        return jnp.concatenate(pairs, 1) if self.halves else jnp.stack(pairs, 2).reshape(q.shape)

    def check(self, width):
        if width % 2:
            raise ValueError(
                f"RoPE rotates pairs of coordinates of queries and keys, got an odd number of them, {width}"
            )
        if self.frequencies is not None and len(self.frequencies) != width // 2:
            raise ValueError(
                f"frequencies must have length {width // 2} for queries in R^{width}, got {len(self.frequencies)}"
            )


class ALiBi(AbstractBias):
    """`-slope |s - tau|` is added to the score (Press et al. 2021).

    Args:
        slope: the slope lambda.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Softmax(beta=1.0, causal=True, positions=tkf.ALiBi(slope=2.0))
        Softmax(beta=1.0, causal=True, positions=[ALiBi(slope=2.0)])
    """

    slope: Array
    kind: ClassVar[str] = "alibi"
    title: ClassVar[str] = "ALiBi"

    def __init__(self, slope: Number):
        self.slope = as_float("slope", slope, 0)

    def bias(self, s, tau, row):
        return -self.slope.astype(s.dtype) * jnp.abs(s - tau)

    def check(self, width):
        pass


class Bias(AbstractBias):
    """Any bias of the scores: a function `b(s, tau)` of positions, which must broadcast, or a matrix of queries by keys.

    Args:
        b: a function of s and tau, or an (n, n) matrix.

    Example:
        >>> import jax.numpy as jnp, tokenfield as tkf
        >>> tkf.Softmax(beta=1.0, positions=tkf.Bias(lambda s, tau: jnp.cos(s - tau)))
        Softmax(beta=1.0, positions=[Bias(b=<lambda>)])
    """

    b: Array | Callable
    kind: ClassVar[str] = "bias"
    title: ClassVar[str] = "bias"

    def __init__(self, b: Matrix | Callable[[Array, Array], Array]):
        self.b = b if callable(b) else as_float("b", b, 2)

    def bias(self, s, tau, row):
        if callable(self.b):
            return jnp.broadcast_to(jnp.asarray(self.b(s, tau), s.dtype), (s.shape[0], tau.shape[1]))
        return self.b.astype(s.dtype)[row]

    def check(self, width):
        pass


class Window(AbstractMask):
    """Only tokens with `|s - tau| <= width` are seen; under a causal mask those with `0 <= s - tau <= width`.

    Args:
        width: the largest visible distance of positions, >= 0.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Softmax(beta=1.0, causal=True, positions=[tkf.Window(0.25), tkf.Sinks(4)])
        Softmax(beta=1.0, causal=True, positions=[Window(width=0.25), Sinks(k=4)])
    """

    width: Array
    kind: ClassVar[str] = "window"
    title: ClassVar[str] = "window"
    stronger: ClassVar[bool] = False

    def __init__(self, width: Number):
        self.width = positive_number("width", width, or_zero=True)

    def sees(self, s, tau):
        return jnp.abs(s - tau) <= self.width

    def check(self, width):
        pass


class Sinks(AbstractMask):
    """The first k tokens are always visible, even if a `Window` hides them (Xiao et al. 2023). A causal mask still applies.

    Args:
        k: number of first tokens that are always visible.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Softmax(beta=1.0, causal=True, positions=[tkf.Window(0.25), tkf.Sinks(4)])
        Softmax(beta=1.0, causal=True, positions=[Window(width=0.25), Sinks(k=4)])
    """

    k: int = eqx.field(static=True)
    kind: ClassVar[str] = "sinks"
    title: ClassVar[str] = "sinks"
    stronger: ClassVar[bool] = True

    def __init__(self, k: int):
        self.k = count("k", k)

    def sees(self, s, tau):
        return tau <= jnp.sort(tau, axis=-1)[:, min(self.k, tau.shape[-1]) - 1 :][:, :1]

    def check(self, width):
        pass


Rules: TypeAlias = tuple[AbstractPositions, ...]
Positions: TypeAlias = AbstractPositions | Sequence[AbstractPositions] | None


def as_rules(given: Positions) -> Rules:
    """Return rules for positions as a tuple; raise ValueError if something else was given."""
    rules = () if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for rule in rules:
        if not isinstance(rule, (AbstractRotation, AbstractBias, AbstractMask)):
            raise ValueError(f"positions must be rules such as RoPE(), ALiBi(1.0) or Window(0.5), got {shown(rule)}")
    return rules


def check_rules(rules: Rules, m: int, n: int) -> None:
    """Raise ValueError if a rule is a matrix that does not fit m queries and n keys."""
    for rule in rules:
        if isinstance(rule, Bias) and not callable(rule.b) and rule.b.shape != (m, n):
            raise ValueError(f"b must have shape ({m}, {n}) for {m} queries and {n} keys, got {rule.b.shape}")


def rotated(rules: Rules, q: Float[Array, "n k"], s: Float[Array, " n"]) -> Float[Array, "n k"]:
    """Return queries or keys at positions s, rotated by the rules that are rotations."""
    for rule in rules:
        if isinstance(rule, AbstractRotation):
            q = rule.rotated(q, s)
    return q


def biased(
    rules: Rules,
    scores: Float[Array, "b n"],
    s: Float[Array, " b"],
    tau: Float[Array, " n"],
    row: Int[Array, " b"],
    factor: float = 1.0,
) -> Float[Array, "b n"]:
    """Return the scores plus `factor` times the biases of all rules. The scores already contain the factor."""
    for rule in rules:
        if isinstance(rule, AbstractBias):
            scores = scores + factor * rule.bias(s[:, None], tau[None, :], row)
    return scores


def visible(rules: Rules, causal: bool, s: Float[Array, " b"], tau: Float[Array, " n"]) -> Bool[Array, "b n"] | None:
    """Return the mask of the keys that each query sees; None if it sees all of them."""
    masks = [rule for rule in rules if isinstance(rule, AbstractMask)]
    weak, strong = ([mask for mask in masks if mask.stronger is kind] for kind in (False, True))
    if not (causal or weak):
        return None
    s, tau = s[:, None], tau[None, :]
    seen = jnp.ones((s.shape[0], tau.shape[1]), bool)
    for mask in weak:
        seen = seen & mask.sees(s, tau)
    for mask in strong:
        seen = seen | mask.sees(s, tau)
    return seen & (tau <= s) if causal else seen


def rotates(rules: Rules) -> bool:
    """Return True if a rule rotates queries and keys."""
    return any(isinstance(rule, AbstractRotation) for rule in rules)


def only_rotations(rules: Rules) -> bool:
    """Return True if no rule hides keys or adds to scores."""
    return all(isinstance(rule, AbstractRotation) for rule in rules)
