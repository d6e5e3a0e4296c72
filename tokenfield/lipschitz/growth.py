"""How the local Lipschitz constant grows with the number of tokens."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from .._check import as_float, count, number
from .._jax import in_double
from .._lazy import drawing
from .._lock import locking
from .._shown import shown
from ..attention import AbstractAttention, Measure
from ..driver.checkpoint import read, write
from ..driver.fingerprint import Program, fingerprint
from ..driver.progress import Progress
from ..flows.layers import one_layer
from ..theory.ball_bounds import Bounds
from ..transformer import Transformer
from .bounds import attention_bounds
from .local import local, tokens_of


class PowerLaw(NamedTuple):
    """A fitted power law `y = C n^p`.

    Attributes:
        power: p.
        interval: a confidence interval for p.
        factor: C.
        confidence: the confidence level of the interval.
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
        converged: True if every constant is accurate to the tolerance.
        radius: (l,) length of the longest token among the samples of each length.
        bounds: `bounds` for each number of tokens within that radius, for one head of softmax attention; None for others.
        log_unit: all constants were divided by `e^{log_unit}` (0 except for `Unnormalized` at large beta).
    """

    lengths: np.ndarray
    constants: np.ndarray
    law: PowerLaw
    converged: bool
    radius: np.ndarray
    bounds: tuple[Bounds, ...] | None
    log_unit: float = 0.0

    def plot(self, **options: Any) -> Any:
        """Return a log-log figure; see `tokenfield.plotting.growth_figure`."""
        return drawing().growth_figure({"data": self}, **options)


def fit_power_law(n: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> PowerLaw:
    """Fit `log y = log C + p log n` by least squares, with a confidence interval for p.

    The standard error is the HC3 estimate, which allows the scatter to depend on n. The interval uses Student's t; the number of
    degrees of freedom is that of points minus two. It assumes that the power law holds and that the points are independent.

    Args:
        n: (m,) positive numbers, at least two different ones.
        y: (m,) or (m, repeats) positive values.
        confidence: the confidence level, between 0 and 1.

    Example:
        >>> from tokenfield.lipschitz import fit_power_law
        >>> fit_power_law([10, 20, 40], [[3.1, 3.2], [4.4, 4.5], [6.3, 6.4]]).power
        0.5057709032782581
    """
    n, y = np.asarray(as_float("n", n, 1)), np.asarray(as_float("y", y, (1, 2)))
    confidence = number("confidence", confidence)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {shown(confidence)}")
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


@in_double
@locking("checkpoint")
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
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Growth:
    """Return the local Lipschitz constant at random tokens for several numbers n of them, and a power law `C n^p` (FORMULAS §6).

    For the worst tokens p = 1/2; for typical ones p is often about 1/4, and depends on the data.

    Args:
        attention: an attention or a Transformer.
        sampler: `(n, seed) -> tokens`, e.g. `data_model("gaussian", d=8)` or a part of real representations.
        lengths: numbers of tokens, at least two different ones.
        repeats: samples for each number; sample r of the i-th number has the seed `seed + i repeats + r`.
        seed: seed of the first sample.
        rtol: relative tolerance of each constant.
        confidence: confidence level of the interval for p.
        residual: as in `local`.
        checkpoint: a file in which each constant is saved when it is computed. After an interruption, the same call resumes
            from it.
        progress: show a progress bar; by default on a terminal only.

    Example:
        >>> import tokenfield as tkf
        >>> data = tkf.lipschitz.data_model("gaussian", d=4)
        >>> tkf.lipschitz.growth(tkf.Softmax(beta=0.5), data, lengths=(4, 8), repeats=2).law.power
        0.3643037399669082
    """
    sizes = [count("lengths", n, 2) for n in lengths]
    repeats = count("repeats", repeats)
    if len(set(sizes)) < 2:
        raise ValueError(f"lengths must hold at least two different numbers, got {list(lengths)}")
    if not callable(sampler):
        raise ValueError(
            f'sampler must be a function (n, seed) -> tokens such as data_model("sphere", 8), got {shown(sampler)}'
        )
    samples = [tokens_of(sampler(sizes[k // repeats], seed + k)) for k in range(len(sizes) * repeats)]
    store = _Store(checkpoint, attention, samples, (sizes, repeats, seed, rtol, residual))
    constants, converged, radius = store.read((len(sizes), repeats))
    with Progress(progress, "measuring", constants.size, "constants") as bar:
        for k in range(constants.size):
            if np.isnan(constants.flat[k]):
                found = local(attention, samples[k], rtol=rtol, residual=residual)
                constants.flat[k], converged.flat[k] = found.constant, found.converged
                radius.flat[k] = np.linalg.norm(np.asarray(samples[k].x), axis=1).max()
                store.write(constants, converged, radius)
            bar.update(k + 1)
    law, longest = fit_power_law(sizes, constants, confidence), radius.max(axis=1)
    pairs = [] if residual else zip(sizes, longest, strict=True)
    limits = [attention_bounds(attention, float(R), n, samples[0].d) for n, R in pairs]
    known = tuple(limit for limit in limits if limit is not None)
    unit = (attention.attention if isinstance(attention, Transformer) else attention).log_unit
    return Growth(np.array(sizes), constants, law, bool(converged.all()), longest, known or None, float(unit))


class _Store:
    """The constants in the checkpoint file, which is rewritten after each; NaN for those not computed yet."""

    def __init__(self, path: str | os.PathLike | None, attention: Any, samples: list[Any], settings: tuple):
        self.path = None if path is None else Path(path)
        self.identity = "" if path is None else _identity(attention, samples, settings)

    def read(self, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self.path is None or not self.path.exists():
            return np.full(shape, np.nan), np.ones(shape, bool), np.zeros(shape)
        _, (constants, converged, radius) = read(self.path, self.identity)
        return constants, converged, radius

    def write(self, *arrays: np.ndarray) -> None:
        if self.path is not None:
            write(self.path, self.identity, 0, list(arrays))


def _identity(attention: Any, samples: list[Any], settings: tuple) -> str:
    """Return the fingerprint of the constants: of the derivative of attention, and of every sample."""
    first, t = samples[0], jnp.zeros(())
    program = Program("attention", _pulled_back, (attention, t, first.x, first.weights, first.positions))
    return fingerprint(attention, settings, samples, programs=[program])


def _pulled_back(model: Any, t: Array, x: Array, weights: Array, positions: Array) -> Array:
    """Return a vector-Jacobian product of an attention or a layer."""

    def move(x: Array) -> Array:
        if isinstance(model, Transformer):
            return one_layer(model, t, x, weights, positions, jnp.ones(()))[0]
        return model.of_itself(t, Measure(x, weights, positions))

    value, pull_back = jax.vjp(move, x)
    return pull_back(value)[0]
