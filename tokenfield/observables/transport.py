"""Distances between measures."""

import jax
import jax.numpy as jnp
import numpy as np

from .._check import one_of, positive
from .._shown import shown
from ..spaces import AbstractSpace, Euclidean, Sphere
from ..states import CircleDensity, Gaussian, SphereDensity, Tokens, ZonalDensity
from ..states.base import require_one
from .quantiles import along_meridians, around_the_circle

MOST_PAIRS = 1 << 24
Measure = Tokens | Gaussian | CircleDensity | ZonalDensity


def wasserstein(mu: Measure, nu: Measure, p: float = 2.0, metric: str | None = None) -> float:
    """Return the exact Wasserstein distance `W_p(mu, nu) = (min over couplings of ∬ dist^p)^{1/p}`.

    Equal numbers of equally weighted tokens are matched by an assignment (SciPy), tokens with other weights by a linear
    program, and tokens on the line by sorting. Any two tokens or densities on the circle are compared by their quantile
    functions (with angles as distances, for any number of tokens), as are zonal densities about the same axis. Two Gaussians
    have a closed form (p = 2). Sample other states to tokens first.

    Args:
        mu, nu: `Tokens`, `Gaussian`, `CircleDensity` or `ZonalDensity`, in the same space.
        p: exponent, p >= 1.
        metric: "euclidean", or "geodesic" for distances within the space of the tokens (in R^d, the angle between directions).
            The default is "geodesic" if mu or nu is a density or has tokens of a given space, otherwise "euclidean".

    Example:
        >>> import tokenfield as tkf
        >>> tkf.wasserstein(tkf.uniform_sphere(64, 3, seed=0), tkf.uniform_sphere(64, 3, seed=1), p=1)
        0.4111818454671007
    """
    if positive("p", p) < 1:
        raise ValueError(f"p must be at least 1, got {shown(p)}")
    for name, measure in (("mu", mu), ("nu", nu)):
        if not isinstance(measure, (Measure, SphereDensity)):
            raise TypeError(f"{name} must be a state such as Tokens, Gaussian or CircleDensity, got {shown(measure)}")
        require_one(name, measure)
    if mu.d != nu.d:
        raise ValueError(f"mu and nu must live in the same space, got R^{mu.d} and R^{nu.d}")
    kinds = {type(mu), type(nu)}
    space = _common_space(mu, nu)
    if metric is None:
        metric = "geodesic" if kinds & {CircleDensity, ZonalDensity} or space is not None else "euclidean"
    one_of("metric", metric, ("euclidean", "geodesic"))
    match mu, nu, metric:
        case Gaussian(), Gaussian(), "euclidean" if p == 2:
            return _gaussians(mu, nu)
        case ZonalDensity(), ZonalDensity(), "geodesic":
            return along_meridians(mu, nu, p)
        case ((Tokens() | CircleDensity()), (Tokens() | CircleDensity()), "geodesic") if mu.d == 2 and space is None:
            return around_the_circle(mu, nu, p)
        case Tokens(), Tokens(), _:
            return _tokens(mu, nu, p, metric, space or Sphere())
    names = f"{type(mu).__name__} and {type(nu).__name__}"
    raise ValueError(
        f"wasserstein of {names} with p = {p:g} and metric {metric} is not supported: sample both to tokens"
    )


def _common_space(mu: Measure, nu: Measure) -> AbstractSpace | None:
    """Return the space that was given to tokens of mu and nu, if any, other than R^d and the sphere."""
    given = {type(m): m for each in (mu, nu) if isinstance(each, Tokens) and (m := each.given_space) is not None}
    if len(given) > 1:
        names = " and ".join(kind.__name__ for kind in given)
        raise ValueError(f"mu and nu must live in the same space, got {names}")
    space = next(iter(given.values()), None)
    return None if isinstance(space, (Sphere, Euclidean)) else space


def _tokens(mu: Tokens, nu: Tokens, p: float, metric: str, space: AbstractSpace) -> float:
    a, b = np.asarray(mu.weights), np.asarray(nu.weights)
    if mu.d == 1 and metric == "euclidean":
        return _on_the_line(np.asarray(mu.x)[:, 0], np.asarray(nu.x)[:, 0], a, b, p)
    if mu.n * nu.n > MOST_PAIRS:
        raise ValueError(f"wasserstein takes at most {MOST_PAIRS} pairs, got {mu.n} x {nu.n}: use a subset")
    cost = _distances(np.asarray(mu.x), np.asarray(nu.x), metric, space) ** p
    if mu.n == nu.n and np.ptp(a) <= 1e-15 and np.ptp(b) <= 1e-15:
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(cost)
        return float(cost[rows, columns].mean() ** (1 / p))
    return float(max(_linear_program(cost, a, b), 0.0) ** (1 / p))


def _gaussians(mu: Gaussian, nu: Gaussian) -> float:
    """Return W_2 from `W_2² = |m - m'|² + min_U |L - L' U|²`, U orthogonal, with covariances `L L^T` and `L' L'^T` (Bures)."""
    (s, S), (t, T) = (np.linalg.eigh(np.asarray(each.cov)) for each in (mu, nu))
    L, M = S * np.sqrt(np.maximum(s, 0)), T * np.sqrt(np.maximum(t, 0))
    left, _, right = np.linalg.svd(M.T @ L)
    shift = np.asarray(mu.mean) - np.asarray(nu.mean)
    return float(np.sqrt(shift @ shift + ((L - M @ left @ right) ** 2).sum()))


def _distances(x: np.ndarray, y: np.ndarray, metric: str, space: AbstractSpace) -> np.ndarray:
    from scipy.spatial.distance import cdist

    if metric == "euclidean":
        return cdist(x, y)
    if isinstance(space, Sphere):
        unit = lambda z: z / np.linalg.norm(z, axis=1, keepdims=True)  # noqa: E731
        return 2 * np.arcsin(np.minimum(cdist(unit(x), unit(y)) / 2, 1))
    return np.asarray(jax.lax.map(lambda row: space.distance(row, jnp.asarray(y)), jnp.asarray(x)))


def _linear_program(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    n, m = cost.shape
    rows = kron(eye_array(n), np.ones((1, m)))
    columns = kron(np.ones((1, n)), eye_array(m))
    # One constraint follows from the others; without it, rounding errors in the masses are harmless.
    constraints = vstack([rows, columns]).tocsr()[:-1]
    result = linprog(cost.ravel(), A_eq=constraints, b_eq=np.concatenate([a, b / b.sum() * a.sum()])[:-1])
    if not result.success:
        raise RuntimeError(f"the transport problem could not be solved: {result.message}")
    return float(result.fun)


def _on_the_line(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, p: float) -> float:
    """Return W_p on the line: integrate `|F^{-1} - G^{-1}|^p` over the common steps of the two quantile functions."""
    order_x, order_y = np.argsort(x), np.argsort(y)
    levels_x, levels_y = np.cumsum(a[order_x]), np.cumsum(b[order_y])
    levels = np.unique(np.concatenate([levels_x, levels_y]))
    middles = levels - np.diff(levels, prepend=0.0) / 2
    quantile = lambda z, order, steps: z[order][np.minimum(np.searchsorted(steps, middles), len(z) - 1)]  # noqa: E731
    gaps = np.abs(quantile(x, order_x, levels_x) - quantile(y, order_y, levels_y))
    return float((np.diff(levels, prepend=0.0) @ gaps**p) ** (1 / p))
