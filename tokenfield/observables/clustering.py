"""Clusters: connected components of small diameter."""

import math
from dataclasses import dataclass

import numpy as np

from .._check import one_of, positive
from ..spaces import Sphere
from ..states import Tokens
from ..states.tokens import only_tokens
from .safe import units
from .series import observable

FEW, LOW = 1024, 6  # below FEW tokens, or above LOW dimensions, components are found by flood fill


@dataclass(frozen=True)
class Clusters:
    """A partition of the tokens into clusters, of at least two tokens each, and single tokens.

    Attributes:
        labels: (n,) the group of each token, 0 the largest. A group is a cluster or a single token.
        sizes: (k,) number of tokens in each group, largest first: 1 for a single token.
        masses: (k,) total weight of each group.
        centers: (k, d) weighted mean of each group (of length 1 under the cosine metric).
        loose: number of tokens in connected components wider than the tolerance; each of them counts as a single token.
    """

    labels: np.ndarray
    sizes: np.ndarray
    masses: np.ndarray
    centers: np.ndarray
    loose: int

    @property
    def count(self) -> int:
        """The number of clusters, each of at least two tokens."""
        return int((self.sizes > 1).sum())

    @property
    def single_tokens(self) -> int:
        """The number of tokens that are in no cluster."""
        return int((self.sizes == 1).sum())


def clusters(state: Tokens, tol: float = 1e-3, metric: str = "auto") -> Clusters:
    """Return the connected components of "closer than tol" whose *diameter* is also within tol.

    A connected component that is wider (a ring of evenly spread tokens, for example) has not collapsed: each of its tokens
    counts as a single token. Unlike the rank of a thresholded matrix, the result does not depend on rounding.

    Args:
        state: the tokens.
        tol: two tokens touch when `cosine >= 1 - tol` ("cosine") or `|x_i - x_j| <= tol` ("distance").
        metric: "cosine" compares directions, "distance" compares points, with the inner product of their space. "auto" is
            "cosine" on the sphere (if all tokens have length 1), otherwise "distance" (use "cosine" under Pre-LN and Peri-LN,
            where lengths grow).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.clusters(tkf.separated_clusters(60, 3, k=4, spread=0.001, seed=0)).sizes
        array([15, 15, 15, 15])
    """
    state = only_tokens("clusters", state)
    tol = positive("tol", tol)
    if one_of("metric", metric, ("auto", "cosine", "distance")) == "auto":
        metric = "cosine" if isinstance(state.space, Sphere) else "distance"
    points, reach, signs = np.asarray(state.x), tol, None
    if metric == "cosine":
        # 1 - cos = |a - b|^2 / 2 for unit vectors; the chord |a - b| has full relative accuracy.
        points, reach = np.asarray(units(state.x)), np.sqrt(2 * tol)
    elif state.given_space is not None and state.given_space.indefinite:
        signs = state.given_space.signs(state.d)
    components = connected_components(points, reach, signs)
    wide = [len(c) > 1 and not within(points[c], reach, signs) for c in components]
    groups = []
    for members, is_wide in zip(components, wide, strict=True):
        groups += [members[k : k + 1] for k in range(len(members))] if is_wide else [members]
    groups.sort(key=lambda members: (-len(members), members[0]))
    labels = np.empty(state.n, int)
    for k, members in enumerate(groups):
        labels[members] = k
    weights = np.asarray(state.weights)
    masses = np.array([weights[m].sum() for m in groups])
    centers = np.array([_center(points[m], weights[m]) for m in groups])
    if metric == "cosine":
        centers /= np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), np.finfo(float).tiny)
    loose = sum(len(c) for c, is_wide in zip(components, wide, strict=True) if is_wide)
    return Clusters(labels, np.array([len(m) for m in groups]), masses, centers, loose)


@observable(
    "number of clusters",
    name="clusters",
    range=(0.0, math.inf),
    rotation_invariant=True,
    in_loop=False,
)
def cluster_count(state: Tokens, tol: float = 1e-3) -> int:
    """Return the number of `clusters`, each of at least two tokens.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.observables import cluster_count
        >>> cluster_count(tkf.separated_clusters(60, 3, k=4, spread=0.001, seed=0))
        4.0
    """
    return clusters(state, tol).count


@observable("number of single tokens", range=(0.0, math.inf), rotation_invariant=True, in_loop=False)
def single_tokens(state: Tokens, tol: float = 1e-3) -> int:
    """Return the number of tokens that are in none of the `clusters`.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.observables import single_tokens
        >>> single_tokens(tkf.circle_tokens([0.0, 0.0, 1.0, 2.0]))
        2.0
    """
    return clusters(state, tol).single_tokens


@observable("fraction of tokens in the largest cluster", range=(0.0, 1.0), rotation_invariant=True, in_loop=False)
def largest_cluster(state: Tokens, tol: float = 1e-3) -> float:
    """Return the fraction of tokens in the largest of the `clusters`; 1/n if there is none.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.observables import largest_cluster
        >>> largest_cluster(tkf.separated_clusters(60, 3, k=4, spread=0.001, seed=0))
        0.25
    """
    return float(clusters(state, tol).sizes.max()) / state.n


def connected_components(points: np.ndarray, reach: float, signs: np.ndarray | None = None) -> list[np.ndarray]:
    """Return the components of the graph "at most `reach` apart", each as sorted token indices; memory O(n).

    Distances are roots of `sum_k s_k (x_k - y_k)^2`, with all signs s_k = 1 by default.
    """
    d = points.shape[1]
    side = reach / np.sqrt(d)
    if len(points) < FEW or d > LOW or signs is not None or np.abs(points).max() / side > 1e15:
        return _flood(points, reach, signs)
    return _by_cells(points, reach, side)


def _by_cells(points: np.ndarray, reach: float, side: float) -> list[np.ndarray]:
    """Return the same, using cells so small that all points in a cell are connected; only nearby cells are compared."""
    from scipy.spatial import cKDTree

    cells, cell = np.unique(np.floor(points / side), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    order = np.argsort(cell, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(cell[order])) + 1)
    first = points[[m[0] for m in members]]
    near = cKDTree(cells).query_pairs(2 * np.sqrt(points.shape[1]) * (1 + 1e-12), output_type="ndarray")
    touch = np.linalg.norm(first[near[:, 0]] - first[near[:, 1]], axis=1) <= reach
    links = [near[touch]]
    label = _label(len(cells), links)
    for a, b in near[~touch]:
        if label[a] != label[b]:
            small, large = sorted((members[a], members[b]), key=len)
            nearest = cKDTree(points[large]).query(points[small], distance_upper_bound=reach * (1 + 1e-9))[1]
            inside = nearest < len(large)
            apart = points[small[inside]] - points[large[nearest[inside]]]
            if (np.linalg.norm(apart, axis=1) <= reach).any():
                links.append(np.array([[a, b]]))
                label = np.where(label == label[b], label[a], label)
    component = _label(len(cells), links)[cell]
    order = np.argsort(component, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(component[order])) + 1)


def _label(count: int, links: list[np.ndarray]) -> np.ndarray:
    """Return the component of each of `count` nodes, given links between nodes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate(links).T.reshape(2, -1)
    return connected_components(coo_array((np.ones(ends.shape[1]), ends), shape=(count, count)), directed=False)[1]


def _flood(points: np.ndarray, reach: float, signs: np.ndarray | None = None) -> list[np.ndarray]:
    """Return the same in any dimension, by flood fill from token to token."""
    rest, components = np.arange(len(points)), []
    while len(rest):
        members, frontier, rest = [rest[:1]], rest[:1], rest[1:]
        while len(frontier) and len(rest):
            near = np.zeros(len(rest), bool)
            for i in frontier:
                todo = ~near
                near[todo] = _distances(points[rest[todo]], points[i], signs) <= reach
                if near.all():
                    break
            frontier, rest = rest[near], rest[~near]
            members.append(frontier)
        components.append(np.sort(np.concatenate(members)))
    return components


def within(points: np.ndarray, reach: float, signs: np.ndarray | None = None) -> bool:
    """Return True if the diameter of the points is at most `reach`."""
    if np.linalg.norm(np.ptp(points, axis=0)) <= reach:
        return True
    radius = _distances(points, points[0], signs).max()
    if radius <= reach / 2 and signs is None:
        return True
    if radius > reach:
        return False
    return all(_distances(points[i + 1 :], points[i], signs).max(initial=0) <= reach for i in range(len(points)))


def _distances(points: np.ndarray, point: np.ndarray, signs: np.ndarray | None) -> np.ndarray:
    difference = points - point
    lowered = difference if signs is None else signs * difference
    return np.sqrt(np.maximum(np.einsum("ij,ij->i", lowered, difference), 0))


def _center(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.average(points, axis=0, weights=weights if weights.sum() > 0 else None)
