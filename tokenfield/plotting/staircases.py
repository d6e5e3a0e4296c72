"""The staircase of the energy and the tree of merges against the logarithm of time."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..observables import metastable_states
from ..observables.interaction import normalized_energy_of
from ..results import Trajectory
from .style import GRAY, INK, PALETTE, one_panel, styled, write_title

TEN = math.log(10)


@styled
def staircase(traj: Trajectory, width: float = 5.0, height: float = 3.0, ax: Axes | None = None) -> Any:
    """Draw the normalized energy against log time, with the plateaus `sum_c mass_c^2` of the metastable states (FORMULAS §9).

    Args:
        traj: a run of SA or USA on the sphere.
        width, height: of the figure in inches, if there is no `ax`.
        ax: your own matplotlib axes.

    Returns:
        A matplotlib figure; or `ax`, if it is given.

    Example:
        >>> import math, tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=50.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.circle_tokens([0.0, 0.5, 2.0]), t1=math.inf)
        >>> tkf.plotting.staircase(traj).savefig("staircase.pdf")
    """
    beta = traj.energy_beta
    if beta is None:
        raise ValueError("staircase needs a run of SA or USA on the sphere, which has an energy")
    weights, x = traj.dataset["weights"].values, traj.dataset["x"].values
    energy = np.array([float(normalized_energy_of(row, weights, beta)) for row in x])
    panel, drawn = one_panel(ax, width, height)
    shown = np.isfinite(traj.log_times)
    left, right = _limits(traj)
    for state in metastable_states(traj):
        panel.hlines(
            state.energy, max(state.log_start / TEN, left), min(state.log_end / TEN, right), color=GRAY, lw=3, alpha=0.5
        )
    panel.plot(traj.log_times[shown] / TEN, energy[shown], color=PALETTE[0], lw=1.4)
    for event in traj.events:
        if event.kind == "merge" and math.isfinite(event.detail["log_time"]):
            before, after = event.detail["energy_before"], event.detail["energy_after"]
            panel.plot(
                event.detail["log_time"] / TEN,
                before + event.detail["energy_fraction"] * (after - before),
                "o",
                ms=4,
                color=PALETTE[1],
            )
    panel.set(xlabel=r"$\log_{10}\, t$", ylabel="normalized energy", xlim=(left, right), ylim=(0, 1.05))
    write_title(panel, rf"Staircase, $\beta$ = {beta:g}")
    panel.spines[["top", "right"]].set_visible(False)
    return drawn


@styled
def merge_tree(traj: Trajectory, width: float = 5.0, height: float = 3.2, ax: Axes | None = None) -> Any:
    """Draw which clusters merge when: a tree with the logarithm of time on its axis, thicker lines for larger clusters.

    Args:
        traj: a run with merges, such as one with `t1=math.inf`.
        width, height: of the figure in inches, if there is no `ax`.
        ax: your own matplotlib axes.

    Returns:
        A matplotlib figure; or `ax`, if it is given.

    Example:
        >>> import math, tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=50.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.circle_tokens([0.0, 0.5, 2.0]), t1=math.inf)
        >>> tkf.plotting.merge_tree(traj).savefig("tree.pdf")
    """
    merges = [event.detail for event in traj.events if event.kind == "merge"]
    if not merges:
        raise ValueError("merge_tree needs a run with merges: simulate(..., method='coarsen')")
    panel, drawn = one_panel(ax, width, height)
    left, right = _limits(traj)
    order, sizes = _leaves(merges)
    place = {token: float(k) for k, token in enumerate(order)}
    begun = dict.fromkeys(order, left)
    n = traj.dataset.sizes["token"]
    thick = lambda size: 0.8 + 3.2 * math.sqrt(size / n)  # noqa: E731
    for merge in merges:
        a, b = sorted(merge["tokens"])  # a merged cluster is named after its first token
        at = max(merge["log_time"] / TEN, left)
        for token in (a, b):
            panel.hlines(place[token], begun[token], at, color=PALETTE[0], lw=thick(sizes[token]))
        panel.vlines(at, *sorted((place[a], place[b])), color=PALETTE[0], lw=1.2)
        place[a] = (place[a] * sizes[a] + place[b] * sizes[b]) / (sizes[a] + sizes[b])
        sizes[a], begun[a] = sizes[a] + sizes[b], at
        del place[b], begun[b]
    for token in place:
        panel.hlines(place[token], begun[token], right, color=PALETTE[0], lw=thick(sizes[token]))
    _name_leaves(panel, order, _leaves(merges)[1])
    panel.set(xlabel=r"$\log_{10}\, t$", xlim=(left, right))
    write_title(panel, "Merges")
    panel.spines[["top", "right", "left"]].set_visible(False)
    return drawn


def _limits(traj: Trajectory) -> tuple[float, float]:
    """Return the limits of the axis: from just before the first merge to just after the last record."""
    merges = [event.detail["log_time"] for event in traj.events if event.kind == "merge" and event.time > 0]
    finite = traj.log_times[np.isfinite(traj.log_times)]
    first, last = min([*merges, finite[-1]]), finite[-1]
    margin = 0.06 * (last - first) + 0.5
    return (first - 2 * margin) / TEN, (last + margin) / TEN


def _leaves(merges: list[dict]) -> tuple[list[int], dict[int, int]]:
    """Return one token per cluster before the first merge, in an order without crossings, and the sizes of these clusters."""
    groups: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for merge in merges:
        for token, size in zip(merge["tokens"], merge["sizes"], strict=True):
            groups.setdefault(token, [token])
            sizes.setdefault(token, size)
        a, b = sorted(merge["tokens"])
        groups[a] = groups[a] + groups.pop(b)
    return [token for group in groups.values() for token in group], sizes


def _name_leaves(ax: Axes, order: list[int], sizes: dict[int, int]) -> None:
    single = all(size == 1 for size in sizes.values())
    ax.set_yticks(range(len(order)), [f"token {t}" if single else f"{sizes[t]}" for t in order], fontsize=7)
    ax.set_ylabel("" if single else "clusters, by size", color=INK)
    ax.tick_params(axis="y", length=0)
