"""Plateaus: the multi-cluster states in which tokens wait."""

import math
from typing import NamedTuple

import numpy as np

from ..results import Trajectory
from ..states import Tokens
from .clustering import clusters


class MetastableState(NamedTuple):
    """Clusters that wait from `e^{log_start}` to `e^{log_end}` (plain time; infinite for the last one).

    `masses` are in the order of `sizes`, largest first; the normalized energy of the plateau is their sum of squares.
    """

    log_start: float
    log_end: float
    sizes: tuple[int, ...]
    masses: tuple[float, ...]

    @property
    def number(self) -> int:
        """Number of clusters."""
        return len(self.sizes)

    @property
    def energy(self) -> float:
        """`sum_c mass_c^2`."""
        return float(np.square(self.masses).sum())

    @property
    def log_lifetime(self) -> float:
        """Logarithm of the time from start to end."""
        if self.log_start == -math.inf or self.log_end == math.inf:
            return self.log_end
        return self.log_end + math.log(-math.expm1(self.log_start - self.log_end))

    @property
    def start(self) -> float:
        """`e^{log_start}`; infinite where that leaves double precision."""
        return _exp(self.log_start)

    @property
    def end(self) -> float:
        """`e^{log_end}`."""
        return _exp(self.log_end)

    @property
    def lifetime(self) -> float:
        """`e^{log_lifetime}`."""
        return _exp(self.log_lifetime)


def metastable_states(traj: Trajectory, tol: float = 1e-3) -> list[MetastableState]:
    """The plateaus of a run of tokens, in order of time: which clusters, from when to when (FORMULAS §9).

    A coarsened run has them from its merges, whose times are half-way up a step of the energy. For other runs they are
    stretches of saved states with the same clusters, all collapsed to within `tol`; their ends are save times.

    Example:
        >>> import math, tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=50.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.circle_tokens([0.0, 0.5, 2.0]), t1=math.inf)
        >>> [(state.sizes, state.lifetime) for state in tkf.metastable_states(traj)]
    """
    if traj.dataset.attrs["state"] != "Tokens":
        raise TypeError(f"metastable_states is known for runs of Tokens, got {traj.dataset.attrs['state']}")
    weights, log_times = traj.dataset["weights"].values, traj.log_times
    if "cluster" in traj.dataset:
        labels = traj.dataset["cluster"].values
        merges = [event.detail["log_time"] for event in traj.events if event.kind == "merge"]
        times = {count: time for count, time in zip(range(len(merges), 0, -1), sorted(merges), strict=True)}
        counts = np.array([len(np.unique(row)) for row in labels])
        found = []
        for count in range(len(merges) + 1, 0, -1):
            rows = np.flatnonzero(counts == count)
            if rows.size:
                start = times.get(count, float(log_times[rows[0]]))
                end = times.get(count - 1, math.inf)
                found.append(_state(start, end, labels[rows[0]], weights))
        return found
    spells: list[MetastableState] = []
    for k, log_t in enumerate(log_times):
        groups = clusters(Tokens(traj.dataset["x"].values[k], weights), tol)
        if groups.loose or groups.count == len(weights) > 1:
            continue
        now = _state(float(log_t), float(log_t), groups.labels, weights)
        if spells and spells[-1].sizes == now.sizes and spells[-1].log_end == float(log_times[k - 1]):
            spells[-1] = spells[-1]._replace(log_end=now.log_end)
        else:
            spells.append(now)
    if spells and spells[-1].number == 1:
        spells[-1] = spells[-1]._replace(log_end=math.inf)
    return [spell for spell in spells if spell.log_end > spell.log_start]


def _state(start: float, end: float, labels: np.ndarray, weights: np.ndarray) -> MetastableState:
    names, group = np.unique(labels, return_inverse=True)
    sizes, masses = np.bincount(group, minlength=len(names)), np.bincount(group, weights, len(names))
    order = np.argsort(-sizes, kind="stable")
    return MetastableState(start, end, tuple(map(int, sizes[order])), tuple(map(float, masses[order])))


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf
