"""States as frames: the points that the page draws, and the observables shown next to them."""

import math
from functools import lru_cache, singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from ..observables import clusters as find_clusters
from ..observables import normalized_energy, order_parameter
from ..states import AbstractDensity, CircleDensity, Equiangular, Gaussian, SphereDensity, Tokens, ZonalDensity
from .frames import CIRCLE_DENSITY, GAUSSIAN, NOT_MEASURED, SPHERE_DENSITY, TOKENS, Frame

MOST_PAIRS = 2048
"""With more tokens, energy and clusters, which need all pairs, are not measured for every frame."""
ANGLES = 512
POINTS = 2000


class Shape(NamedTuple):
    """Fields of a `Frame` that come from the state alone."""

    kind: int
    n: int
    d: int
    values: np.ndarray
    weights: np.ndarray | None = None


@singledispatch
def drawn(state: Any) -> Shape:
    """Return the fields that the page draws for a state."""
    raise ValueError(f"state: the page cannot draw a {type(state).__name__}")


@drawn.register(Tokens)
def _(state: Tokens) -> Shape:
    weights = np.asarray(state.weights)
    uneven = weights.max() - weights.min() > 1e-12 * weights.max()
    return Shape(TOKENS, state.n, state.d, np.asarray(state.x).ravel(), weights if uneven else None)


@drawn.register(Equiangular)
def _(state: Equiangular) -> Shape:
    return drawn(state.tokens())


@drawn.register(Gaussian)
def _(state: Gaussian) -> Shape:
    return Shape(GAUSSIAN, 1, state.d, np.concatenate([np.asarray(state.mean), np.asarray(state.cov).ravel()]))


@drawn.register(CircleDensity)
def _(state: CircleDensity) -> Shape:
    return Shape(CIRCLE_DENSITY, ANGLES, 1, np.asarray(_values(state)))


@drawn.register(SphereDensity)
def _(state: SphereDensity) -> Shape:
    return _weighted(state)


@drawn.register(ZonalDensity)
def _(state: ZonalDensity) -> Shape:
    if state.d != 3:
        raise ValueError(f"state: the page draws densities on the circle and the 2-sphere only, got d = {state.d}")
    return _weighted(state)


def _weighted(state: SphereDensity | ZonalDensity) -> Shape:
    """Return evenly spaced points of the 2-sphere, weighted by a density."""
    weights = np.maximum(np.asarray(_values(state)), 0)
    return Shape(SPHERE_DENSITY, POINTS, 3, _points(3).ravel(), weights / weights.sum())


@eqx.filter_jit
def _values(state: AbstractDensity) -> Any:
    """Return a density at the points at which it is drawn."""
    return state.harmonics.at(state.coefficients, _points(state.d))  # type: ignore[arg-type]


@lru_cache
def _points(d: int) -> np.ndarray:
    """Return evenly spaced points of the circle, in order of angle, or of the 2-sphere, on a spiral."""
    if d == 2:
        angles = 2 * np.pi * np.arange(ANGLES) / ANGLES
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    k = np.arange(POINTS) + 0.5
    height, turn = 1 - 2 * k / POINTS, math.pi * (1 + 5**0.5) * k
    side = np.sqrt(1 - height**2)
    return np.stack([side * np.cos(turn), side * np.sin(turn), height], axis=1)


class Measured(NamedTuple):
    """Observables of a state; see `Frame`."""

    energy: float
    order: float
    clusters: int
    labels: np.ndarray | None


def measure(state: Any, energy_of: Any, count: bool = True) -> Measured:
    """Return the observables of a state.

    Args:
        energy_of: the model, or beta, for the normalized energy; None if there is no energy.
        count: True to count clusters.
    """
    few = getattr(state, "n", 0) <= MOST_PAIRS
    found = find_clusters(state) if count and few and isinstance(state, Tokens) else None
    return Measured(
        math.nan if energy_of is None or not few else _number(normalized_energy, state, energy_of),
        _number(order_parameter, state),
        NOT_MEASURED if found is None else len(found.sizes),
        None if found is None else found.labels,
    )


def _number(observable: Any, *arguments: Any) -> float:
    """Return an observable, or NaN if it is not defined for this state or model."""
    try:
        return float(observable(*arguments))
    except (TypeError, ValueError):
        return math.nan


def frame_of(state: Any, time: float, log_time_unit: float, measured: Measured) -> Frame:
    """Return the frame of a state at a time, in units of `exp(log_time_unit)`."""
    shape = drawn(state)
    return Frame(
        shape.kind,
        shape.n,
        shape.d,
        shape.values,
        float(time),
        float(log_time_unit),
        measured.energy,
        measured.order,
        measured.clusters,
        shape.weights,
        measured.labels,
    )
