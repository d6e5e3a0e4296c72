"""Ticks of axes, in plain numbers."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

TEN = math.log(10)
MOST_TICKS, STEPS = 6, (1, 2, 5, 10)


def plain_log_ticks(axis: Axis, subs: tuple[int, ...] = (1, 2, 5)) -> None:
    """Write the ticks of a logarithmic axis as 0.5, 1, 2, not as powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def log_time_ticks(ax: Axes, log_unit: float) -> str:
    """Write the ticks of a logarithmic time axis as `log10 t`, and return its label.

    Args:
        ax: axes whose limits are set; their times are in units of `exp(log_unit)`.
        log_unit: may be far beyond the range of doubles.
    """
    shift = log_unit / TEN
    low, high = np.log10(ax.get_xlim()) + shift
    ticks = MaxNLocator(MOST_TICKS, steps=STEPS, integer=high - low > 2).tick_values(low, high)
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    ax.set_xticks(10 ** (ticks - shift), [f"{tick:.10g}".replace("-", "−") for tick in ticks])
    ax.minorticks_off()
    return r"$\log_{10} t$"


def even_time_ticks(ax: Axes, log_unit: float) -> str:
    """Write the ticks of a linear time axis in units of a power of ten, and return its label. Arguments as in `log_time_ticks`."""
    power = math.floor(log_unit / TEN)
    factor = math.exp(log_unit - power * TEN)  # the unit over that power of ten, from 1 to 10
    low, high = np.array(ax.get_xlim()) * factor
    ticks = MaxNLocator(MOST_TICKS, steps=STEPS).tick_values(low, high)
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    ax.set_xticks(ticks / factor, [f"{tick:.10g}" for tick in ticks])
    return f"time $t$ (units of $10^{{{power}}}$)"
