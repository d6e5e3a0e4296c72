"""Mean shift beside scikit-learn's on its own small data sets: time, and how well the known classes are found.

scikit-learn has a flat kernel, a ball of radius R; our Gaussian gets h = R/2.8, a width chosen by eye; the numbers of
clusters are printed. R is the share of `estimate_bandwidth(X, quantile=0.2)` at which
the *flat* kernel finds the classes best, among 1, 0.9, … 0.5 (for digits on the first 600). The adjusted Rand index
(1: the classes, 0: chance) is printed for both.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.cluster import MeanShift as FlatMeanShift
from sklearn.cluster import estimate_bandwidth
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tokenfield.clustering import MeanShift

QUANTILE = 0.2
RADIUS_PER_BANDWIDTH = 2.8


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of times), after printing the indices and the numbers of clusters."""
    wine, digits = load_wine(), load_digits()
    yield _row("mean shift, wine (178, 13)", StandardScaler().fit_transform(wine.data), wine.target, 0.8)
    yield _row("mean shift, digits (1797, 64)", digits.data, digits.target, 0.6)


def _row(case: str, X: np.ndarray, truth: np.ndarray, share: float) -> tuple[str, dict[str, float]]:
    radius = share * estimate_bandwidth(X, quantile=QUANTILE)
    ours = lambda: MeanShift(bandwidth=radius / RADIUS_PER_BANDWIDTH).fit(X)  # noqa: E731
    ours()
    model, seconds = _timed(ours)
    with threadpool_limits(1):  # with more its threads wait for each other, and it is slower by far on a busy machine
        flat, theirs = _timed(lambda: FlatMeanShift(bandwidth=radius).fit(X))
    for name, fitted in (("Gaussian", model), ("flat", flat)):
        index = adjusted_rand_score(truth, fitted.labels_)
        print(f"  {case}, {name}: {len(fitted.cluster_centers_)} clusters, adjusted Rand index {index:.3f}")
    return case, {"scikit-learn": theirs / seconds}


def _timed(call: Callable):
    begun = time.perf_counter()
    return call(), time.perf_counter() - begun
