"""Group points that have met: connected components of bounded diameter."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree


def group(points: np.ndarray, reach: float) -> np.ndarray:
    """Return the group number (n,) of each point (n, d). Groups are numbered in the order of their first points.

    Groups are connected components of "at most `reach` apart". A component wider than `reach` is cut into groups of at most
    that width: the points within `reach/2` of its first point, then of the first of the rest, and so on.
    """
    cells, cell = np.unique(np.round(points / (reach / 8)), axis=0, return_inverse=True)  # most met points share a cell
    cell, centers = cell.reshape(-1), cells * (reach / 8)
    near = cKDTree(centers).query_pairs(reach, output_type="ndarray")
    links = coo_array((np.ones(len(near)), near.T.reshape(2, -1)), shape=(len(cells),) * 2)
    component = connected_components(links, directed=False)[1][cell]
    total = int(component.max()) + 1
    low = np.full((total, points.shape[1]), np.inf)
    high = -low
    np.minimum.at(low, component, points)
    np.maximum.at(high, component, points)
    for wide in np.flatnonzero(np.linalg.norm(high - low, axis=1) > reach):  # the box contains the component
        rest = np.flatnonzero(component == wide)
        if _radius(points[rest]) <= reach / 2:
            continue
        while len(rest):
            close = np.linalg.norm(points[rest] - points[rest[0]], axis=1) <= reach / 2
            component[rest[close]], total, rest = total, total + 1, rest[~close]
    _, first, groups = np.unique(component, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups.reshape(-1)]


def means(points: np.ndarray, weights: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean (k, d) and total weight (k,) of each group; the plain mean where the weight is 0."""
    k = int(groups.max()) + 1
    total = np.bincount(groups, weights, k)
    used = np.where(total[groups] > 0, weights, 1.0)
    share = used / np.bincount(groups, used, k)[groups]
    mean = np.stack([np.bincount(groups, share * column, k) for column in points.T], axis=1)
    return mean, total


def _radius(points: np.ndarray) -> float:
    """Return the largest distance from the center of the bounding box of the points: at least half their diameter."""
    return float(np.linalg.norm(points - (points.min(axis=0) + points.max(axis=0)) / 2, axis=1).max())
