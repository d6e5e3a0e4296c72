"""The first collapse of many tokens into clusters, in the usual flow, before time is rescaled."""

import math

import numpy as np

from ..flows import segments
from ..solver.base import FINISHED
from ..states import Tokens
from ..transformer import Transformer
from .clusters import CHEAP, Epoch, Snapshot
from .coarsening import epochs_of
from .ending import fail
from .run import AbstractSchedule, Stage
from .smooth import Options, padded, problem_of

FEW = 48  # up to this many tokens are followed in rescaled time from the start
MANY = 4096  # above this number, it pays to compile another program once there are fewer tokens
PATIENCE = (
    (8, FEW),
    (24, 512),
)  # (windows, clusters): after this many windows, up to this many clusters continue in rescaled time
MOST_WINDOWS = 10_000
SAVED, TESTED = 5, 41  # snapshots in a window, without and with a stop rule, which is tested at all of them


class Collapse(AbstractSchedule):
    """Integrate in time windows and merge tokens within delta, until few are left or t1 is reached.

    The tokens are recorded a few times in each window, and at the save times. A coarse run starts from the last of the
    snapshots and the last of their epochs.
    """

    def __init__(
        self,
        model: Transformer,
        state: Tokens,
        time_unit: float,
        options: Options,
        delta: float,
        saved: int = SAVED,
    ):
        self.model, self.options, self.delta, self.saved = model, options, delta, saved
        self.x, self.t, self.window, self.windows = np.asarray(state.x), 0.0, 4 * time_unit, 0
        self.snapshots = [Snapshot(-np.inf, 0, self.x)]
        self.epochs = [Epoch(np.asarray(state.weights), np.arange(state.n))]
        self.ended = False
        self._merge()

    @property
    def max_steps(self):
        return self.options.max_steps

    def stage(self):
        if self.ended:
            return None
        weights = self.epochs[-1].weights
        tokens = Tokens(self.x, weights / weights.sum())
        self.flow = segments(tokens, self.model)[0].flow
        y = self.flow.pack(tokens)
        options = self.options._replace(save_at=padded(np.minimum(self._times - self.t, self._span), y))
        return Stage(problem_of(options, self.flow, self._span, self._span), 0.0, y)

    @property
    def _span(self) -> float:
        """The length of the current window."""
        return min(self.window, self.options.t1 - self.t)

    @property
    def _times(self) -> np.ndarray:
        """The times to record in the current window."""
        targets = self.options.save_at
        wanted = targets[(targets > self.t) & (targets <= self.t + self._span)]
        return np.union1d(self.t + np.linspace(0, self._span, self.saved)[1:], wanted)

    def after_chunk(self, record):
        pass

    def finish(self, record):
        if int(record.carry.status) != FINISHED:
            fail(self.options.method, self.flow, self.t + float(record.carry.t), record.carry.y)
        times = self._times
        for time, theta in zip(times, np.asarray(record.saved.theta)[: len(times)], strict=True):
            self.snapshots.append(Snapshot(float(np.log(time)), len(self.epochs) - 1, theta))
        self.x, self.t = np.asarray(record.carry.y.theta), self.t + self._span
        self.window *= 1.15
        self.windows += 1
        self._merge()

    def _merge(self) -> None:
        """Merge tokens within delta if this saves time, and decide whether the collapse has ended."""
        groups = group_tokens(self.x, self.delta)
        count = int(groups.max()) + 1
        patient = any(self.windows >= windows and count <= most for windows, most in PATIENCE)
        self.ended = count <= CHEAP or patient or self.t >= self.options.t1 or self.windows >= MOST_WINDOWS
        if count < len(self.x) and (self.ended or (len(self.x) > MANY and 8 * count <= len(self.x))):
            self.x, *epoch = merged(self.x, *self.epochs[-1], groups)
            self.epochs.append(Epoch(*epoch))
            self.snapshots.append(Snapshot(self.snapshots[-1].log_t, len(self.epochs) - 1, self.x))

    def progress(self, t):
        return len(self.epochs[0].weights) - len(self.x)

    def reached(self, t):
        return f"t = {self.t + t:.6g}"

    def checkpoint_data(self):
        numbers = {"x": self.x, "t": self.t, "window": self.window, "windows": self.windows, "ended": self.ended}
        return numbers | {"snapshots": [*self.snapshots], "epochs": [*self.epochs]}

    def restore(self, data):
        self.x, self.t, self.window, self.windows = (data[name] for name in ("x", "t", "window", "windows"))
        self.snapshots, self.epochs = [Snapshot(*each) for each in data["snapshots"]], epochs_of(data["epochs"])
        self.ended = data["ended"]


def group_tokens(x: np.ndarray, delta: float) -> np.ndarray:
    """Return a group number for each token: connected components of "within delta" whose diameter is also within delta."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

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
    total = np.array([math.fsum(weights[groups == group]) for group in range(count)])  # fsum rounds only once
    shares = np.where(total[groups] > 0, weights, 1.0)  # in a group of total weight 0, all tokens count equally
    mean = np.stack([np.bincount(groups, shares * column, count) for column in x.T], 1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True), total, groups[labels]
