"""All pairs of tokens in blocks of rows: the histogram of cosines, their spread, clusters; never n x n numbers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

BINS = 100
EDGES = np.linspace(-1, 1, BINS + 1)
CLUSTER_TOLERANCE = (
    0.1  # tokens touch from a cosine of 0.9 on: real models seldom reach the 0.999 of the theory's figures
)
BLOCK_ENTRIES = 1 << 20


class Pairs(NamedTuple):
    """What one pass over the pairs i < j finds.

    Attributes:
        histogram: (bins,) counts of all pairs; special: of those with a special token.
        squares: sum of `(cosine - centre)^2`.
        energies: `∬ e^{beta(<u,v>-1)} dmu dmu` for each beta, the n pairs i = j included.
        clusters: how many; largest: tokens in the largest.
    """

    histogram: np.ndarray
    special: np.ndarray
    squares: float
    energies: np.ndarray
    clusters: int
    largest: int


def pairs(
    u: np.ndarray,
    special: np.ndarray,
    centre: float,
    betas: Sequence[float] = (),
    tolerance: float = CLUSTER_TOLERANCE,
) -> Pairs:
    """One pass over the cosines `<u_i, u_j>`, i < j, of unit vectors: what several observables would each take a pass for.

    Energies are those of `tokenfield.normalized_energy`.

    Clusters are those of `tokenfield.clusters(metric="cosine")`: connected components of "cosine >= 1 - tolerance" in which
    all pairs touch; tokens of a wider component count one by one. A component of m tokens is within the tolerance exactly
    when it has m(m-1)/2 touching pairs, so that one pass over blocks finds what would take n^2 memory.

    Example:
        >>> import numpy as np
        >>> pairs(np.eye(3), np.zeros(3, bool), centre=0.0).clusters
        3
    """
    n = len(u)
    histogram, of_special, squares = np.zeros(BINS, int), np.zeros(BINS, int), 0.0
    sums = np.zeros(len(betas))
    label, touching = np.arange(n), np.zeros(n, int)
    rows = max(1, BLOCK_ENTRIES // n)
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        c = np.clip(u[start:stop] @ u[start:].T, -1, 1)
        later = np.arange(start, n)[None, :] > np.arange(start, stop)[:, None]
        values, with_special = c[later], (special[start:stop, None] | special[None, start:])[later]
        place = np.minimum(((values + 1) * (BINS / 2)).astype(int), BINS - 1)
        histogram += np.bincount(place, minlength=BINS)
        of_special += np.bincount(place[with_special], minlength=BINS)
        squares += float(((values - centre) ** 2).sum())
        sums += [float(np.exp(beta * (values - 1)).sum()) for beta in betas]
        i, j = np.nonzero((c >= 1 - tolerance) & later)
        i, j = i + start, j + start
        touching += np.bincount(i, minlength=n)
        label = _joined(label, i, j)
    sizes, edges = np.bincount(label, minlength=n), np.bincount(label, weights=touching, minlength=n)
    there = sizes > 0
    sizes, edges = sizes[there], edges[there]
    whole = edges == sizes * (sizes - 1) / 2
    loose = int(sizes[~whole].sum())
    largest = max([int(m) for m in sizes[whole]] + [1])
    energies = (n + 2 * sums) / n**2
    return Pairs(histogram, of_special, squares, energies, int(whole.sum()) + loose, largest)


def _joined(label: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Components after more links between tokens i and j, given those so far."""
    n = len(label)
    links = np.unique(label[i] * n + label[j])  # few: most links of a block join the same components
    a, b = links // n, links % n
    return connected_components(coo_array((np.ones(len(links)), (a, b)), shape=(n, n)), directed=False)[1][label]
