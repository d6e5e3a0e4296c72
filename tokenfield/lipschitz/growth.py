"""How the local Lipschitz constant grows with the number of tokens."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from .._check import as_float, count
from ..attention import AbstractAttention
from ..transformer import Transformer
from .local import local


class PowerLaw(NamedTuple):
    """`y = C n^p`, fitted.

    Attributes:
        power: p.
        interval: a confidence interval for p.
        factor: C.
        confidence: of the interval.
    """

    power: float
    interval: tuple[float, float]
    factor: float
    confidence: float

    def __call__(self, n: ArrayLike) -> np.ndarray:
        return self.factor * np.asarray(n, float) ** self.power


@dataclass(frozen=True)
class Growth:
    """Local constants for several numbers of tokens.

    Attributes:
        lengths: (l,) numbers of tokens.
        constants: (l, repeats) local constants.
        law: the power law fitted to all of them.
        converged: True when every constant is known to the tolerance.
    """

    lengths: np.ndarray
    constants: np.ndarray
    law: PowerLaw
    converged: bool

    def plot(self, **options: Any) -> Any:
        """A log-log figure; see `tokenfield.plotting.growth_figure`."""
        from ..plotting.growth import growth_figure

        return growth_figure({"data": self}, **options)


def fit_power_law(n: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> PowerLaw:
    """`log y = log C + p log n` by least squares, with a confidence interval for p.

    The standard error allows for scatter that depends on n (the HC3 estimate), Student's t with one degree of freedom
    for each point but two. The interval takes the power law for granted and the points for independent.

    Args:
        n: (m,) numbers, at least two different ones.
        y: (m,) or (m, repeats) positive values.
        confidence: between 0 and 1.

    Example:
        >>> from tokenfield.lipschitz import fit_power_law
        >>> fit_power_law([10, 20, 40], [[3.1, 3.2], [4.4, 4.5], [6.3, 6.4]]).power
    """
    n, y = np.asarray(as_float("n", n, 1)), np.asarray(as_float("y", y, (1, 2)))
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    if len(n) != len(y):
        raise ValueError(f"n and y must have the same length, got {len(n)} and {len(y)}")
    if len(np.unique(n)) < 2 or n.min() <= 0 or y.min() <= 0:
        raise ValueError("n and y must be > 0, with at least two different n")
    repeats = y.shape[1] if y.ndim == 2 else 1
    a, b = np.repeat(np.log(n), repeats), np.log(y).ravel()
    design = np.stack([np.ones_like(a), a], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    constant, power = inverse @ design.T @ b
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    error = b - design @ [constant, power]
    if len(a) > 2:
        scaled = error / np.maximum(1 - leverage, 1e-12)
        covariance = inverse @ (design.T * scaled**2) @ design @ inverse
        half = stdtrit(len(a) - 2, (1 + confidence) / 2) * math.sqrt(covariance[1, 1])
    else:
        half = math.inf
    return PowerLaw(float(power), (float(power - half), float(power + half)), math.exp(constant), float(confidence))


def growth(
    attention: AbstractAttention | Transformer,
    sampler: Callable[[int, int], Any],
    lengths: Sequence[int],
    repeats: int = 10,
    *,
    seed: int = 0,
    rtol: float = 1e-6,
    confidence: float = 0.95,
    residual: bool | None = None,
) -> Growth:
    """The local Lipschitz constant at random tokens, against their number, and the power law `C n^p` (FORMULAS §6).

    On the worst tokens p = 1/2; on typical ones it is often about 1/4, and depends on the data.

    Args:
        attention: an attention or a Transformer.
        sampler: `(n, seed) -> tokens`, e.g. `data_model("gaussian", d=8)` or a part of real representations.
        lengths: numbers of tokens, at least two different ones.
        repeats: samples for each number; sample r of the i-th number has the seed `seed + i repeats + r`.
        seed: of the first sample.
        rtol: of each constant.
        confidence: of the interval for p.
        residual: as in `local`.

    Example:
        >>> import tokenfield as tkf
        >>> data = tkf.lipschitz.data_model("gaussian", d=4)
        >>> tkf.lipschitz.growth(tkf.Softmax(beta=0.5), data, lengths=(4, 8), repeats=2).law.power
    """
    sizes = [count("lengths", n) for n in lengths]
    repeats = count("repeats", repeats)
    if len(set(sizes)) < 2:
        raise ValueError(f"lengths must hold at least two different numbers, got {list(lengths)}")
    if not callable(sampler):
        raise ValueError(
            f'sampler must be a function (n, seed) -> tokens such as data_model("sphere", 8), got {sampler!r}'
        )
    constants, converged = np.empty((len(sizes), repeats)), True
    for i, n in enumerate(sizes):
        for r in range(repeats):
            found = local(attention, sampler(n, seed + i * repeats + r), rtol=rtol, residual=residual)
            constants[i, r], converged = found.constant, converged and found.converged
    return Growth(np.array(sizes), constants, fit_power_law(sizes, constants, confidence), converged)
