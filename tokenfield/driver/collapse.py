"""The first collapse of many tokens into clusters, by the usual flow, without rescaling time."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..flows import segments
from ..solver.base import AbstractMethod
from ..states import Tokens
from ..transformer import Transformer
from .coarsening import CHEAP, Epoch, Record
from .run import Plan, run

FEW = 48  # up to this many tokens are followed in rescaled time from the start
MANY = 4096  # above this number, it pays to compile a program for fewer tokens on the way
PATIENCE = (
    (8, FEW),
    (24, 512),
)  # (windows, clusters): after this many windows, up to this many clusters go on in rescaled time
SAVED = 5


class Collapsing(NamedTuple):
    """The state of the collapse between two time windows."""

    records: list[Record]
    epochs: list[Epoch]
    x: np.ndarray
    t: float
    window: float
    windows: int
    steps: int


def collapse(
    model: Transformer,
    state: Tokens,
    time_unit: float,
    t1: float,
    targets: np.ndarray,
    method: AbstractMethod,
    tolerance: float,
    delta: float,
    max_steps: int,
    so_far: Collapsing | None = None,
    keep: Callable[[Collapsing], None] = lambda so_far: None,
) -> tuple[list[Record], list[Epoch], int]:
    """Integrate in time windows and merge tokens within delta, until few are left or t1 is reached.

    The state is recorded a few times in each window, and at the times `targets`. Returns the records, their epochs (a coarse
    run starts from the last of each) and the number of steps. `keep` is called before each window with a state from which
    the run can resume: passed as `so_far`, it gives the same bits.
    """
    if so_far is None:
        start, first = np.asarray(state.x), Epoch(np.asarray(state.weights), np.arange(state.n))
        so_far = Collapsing([Record(-np.inf, 0, start)], [first], start, 0.0, 4 * time_unit, 0, 0)
    records, epochs, x, t, window, windows, steps = so_far
    weights, labels = epochs[-1]
    for k in range(windows, 10_000):
        keep(Collapsing([*records], [*epochs], x, t, window, k, steps))
        groups = join(x, delta)
        count = int(groups.max()) + 1
        done = count <= CHEAP or any(k >= windows and count <= most for windows, most in PATIENCE) or t >= t1
        if count < len(x) and (done or (len(x) > MANY and 8 * count <= len(x))):
            x, weights, labels = merged(x, weights, labels, groups)
            epochs.append(Epoch(weights, labels))
            records.append(Record(records[-1].log_t, len(epochs) - 1, x))
        if done:
            break
        end = min(window, t1 - t)
        times = np.union1d(t + np.linspace(0, end, SAVED)[1:], targets[(targets > t) & (targets <= t + end)])
        tokens = Tokens(x, weights / weights.sum())
        parts = segments(tokens, model)
        plan = Plan(
            segments=parts,
            y0=parts[0].flow.pack(tokens),
            t1=end,
            save_at=np.minimum(times - t, end),
            rtol=0.0,
            atol=tolerance,
            method=method,
            stop=None,
            max_steps=max_steps,
        )
        outcome = run(plan, False, None, np.inf)
        steps += outcome.steps
        for time, theta in zip(times, np.asarray(outcome.saved.theta)[: len(times)], strict=True):
            records.append(Record(float(np.log(time)), len(epochs) - 1, theta))
        x, t = np.asarray(outcome.y.theta), t + end
        window *= 1.15
    return records, epochs, steps


def join(x: np.ndarray, delta: float) -> np.ndarray:
    """Return a group number for each token: connected components of "within delta" whose diameter is also within delta."""
    cells, cell = np.unique(
        np.round(x / (delta / 4)), axis=0, return_inverse=True
    )  # most collapsed tokens share a cell
    cell = cell.reshape(-1)
    reach = delta * (1 + x.shape[1] ** 0.5 / 4)  # large enough that no pair within delta is missed
    near = cKDTree(cells * (delta / 4)).query_pairs(reach, output_type="ndarray")
    links = coo_array((np.ones(len(near)), near.T.reshape(2, -1)), shape=(len(cells),) * 2)
    component = connected_components(links, directed=False)[1][cell]
    low = np.full((component.max() + 1, x.shape[1]), np.inf)
    high = -low
    np.minimum.at(low, component, x)
    np.maximum.at(high, component, x)
    wide = np.linalg.norm(high - low, axis=1)[component] > delta
    single = component.max() + 1 + np.arange(len(x))
    return np.unique(np.where(wide, single, component), return_inverse=True)[1].reshape(-1)


def merged(x: np.ndarray, weights: np.ndarray, labels: np.ndarray, groups: np.ndarray):
    """Replace each group by one token at its weighted mean direction."""
    count = groups.max() + 1
    total = np.array([math.fsum(weights[groups == group]) for group in range(count)])  # rounded only once
    shares = np.where(total[groups] > 0, weights, 1.0)  # in a group of total weight 0, all tokens count equally
    mean = np.stack([np.bincount(groups, shares * column, count) for column in x.T], 1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True), total, groups[labels]
