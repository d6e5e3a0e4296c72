"""Mean shift: clusters are the basins of the maxima of a kernel density."""

import warnings
from typing import Any

import numpy as np

from .._check import as_float, count, one_of, positive
from .._jax import in_double
from .._shown import shown
from .grouping import group, means
from .shift import Kernel, blur, climb, step_of

PARAMETERS = ("beta", "bandwidth", "blurring", "geometry", "step", "tol", "max_iter", "merge_tolerance")


class MeanShift:
    """Mean shift with a Gaussian kernel, as an estimator with the interface of scikit-learn (FORMULAS §2).

    A point moves to the mean of the data around it, `x <- sum_j w_j k(x,y_j) y_j / sum_j w_j k(x,y_j)`,
    `k = e^{-beta|x-y|^2/2}`: a step of length 1/beta of `x' = ∇ log(K * mu)(x)`. In classical mean shift the data mu are
    fixed, and each point climbs to a maximum of their kernel density. In *blurring* mean shift the data move too: this is
    attention without a residual. On the sphere, where the mean is normalized, it is beta times the SA flow.

    Args:
        beta: precision of the kernel; on the sphere the kernel is `e^{beta<x,y>}`.
        bandwidth: h, as an alternative to `beta = 1/h^2`. If neither is given, the normal reference rule for the gradient
            of a density is used: `h = s (4/((k+4) n))^{1/(k+6)}`, where s^2 is the mean variance in the k dimensions (d, or
            d-1 on the sphere). It is good in a few dimensions and too small in tens of them. n is the number of points, or
            the sum of the weights, which count points as in scikit-learn; for weights that sum to 1 it is the effective
            number `1/sum_i w_i^2`.
        blurring: if True, the data move too.
        geometry: "euclidean", or "sphere" for points of length 1.
        step: the fraction of each shift that is applied, in (0, 1]. On the sphere, blurring with `step = h/(1+h)` is a
            Post-LN layer of step h: one half is a Transformer layer.
        tol: a point is at rest when its step is shorter than this, in bandwidths; 1e-7 by default, and 1e-2 when
            blurring, where clusters at distance d never stop but approach each other like `e^{-beta d^2/2}`.
        max_iter: maximum number of shifts; if it is not enough, there is a RuntimeWarning.
        merge_tolerance: maximum diameter of the end points of one cluster, in bandwidths.

    Attributes:
        labels_: (n,) cluster of each point. Cluster 0 is the heaviest; equally heavy clusters are sorted by coordinates.
        cluster_centers_: (k, d) the maxima, or the points where the data met.
        n_iter_: number of shifts.
        beta_: the precision used.

    Example:
        >>> import numpy as np
        >>> from tokenfield.clustering import MeanShift
        >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 20, axis=0)
        >>> MeanShift(bandwidth=1.5).fit(X).cluster_centers_
        array([[-0.26944641,  0.13658721],
               [-0.08330109,  9.13770912],
               [ 9.38050364,  0.23603474]])
    """

    def __init__(
        self,
        beta: float | None = None,
        bandwidth: float | None = None,
        blurring: bool = False,
        geometry: str = "euclidean",
        step: float = 1.0,
        tol: float | None = None,
        max_iter: int = 3000,
        merge_tolerance: float = 1e-2,
    ):
        self.beta = beta
        self.bandwidth = bandwidth
        self.blurring = blurring
        self.geometry = geometry
        self.step = step
        self.tol = tol
        self.max_iter = max_iter
        self.merge_tolerance = merge_tolerance

    @in_double
    def fit(self, X, y: None = None, sample_weight=None) -> "MeanShift":
        """Find the clusters of the points X (n, d), with weights (n,) >= 0 if given; y is ignored."""
        points = self._points("X", X)
        weights, number = _weights(sample_weight, len(points))
        self.beta_, self.n_features_in_ = self._precision(points, weights, number), points.shape[1]
        kernel, tol, max_iter, merge = self._settings()
        sphere = self.geometry == "sphere"
        self._shift = np.zeros(points.shape[1]) if sphere else weights @ points
        points = points - self._shift
        if self.blurring:
            self._history, self.n_iter_, rests = blur(points, weights, kernel, tol, max_iter)
            ends, moving = self._traced(points, kernel), 0 if rests else len(points)
        else:
            self._history = [(points, weights)]
            ends, self.n_iter_, moving = climb(points, points, weights, kernel, tol, max_iter)
        _warn(moving, max_iter)
        groups = group(ends, merge * kernel.bandwidth)
        centers, masses = means(ends, weights, groups)
        places = np.round((centers + self._shift).T[::-1], 9)  # so that the order of the data does not matter
        order = np.lexsort((*places, -np.round(masses, 12)))
        self._centers = centers[order] / (np.linalg.norm(centers[order], axis=1, keepdims=True) if sphere else 1)
        self.cluster_centers_, self.labels_ = self._centers + self._shift, np.argsort(order)[groups]
        return self

    def fit_predict(self, X, y: None = None, sample_weight=None) -> np.ndarray:
        """Fit, and return `labels_`."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def predict(self, X) -> np.ndarray:
        """Return the cluster (m,) to which each of the new points X (m, d) moves; new points do not move the data."""
        if not hasattr(self, "labels_"):
            raise _not_fitted()("predict needs a fitted MeanShift: call fit(X) first")
        points = self._points("X", X)
        if points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {points.shape[1]} features, but MeanShift is expecting {self.n_features_in_} features as input, as in fit"
            )
        kernel, tol, max_iter, _ = self._settings()
        points = points - self._shift
        if self.blurring:
            ends = self._traced(points, kernel)
        else:
            ends, _, moving = climb(points, *self._history[0], kernel, tol, max_iter)
            _warn(moving, max_iter)
        return np.array([np.argmin(((self._centers - end) ** 2).sum(axis=1)) for end in ends], int)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> "MeanShift":
        """Change arguments of the constructor."""
        for name, value in params.items():
            if name not in PARAMETERS:
                raise ValueError(f"set_params: {shown(name)} is not a parameter, use one of {', '.join(PARAMETERS)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator. Only scikit-learn calls this method, so the import succeeds."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type="clusterer", target_tags=TargetTags(required=False), input_tags=InputTags())

    def __repr__(self) -> str:
        return f"MeanShift({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def _points(self, name: str, X) -> np.ndarray:
        one_of("geometry", self.geometry, ("euclidean", "sphere"))
        points = _matrix(name, X)
        if self.geometry == "euclidean":
            return points
        lengths = np.linalg.norm(points, axis=1)
        worst = lengths[np.argmax(np.abs(lengths - 1))]
        if abs(worst - 1) > 1e-6 or points.shape[1] < 2:
            raise ValueError(
                f'{name} must have rows of length 1 in R^d, d >= 2, with geometry="sphere", got a row of length '
                f"{worst:.6g} in R^{points.shape[1]}"
            )
        return points / lengths[:, None]

    def _precision(self, points: np.ndarray, weights: np.ndarray, number: float) -> float:
        if self.beta is not None and self.bandwidth is not None:
            raise ValueError(
                f"give beta or bandwidth (beta = 1/bandwidth^2), not both: got {shown(self.beta)} and {shown(self.bandwidth)}"
            )
        if self.beta is not None:
            return positive("beta", self.beta)
        h = (
            _reference(points, weights, number, self.geometry)
            if self.bandwidth is None
            else positive("bandwidth", self.bandwidth)
        )
        return h**-2

    def _settings(self) -> tuple[Kernel, float, int, float]:
        step = positive("step", self.step)
        if step > 1:
            raise ValueError(f"step must lie in (0, 1], got {shown(self.step)}")
        tol = positive("tol", self.tol if self.tol is not None else 1e-2 if self.blurring else 1e-7)
        merge = positive("merge_tolerance", self.merge_tolerance)
        return Kernel(self.beta_, self.geometry == "sphere", step), tol, count("max_iter", self.max_iter), merge

    def _traced(self, points: np.ndarray, kernel: Kernel) -> np.ndarray:
        """Return where points without weight end when they follow the blurring data."""
        for keys, weights in self._history[:-1]:
            points = step_of(points, keys, weights, kernel)
        return points


def _matrix(name: str, X: Any) -> np.ndarray:
    """Return points as a matrix, or raise ValueError with the messages that scikit-learn's checks expect."""
    kind = np.dtype(getattr(X, "dtype", float)).kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} must be real, got dtype {X.dtype}")
    points = np.asarray(X, float) if kind == "O" else X  # NumPy's TypeError says which entry is not a number
    try:
        points = np.asarray(as_float(name, points, 2), float)
    except ValueError as error:
        hint = {
            "must be a matrix": ". Reshape your data, e.g. X.reshape(-1, 1)",
            "must be finite": ": NaN and inf have no cluster",
        }
        raise ValueError(
            str(error) + next((text for phrase, text in hint.items() if phrase in str(error)), "")
        ) from None
    if 0 in points.shape:
        raise ValueError(
            f"{name} must hold at least one point of at least one coordinate, got {points.shape[0]} sample(s) and "
            f"{points.shape[1]} feature(s) (shape={points.shape}) while a minimum of 1 is required."
        )
    return points


def _not_fitted() -> type[Exception]:
    """Return scikit-learn's NotFittedError if it is installed, otherwise ValueError."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError
    return NotFittedError


def _weights(weights, n: int) -> tuple[np.ndarray, float]:
    """Return weights that sum to 1, and the number of points that they represent."""
    if weights is None:
        return np.full(n, 1 / n), n
    weights = np.asarray(as_float("sample_weight", weights, 1), float)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have one entry for each of the {n} points, got {weights.shape}")
    total = float(weights.sum())
    if weights.min() < 0 or total == 0:
        least = shown(float(weights.min()))
        raise ValueError(f"sample_weight must be >= 0 and not all zero, got a smallest entry of {least}")
    probabilities = weights / total
    return probabilities, 1 / (probabilities @ probabilities) if abs(total - 1) < 1e-9 else total


def _reference(points: np.ndarray, weights: np.ndarray, n: float, geometry: str) -> float:
    """Return the bandwidth by the normal reference rule for the gradient (Chacón, Duong and Wand 2011); 1 for equal points."""
    k = points.shape[1] - (geometry == "sphere")
    variance = weights @ ((points - weights @ points) ** 2).sum(axis=1) / k
    return float(np.sqrt(variance) * (4 / ((k + 4) * n)) ** (1 / (k + 6))) if variance > 0 else 1.0


def _warn(moving: int, max_iter: int) -> None:
    if moving:
        warnings.warn(
            f"mean shift: {moving} points still move after max_iter = {max_iter} shifts", RuntimeWarning, stacklevel=3
        )
