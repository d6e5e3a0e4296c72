"""Metastable states: plateaus of the energy, on which several clusters barely move."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..results import Trajectory
from ..states import Tokens
from .clustering import clusters


class MetastableState(NamedTuple):
    """Clusters that stay apart from time `e^{log_start}` to time `e^{log_end}` (infinite for the last state).

    `masses` are in the order of `sizes`, largest first. The normalized energy of the plateau is the sum of their squares.
    """

    log_start: float
    log_end: float
    sizes: tuple[int, ...]
    masses: tuple[float, ...]

    @property
    def number(self) -> int:
        """The number of clusters and single tokens."""
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
        """`e^{log_start}`; infinite on overflow."""
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
    """Return the metastable states of a run of tokens, in order of time: their clusters, start and end (FORMULAS §9).

    For a run with method "coarsen", they follow from its merges, whose times are halfway up a step of the energy. The first
    one starts at time 0 or, with more than 48 tokens, at the first save time at which they have collapsed. States of duration 0
    are left out. For other runs, they are stretches of saved states after time 0 with the same clusters, all collapsed to
    within `tol`; their start and end are save times.

    Example:
        >>> import math, tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=50.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.circle_tokens([0.0, 0.5, 2.0]), t1=math.inf)
        >>> [(state.sizes, state.lifetime) for state in tkf.metastable_states(traj)]
        [((1, 1, 1), 25.127282956376927), ((2, 1), 3.159252937161225e+23), ((3,), inf)]
    """
    if traj.dataset.attrs["state"] != "Tokens":
        raise TypeError(f"metastable_states needs a run of Tokens, got {traj.dataset.attrs['state']}")
    weights, log_times = traj.dataset["weights"].values, traj.log_times
    if "cluster" in traj.dataset:
        return _from_merges(traj, weights)
    spells: list[MetastableState] = []
    for k, log_t in enumerate(log_times):
        if log_t == -math.inf:  # time 0: no metastable state yet
            continue
        groups = clusters(Tokens(traj.dataset["x"].values[k], weights), tol)
        if groups.loose or groups.single_tokens == len(weights) > 1:
            continue
        now = _state(float(log_t), float(log_t), groups.sizes, groups.masses)
        if spells and spells[-1].sizes == now.sizes and spells[-1].log_end == float(log_times[k - 1]):
            spells[-1] = spells[-1]._replace(log_end=now.log_end)
        else:
            spells.append(now)
    if spells and spells[-1].number == 1:
        spells[-1] = spells[-1]._replace(log_end=math.inf)
    return [spell for spell in spells if spell.log_end > spell.log_start]


def _from_merges(traj: Trajectory, weights: np.ndarray) -> list[MetastableState]:
    """Return the states, from the final clusters back to those before the first merge. A cluster is named by its first token."""
    labels = traj.dataset["cluster"].values
    merges = [event.detail for event in traj.events if event.kind == "merge"]
    now = {int(members[0]): (len(members), math.fsum(weights[members])) for members in _members(labels[-1])}
    stages = [(math.inf, now)]
    for merge in reversed(merges):
        now = now | dict(zip(merge["tokens"], zip(merge["sizes"], merge["masses"], strict=True), strict=True))
        stages.append((merge["log_time"], now))
    counts = np.array([len(np.unique(row)) for row in labels])
    start = float(traj.log_times[np.argmax(counts <= len(now))]) if counts[0] > len(now) else -math.inf
    found = []
    for end, groups in reversed(stages):
        if end > start:
            found.append(_state(start, end, *zip(*groups.values(), strict=True)))
        start = max(start, end)
    return found


def _members(labels: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(labels == name) for name in np.unique(labels)]


def _state(start: float, end: float, sizes: ArrayLike, masses: ArrayLike) -> MetastableState:
    count, mass = np.asarray(sizes), np.asarray(masses)
    order = np.argsort(-count, kind="stable")
    return MetastableState(start, end, tuple(map(int, count[order])), tuple(map(float, mass[order])))


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf
