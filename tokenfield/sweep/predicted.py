"""Predictions of theory for a sweep: times, thresholds and curves at points of its grid."""

from collections.abc import Mapping

import numpy as np

from ..attention import Softmax
from ..config import build
from ..config.run import RunConfig
from ..normalization import PostLN
from ..states import equiangular_tokens
from ..theory.names import KERNELS
from .plan import Plan, Value


def aligned_times(plan: Plan, point: Mapping[str, Value], axis: str, threshold: float) -> np.ndarray | None:
    """Return the time at which equiangular, initially orthogonal tokens reach a cosine, along an axis (FORMULAS §7)."""
    if plan.theory != "equiangular":
        return None
    from ..theory.equiangular import time_to_cosine

    def time(value: Value) -> float:
        config = plan.config({**point, axis: value})
        if config.attention.kind not in KERNELS:
            return float("nan")
        equal = config.tokens.made_by is equiangular_tokens or plan.state == "equiangular"
        beta, norm, rho = _beta(config), config.norm.make(), config.tokens.rho if equal else 0.0
        return float(time_to_cosine(threshold, config.tokens.n, beta, norm, rho, attention=config.attention.kind))

    return np.array([time(value) for value in plan.axes[axis].expanded()])


def cosine_curve(plan: Plan, point: Mapping[str, Value], times: np.ndarray) -> np.ndarray | None:
    """Return the cosine of equiangular, initially orthogonal tokens over time (FORMULAS §7)."""
    if plan.theory != "equiangular":
        return None
    from ..driver import simulate
    from ..states import Equiangular

    config = plan.config(point)
    t1 = float(times[-1])
    run = simulate(build.model(config), Equiangular(0.0, config.tokens.n), t1, save_at=times, progress=False)
    return run.dataset["rho"].values


def threshold(plan: Plan, point: Mapping[str, Value], axis: str) -> float | None:
    """Return the predicted transition on an axis: the critical kappa (FORMULAS §10), or gamma (§7)."""
    config = plan.config({**point, axis: plan.axes[axis].expanded()[0]})
    if plan.theory == "critical_kappa" and axis == "kappa":
        from ..theory.noise import critical_kappa

        kind, beta = config.attention.kind, _beta(config)
        if kind not in KERNELS or config.tokens.d < 2:
            return None
        unit = float(config.attention.make().log_unit) if kind == "unnormalized" else 0.0
        return float(critical_kappa(beta, config.tokens.d, kind, unit))
    if plan.theory == "critical_gamma" and axis == "gamma":
        from ..theory.long_context import critical_gamma

        return float(critical_gamma(config.tokens.rho))
    return None


def thresholds(plan: Plan, point: Mapping[str, Value], axis: str, other: str) -> np.ndarray | None:
    """Return the transition on one axis for every value of another; NaN if theory has none."""
    found = [threshold(plan, {**point, other: value}, axis) for value in plan.axes[other].expanded()]
    if all(place is None for place in found):
        return None
    return np.array([np.nan if place is None else place for place in found])


def curve(plan: Plan, point: Mapping[str, Value], axis: str, observable: str | None) -> np.ndarray | None:
    """Return a quantity with a theoretical value at every point of an axis: first clusters (FORMULAS §8), a layer's cosine (§7)."""
    configs = [plan.config({**point, axis: value}) for value in plan.axes[axis].expanded()]
    if plan.theory == "first_clusters" and observable == "clusters":
        from ..theory.modes import first_clusters

        return np.array([first_clusters(_beta(config), config.tokens.d) for config in configs], float)
    if plan.theory == "critical_gamma" and observable == "mean_cosine" and all(map(_one_layer, configs)):
        from ..theory.long_context import residual_layer_contraction

        values = [(c.tokens.rho, c.tokens.n, _beta(c), c.step) for c in configs]
        return np.array([float(residual_layer_contraction(*value)) for value in values])
    return None


def _one_layer(config: RunConfig) -> bool:
    return config.depth == 1 and config.norm.made_by is PostLN and config.attention.made_by is Softmax


def _beta(config: RunConfig) -> float:
    return config.attention.get("beta", 1.0)
