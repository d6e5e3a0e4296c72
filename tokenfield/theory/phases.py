"""The phase diagram of noisy tokens in the plane of beta and kappa."""

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._check import count, positive
from .._shown import shown
from .branches import equal_energy, ordered
from .continuation import Path, between, trace
from .names import MOST_DIMENSION, kernel_name
from .noise import beta_star, critical_kappa, transition
from .self_consistency import SelfConsistency

if TYPE_CHECKING:
    import xarray

LABELS = {
    "beta": "inverse temperature",
    "kappa": "inverse noise",
    "critical_kappa": "inverse noise above which the uniform law is unstable",
    "fold": "inverse noise above which an ordered law exists",
    "equal": "inverse noise at which free energies are equal",
    "region": "region, an index into the attribute regions",
    "order_parameter": "order parameter of the stable ordered law",
}
REGIONS = ("uniform only", "both, uniform favored", "both, order favored", "order only")


def phase_diagram(
    betas: Sequence[float] | np.ndarray,
    kappas: Sequence[float] | np.ndarray,
    d: int = 2,
    attention: str = "unnormalized",
) -> "xarray.Dataset":
    """Return where noisy tokens are disordered, ordered, or may be either, over beta and kappa (FORMULAS §10).

    For each beta, the branch of one-peak laws is continued from `critical_kappa`, and the law of each cell is refined from it by
    Newton's method. "Favored" means the lower free energy `(1/kappa) ∫ p log p - ½ ∬ W`. Softmax has no region of two stable laws.

    Args:
        betas: inverse temperatures, >= 0.
        kappas: inverse noises, > 0.
        d: dimension of the tokens.
        attention: "unnormalized" or "softmax".

    Returns:
        a dataset. Over beta: `critical_kappa` (the uniform law is unstable above it), `fold` (an ordered law exists above it),
        `equal` (equal free energies); the last two equal critical_kappa if the transition is continuous. Over beta and
        kappa: `region`, an index into the attribute `regions`, and `order_parameter`, that of the stable ordered law
        (0 where there is none, NaN where it is too concentrated to be computed). The attributes `beta_star` and
        `kappa_star` are the tricritical point (inf and NaN for softmax).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.phase_diagram([1.0, 4.0], [0.3, 0.39, 3.0], d=2)["region"].values
        array([[0, 0, 3],
               [0, 1, 3]], dtype=int8)
    """
    import xarray

    from ..results.labels import with_labels
    from ..results.provenance import provenance

    d, attention = count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    beta_axis = _axis("betas", betas, or_zero=True)
    kappa_axis = _axis("kappas", kappas, or_zero=False)
    lines = np.zeros((3, len(beta_axis)))
    m_1, region = np.zeros((len(beta_axis), len(kappa_axis))), np.zeros((len(beta_axis), len(kappa_axis)), np.int8)
    for i, beta in enumerate(beta_axis):
        unit = critical_kappa(beta, d, attention)
        sigmas = np.log(kappa_axis) - math.log(unit)
        continuous, end = transition(beta, d, attention) == "continuous", max(float(sigmas.max()), 0.0)
        if continuous:
            problem = SelfConsistency(beta, d, attention)
            path = trace(problem, 1, 1, end)
        else:
            problem, path = ordered(beta, d, attention, end)
        fold = 0.0 if continuous else path.points[path.lowest()].sigma
        jump = 0.0 if continuous else equal_energy(problem, path)
        lines[:, i] = unit * np.exp([0.0, fold, jump])
        m_1[i] = _order(problem, path, 0 if continuous else path.lowest(), sigmas, fold)
        region[i] = np.select([sigmas <= fold, sigmas < jump, sigmas < 0], [0, 1, 2], 3)
    star = beta_star(d, attention)
    at_star = critical_kappa(star, d, attention) if math.isfinite(star) else math.nan
    config = {"d": d, "attention": attention, "beta_star": star, "kappa_star": at_star}
    found = xarray.Dataset(
        {
            "critical_kappa": ("beta", lines[0]),
            "fold": ("beta", lines[1]),
            "equal": ("beta", lines[2]),
            "region": (("beta", "kappa"), region),
            "order_parameter": (("beta", "kappa"), m_1),
        },
        {"beta": beta_axis, "kappa": kappa_axis},
        {**provenance(), **config, "regions": json.dumps(REGIONS)},
    )
    return with_labels(found, LABELS)


def _axis(name: str, values: Sequence[float] | np.ndarray, or_zero: bool) -> np.ndarray:
    axis = np.atleast_1d(np.asarray(values, float))
    if axis.ndim != 1 or not len(axis) or (np.diff(axis) <= 0).any():
        raise ValueError(f"{name} must be a list of increasing numbers, got {shown(values)}")
    return np.array([positive(name, value, or_zero=or_zero) for value in axis])


def _order(problem: SelfConsistency, path: Path, start: int, sigmas: np.ndarray, fold: float) -> np.ndarray:
    """Return m_1 of the stable ordered law at each sigma, by Newton's method from the branch after its fold."""
    after = path.points[start:]
    known, found = np.array([point.sigma for point in after]), np.zeros(len(sigmas))
    roots = np.array([problem.order(point.x) for point in after])
    for j, sigma in enumerate(sigmas):
        if sigma <= fold:
            continue
        k = int(np.searchsorted(known, sigma))
        if k == len(known):
            found[j] = math.nan
            continue
        if k == 0:  # between a continuous transition and the first point of the branch: m_1 grows as a square root
            found[j] = roots[0] * math.sqrt((sigma - fold) / (known[0] - fold))
            continue
        share = (sigma - known[k - 1]) / (known[k] - known[k - 1])
        x = problem.newton(after[k - 1].x + share * (after[k].x - after[k - 1].x), sigma)
        if x is None or not roots[k - 1] < problem.order(x) < roots[k]:  # near a fold, say
            x = between(problem, after[k - 1], after[k], lambda at, sigma=sigma: at.sigma - sigma).x  # type: ignore[misc]
        found[j] = problem.order(x)
    return found
