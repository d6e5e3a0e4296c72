"""Several runs in one figure."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from .._check import items
from .._kinds import find_function, parameters
from .._shown import shown
from ..observables.series import labels_of
from ..results import Trajectory
from .energies import MOST_POINTS
from .frames import MOST_PAIRED, read_frames
from .style import PALETTE, WIDTH, Sheet, styled, write_title
from .time_axis import LONG, counts_layers, is_logarithmic

TITLE_WIDTH = 28  # characters in a line of the title of one panel of several
QUANTITIES = ("normalized_energy", "order_parameter", "clusters")
STYLES = ("-", "--", ":", "-.")


@styled
def compare(
    runs: Sequence[Trajectory],
    labels: Sequence[str] | None = None,
    quantities: str | Sequence[str] = QUANTITIES,
    ax: Axes | Sequence[Axes] | None = None,
    width: float = WIDTH,
    height: float = 2.7,
) -> Any:
    """Draw several runs in the same panels: energy, order parameter and number of clusters over time.

    The energy is `∬ e^{beta(<x,y>-1)} dmu dmu` at the beta of each run; a run without such an energy is left out of its panel.
    If a run is very long, the axis is `log10 t`.

    Args:
        runs: trajectories.
        labels: one for each run; by default, what differs between the models.
        quantities: names of observables, one for each panel (see `Trajectory.observe`).
        ax: your own axes, one for each quantity.
        width, height: of the figure in inches, if there is no `ax`.

    Returns:
        A matplotlib figure; or `ax`, if it is given.

    Example:
        >>> import tokenfield as tkf
        >>> tokens = tkf.uniform_sphere(16, 3, seed=0)
        >>> models = [tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in (1.0, 9.0)]
        >>> tkf.compare([tkf.simulate(model, tokens, t1=5.0) for model in models]).savefig("compare.pdf")
    """
    runs = items("runs", runs, "trajectories")
    if not runs or not all(isinstance(run, Trajectory) for run in runs):
        raise ValueError(f"runs must be a non-empty list of trajectories, got {shown(runs)}")
    names = _names(runs) if labels is None else [str(label) for label in items("labels", labels, "texts")]
    if len(names) != len(runs):
        raise ValueError(f"labels must have one entry for each of the {len(runs)} runs, got {len(names)}")
    wanted = [quantities] if isinstance(quantities, str) else list(quantities)
    curves = {name: [_curve(run, name) for run in runs] for name in wanted}
    if ax is not None:
        axes = [ax] if isinstance(ax, Axes) else list(ax)
        if len(axes) != len(wanted):
            raise ValueError(
                f"ax must be one axes for each of the {len(wanted)} quantities ({', '.join(wanted)}), got {len(axes)}"
            )
        for place, name in zip(axes, wanted, strict=True):
            _draw(place, runs, names, name, curves[name])
        axes[0].legend(loc="best")
        return ax if isinstance(ax, Axes) else axes
    drawn = [name for name in wanted if any(curve is not None for curve in curves[name])]
    if not drawn:
        raise ValueError(f"quantities: none of {', '.join(wanted)} is known for these runs")
    sheet = Sheet(width, height)
    panels = sheet.subplots(1, len(drawn), squeeze=False)[0]
    for place, name, letter in zip(panels, drawn, "abcdefgh", strict=False):
        _draw(place, runs, names, name, curves[name], letter if len(drawn) > 1 else "")
    columns = max(1, min(len(runs), int(110 / (6 + max(map(len, names))))))
    sheet.legend(handles=[_mark(k, label) for k, label in enumerate(names)], loc="outside lower center", ncols=columns)
    return sheet


def _style(k: int) -> dict[str, Any]:
    return {"color": PALETTE[k % len(PALETTE)], "ls": STYLES[k // len(PALETTE) % len(STYLES)]}


def _mark(k: int, label: str) -> Line2D:
    return Line2D([], [], label=label, **_style(k))


def _curve(run: Trajectory, name: str) -> np.ndarray | None:
    """Return `(2, points)` times and values of an observable along a run; None if it is not defined for the run."""
    function = find_function("observable", name)
    options: dict[str, Any] = {}
    of_tokens = run.dataset.attrs["state"] == "Tokens"
    if "model" in parameters(function):
        options["model"] = run.energy_beta if of_tokens else _recorded(run)
        if options["model"] is None:
            return None
    if of_tokens:
        frames = read_frames(run, MOST_POINTS).sample(MOST_PAIRED)
        states, times = [frames.state(k) for k in range(len(frames.times))], frames.times
    else:
        chosen = np.unique(np.linspace(0, len(run.times) - 1, min(len(run.times), MOST_POINTS)).round().astype(int))
        states, times = [run.state(int(k)) for k in chosen], run.times[chosen]
    try:
        return np.stack([times, [function(state, **options) for state in states]])
    except (TypeError, ValueError):  # the observable is not defined for this state or model
        return None


def _recorded(run: Trajectory) -> Any:
    try:
        return run.model
    except ValueError:  # the record is incomplete
        return None


def _draw(
    ax: Axes, runs: Sequence[Trajectory], names: Sequence[str], name: str, curves: Sequence[Any], letter: str = ""
) -> None:
    long = any(run.log_time_unit != 0 or run.times[-1] > LONG for run in runs)
    for k, (run, label, curve) in enumerate(zip(runs, names, curves, strict=True)):
        if curve is None:
            continue
        times, values = curve
        if long:
            with np.errstate(divide="ignore"):
                times = (np.log(times) + run.log_time_unit) / np.log(10)
        ax.plot(times, values, label=label, marker="o" if len(times) < 3 else None, **_style(k))
    ax.set_xlabel("$\\log_{10} t$" if long else "layer" if counts_layers(runs[0]) else "time $t$")
    if not long and any(curve is not None and is_logarithmic(curve[0]) for curve in curves):
        ax.set_xscale("log", nonpositive="mask")
    if name == "clusters":
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", lw=0.4, color="#e3e3e3")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    function = find_function("observable", name)
    text = labels_of(function).text(function, None)
    title = text[:1].upper() + text[1:]
    write_title(ax, fill(title, TITLE_WIDTH) if letter else title, letter)


def _names(runs: Sequence[Trajectory]) -> list[str]:
    """Return what differs between the runs (attention, norm, the rest of the model, the state), otherwise their numbers."""
    try:
        parts = [{**run.model.shown_arguments(), "state": run.state(0)} for run in runs]
    except ValueError:  # a run without a recorded model
        return [f"run {k + 1}" for k in range(len(runs))]
    keys = list(dict.fromkeys(key for part in parts for key in part))
    shown = [{key: repr(part.get(key)) for key in keys} for part in parts]
    differ = [key for key in keys if len({each[key] for each in shown}) > 1]
    found = [", ".join(each[key] for key in differ) for each in shown]
    return found if len(set(found)) == len(runs) else [f"run {k + 1}" for k in range(len(runs))]
