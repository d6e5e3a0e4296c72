"""The times at which a run saves states."""

from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, count
from .._memory import refuse_large
from .._shown import shown

BY_DEFAULT = 101


def save_times(save_at: int | ArrayLike | None, t1: float, states: Any) -> np.ndarray:
    """Return the times at which to save states; raise ValueError if the states would not fit in memory."""
    if save_at is None or isinstance(save_at, (int, np.integer)):
        number = count("save_at", BY_DEFAULT if save_at is None else save_at, 2)
        refuse_large("save_at", number, max(1, sum(np.size(leaf) for leaf in jax.tree.leaves(states))))
        times = np.linspace(0, t1, number)
        if (np.diff(times) <= 0).any():
            raise ValueError(f"t1 = {t1:g} is too short for {number} save times in double precision")
        return times
    times = np.asarray(as_float("save_at", save_at), float)
    if times.ndim != 1 or times.size == 0 or not np.isfinite(times).all():
        raise ValueError(f"save_at must be a number of times or a list of finite times, got {shown(save_at)}")
    if (np.diff(times) <= 0).any() or times[0] < 0 or times[-1] > t1:
        raise ValueError(f"save_at must increase within [0, t1] = [0, {t1:g}], got {times[0]:g} to {times[-1]:g}")
    return times


def times_towards(end: float, times: np.ndarray) -> np.ndarray:
    """Return the same number of times, approaching a blow-up at `end`; the last is 1e-5 times as far from it as the first."""
    return np.append(end * (1 - np.geomspace(1.0, 1e-5, len(times) - 1)), times[-1])
