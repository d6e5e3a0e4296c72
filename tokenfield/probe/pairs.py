"""All pairs of tokens in blocks of rows: the histogram of cosines, their spread, clusters; never n x n numbers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

BINS = 100
EDGES = np.linspace(-1, 1, BINS + 1)
CLUSTER_TOLERANCE = (
    0.1  # tokens are linked at a cosine of at least 0.9: real models seldom reach the 0.999 of the theory's figures
)
BLOCK_ENTRIES = 1 << 20


class Pairs(NamedTuple):
    """The results of one pass over the pairs i < j.

    Attributes:
        histogram: (bins,) counts of all pairs; special: of those with a special token.
        squares: sum of `(cosine - center)^2`.
        energies: `∬ e^{beta(<u,v>-1)} dmu dmu` for each beta, the n pairs i = j included.
        clusters: number of clusters of at least two tokens; largest: tokens in the largest (1 if there is none); single: tokens
            in no cluster.
        least_cosine: the smallest cosine between two tokens of the largest cluster, a measure of its width; NaN without one.
        labels: (n,) the component of each token.
    """

    histogram: np.ndarray
    special: np.ndarray
    squares: float
    energies: np.ndarray
    clusters: int
    largest: int
    single: int
    least_cosine: float
    labels: np.ndarray


def pairs(
    u: np.ndarray,
    special: np.ndarray,
    center: float,
    betas: Sequence[float] = (),
    tolerance: float = CLUSTER_TOLERANCE,
) -> Pairs:
    """Compute several observables in one pass over the cosines `<u_i, u_j>`, i < j, of unit vectors.

    Energies are those of `tokenfield.normalized_energy`.

    Clusters are connected components of "cosine >= 1 - tolerance", of any width: tokens of real models lie around a direction
    at many distances, and seldom all within one tolerance of each other. (`tokenfield.clusters`, made for tokens that the flow has
    brought together, counts the tokens of a wide component one by one.) A chain is one cluster too, so `least_cosine` says how
    wide the largest is.

    Example:
        >>> import numpy as np
        >>> found = pairs(np.array([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]]), np.zeros(3, bool), center=0.0)
        >>> found.clusters, found.largest, found.single, round(found.least_cosine, 2)
        (1, 2, 1, 0.96)
    """
    n = len(u)
    histogram, of_special, squares = np.zeros(BINS, int), np.zeros(BINS, int), 0.0
    sums = np.zeros(len(betas))
    label = np.arange(n)
    rows = max(1, BLOCK_ENTRIES // n)
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        c = np.clip(u[start:stop] @ u[start:].T, -1, 1)
        later = np.arange(start, n)[None, :] > np.arange(start, stop)[:, None]
        values, with_special = c[later], (special[start:stop, None] | special[None, start:])[later]
        place = np.minimum(((values + 1) * (BINS / 2)).astype(int), BINS - 1)
        histogram += np.bincount(place, minlength=BINS)
        of_special += np.bincount(place[with_special], minlength=BINS)
        squares += float(((values - center) ** 2).sum())
        sums += [float(np.exp(beta * (values - 1)).sum()) for beta in betas]
        i, j = np.nonzero((c >= 1 - tolerance) & later)
        label = _joined(label, i + start, j + start)
    sizes = np.bincount(label, minlength=n)
    widest = _least_cosine(u[label == np.argmax(sizes)]) if sizes.max() > 1 else np.nan
    energies = (n + 2 * sums) / n**2
    counts = int((sizes > 1).sum()), int(sizes.max()), int((sizes == 1).sum())
    return Pairs(histogram, of_special, squares, energies, *counts, widest, label)


def _least_cosine(u: np.ndarray) -> float:
    """Return the smallest cosine between two of these unit vectors, in blocks of rows."""
    rows = max(1, BLOCK_ENTRIES // len(u))
    return float(min((u[start : start + rows] @ u.T).min() for start in range(0, len(u), rows)))


def _joined(label: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return the components `label` after adding links between tokens i and j."""
    n = len(label)
    links = np.unique(label[i] * n + label[j])  # few: most links of a block join the same components
    a, b = links // n, links % n
    return connected_components(coo_array((np.ones(len(links)), (a, b)), shape=(n, n)), directed=False)[1][label]
