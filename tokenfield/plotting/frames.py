"""The frames of a run to draw and measure: only finite states, not too many, and directions if the norm moves directions."""

from typing import NamedTuple

import numpy as np

from ..observables import Clusters, clusters, effective_rank
from ..results import Trajectory
from ..spaces import AbstractSpace, Euclidean, Sphere
from ..states import Tokens

MOST_FRAMES = 60
MOST_PAIRED = 1024  # maximum number of tokens for statistics of pairs
MOST_SHOWN = 4096
GROWTH = 10.0  # tokens whose size changes by more than this factor are drawn relative to it
HUGE = 1e100


class Frames(NamedTuple):
    """Tokens at some times of a run.

    Attributes:
        times: (f,) times.
        log_times: (f,) their logarithms in units of 1, also for times too large for a double.
        x: (f, n, d) directions x/|x| if `spherical`, the tokens themselves in R^d, coordinates of the chart in other spaces.
        tokens: (f, n, D) the tokens themselves in any case.
        weights: (f, n) weights.
        space: the space in which tokens are compared.
        symbol: the name of a token: "x", "z" for rescaled coordinates, "θ" for directions of longer tokens.
        of: number of tokens in the run.
    """

    times: np.ndarray
    log_times: np.ndarray
    x: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    space: AbstractSpace
    symbol: str
    of: int

    @property
    def n(self) -> int:
        """Number of tokens in the frames."""
        return self.x.shape[1]

    @property
    def d(self) -> int:
        """Dimension."""
        return self.x.shape[2]

    @property
    def spherical(self) -> bool:
        """True if the norm moves directions on the unit sphere, or all tokens have length 1."""
        return isinstance(self.space, Sphere)

    @property
    def charted(self) -> bool:
        """True if x are coordinates of a chart: in spaces other than the sphere and R^d."""
        return not isinstance(self.space, (Sphere, Euclidean))

    @property
    def growing(self) -> bool:
        """True if the tokens grow so much that only relative positions can be seen."""
        return isinstance(self.space, Euclidean) and bool(np.abs(self.x[-1]).max() > GROWTH * np.abs(self.x[0]).max())

    def state(self, k: int) -> Tokens:
        """Return the state of frame k: x, or the tokens themselves if x is a chart.

        Scales near the limits of double precision are divided out: no observable that uses this depends on them.
        """
        if self.charted:
            return Tokens(self.tokens[k], self.weights[k], space=self.space)
        return _tame(self.x[k], self.weights[k])

    def rank(self, k: int) -> float:
        """Return the effective rank of the tokens of frame k."""
        return effective_rank(_tame(self.tokens[k], self.weights[k]))

    def at(self, chosen: np.ndarray) -> "Frames":
        """Return some of the frames."""
        names = "times", "log_times", "x", "tokens", "weights"
        return self._replace(**{name: getattr(self, name)[chosen] for name in names})

    def sample(self, most: int, seed: int = 0) -> "Frames":
        """Return frames of at most `most` tokens, chosen at random, the same in all frames."""
        if self.n <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(self.n, most, replace=False))
        w = self.weights[:, chosen]
        total = w.sum(axis=1, keepdims=True)
        weights = np.where(total > 0, w / np.where(total > 0, total, 1), 1 / most)
        return self._replace(x=self.x[:, chosen], tokens=self.tokens[:, chosen], weights=weights)

    @property
    def share(self) -> str:
        """`"1024 of 5000 tokens"` for a sample, "" for all of them."""
        return "" if self.n == self.of else f"{self.n} of {self.of} tokens"


def read_frames(traj: Trajectory, most: int = MOST_FRAMES) -> Frames:
    """Return at most `most` frames of a run, evenly chosen among its saved states up to the last finite one."""
    if traj.dataset.attrs["state"] != "Tokens":
        kind = traj.dataset.attrs["state"]
        raise TypeError(
            f"this figure needs a run of Tokens, got a run of {kind}: use traj.plot(), or sample it to tokens"
        )
    chosen = _chosen(traj, most)
    tokens = traj.dataset["x"].values[chosen]
    symbol = "z" if {model["norm"]["kind"] for model in traj.models} == {"Rescaled"} else "x"
    x, lengths = tokens, np.linalg.norm(tokens / _scale(tokens), axis=-1, keepdims=True) * _scale(tokens)
    unit = bool((np.abs(lengths - 1) <= 1e-9).all())
    space = Sphere() if unit else traj.space
    if isinstance(space, Sphere) and not unit:
        x, symbol = tokens / np.where(lengths > 0, lengths, 1), "θ"
    elif not isinstance(space, (Sphere, Euclidean)):
        x, symbol = np.asarray(space.chart(tokens)), space.symbol
    weights = traj.dataset["weights"]
    w = weights.values[chosen] if "time" in weights.dims else np.broadcast_to(weights.values, x.shape[:2])
    return Frames(traj.times[chosen], traj.log_times[chosen], x, tokens, w, space, symbol, x.shape[1])


def _chosen(traj: Trajectory, most: int) -> np.ndarray:
    """Return the indices of at most `most` finite states, evenly chosen."""
    finite = np.isfinite(traj.dataset["x"].values).all(axis=(1, 2))
    count = len(finite) if finite.all() else int(np.argmin(finite))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def areas(weights: np.ndarray) -> np.ndarray:
    """Return the areas of tokens' marks relative to one of weight 1/n, within limits that can be seen: (n,) from (n,)."""
    return np.clip(len(weights) * weights, 0.05, 12.0)


def _tame(x: np.ndarray, weights: np.ndarray) -> Tokens:
    size = np.abs(x).max()
    return Tokens(x / size if size > HUGE else x, weights)


def _scale(x: np.ndarray) -> np.ndarray:
    """Return a power of two near the largest coordinate of each frame: dividing by it is exact and avoids overflow."""
    largest = np.abs(x).max(axis=(1, 2), keepdims=True)
    return 2.0 ** np.floor(np.log2(np.where(largest > 0, largest, 1)))


def relative(frames: Frames) -> np.ndarray:
    """Return the tokens divided by their root mean square length at each time: (f, n, d)."""
    x = frames.x / _scale(frames.x)
    size = np.sqrt(np.einsum("fnd,fnd,fn->f", x, x, frames.weights))[:, None, None]
    return x / np.where(size > 0, size, 1)


def final_clusters(frames: Frames, tol: float = 1e-3) -> tuple[Clusters, str]:
    """Return clusters at the last frame, and by which metric: "cosine", "distance", or "relative distance" if growing.

    Tokens that grow are compared after division by their root mean square length: no fixed distance suits them.
    """
    if frames.growing:
        last = frames._replace(x=frames.x[-1:], weights=frames.weights[-1:])
        return clusters(Tokens(relative(last)[0], frames.weights[-1]), tol, "distance"), "relative distance"
    metric = "cosine" if frames.spherical else "distance"
    return clusters(frames.state(-1), tol, metric), metric
