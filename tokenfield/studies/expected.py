"""What theory expects of a run, beside what was measured, where that takes no time."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..normalization import PostLN
from ..observables import mean_cosine, order_parameter
from ..results import Trajectory
from ..results.describe import energy_beta
from ..theory.equiangular import fit_terminal_law, terminal_law, time_to_cosine
from ..theory.favored import which_law
from ..theory.noise import critical_kappa

LATE = 1e-10, 1e-3
"""A terminal law is fitted where 1 - cosine lies between these: all tokens are in one cluster, and rounding is far."""


class Expectation(NamedTuple):
    """A number of theory and the same number of a run.

    Attributes:
        what: the quantity.
        predicted: what theory says; a text where theory gives no number.
        measured: what the run says.
    """

    what: str
    predicted: float | str
    measured: float

    def __str__(self) -> str:
        if isinstance(self.predicted, str):
            return f"{self.predicted}; measured {self.what} {self.measured:.3g}"
        return f"{self.what}: predicted {self.predicted:.4g}, measured {self.measured:.4g}"


def expectation(traj: Trajectory) -> Expectation | None:
    """Compare a run with a formula that applies to it; None if there is no such formula, or it would take long.

    It is known for Softmax and Unnormalized attention with A = beta I and V = I: the time to reach a cosine for `Equiangular`
    tokens, the side of the critical noise for noisy tokens under Post-LN, and the rate at which one cluster contracts.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.Equiangular(rho=0.0, n=16), t1=3.0, save_at=3)
        >>> print(tkf.studies.expectation(traj))
    """
    kind = traj.dataset.attrs["state"]
    if kind not in ("Tokens", "Equiangular") or len(traj.models) != 1:
        return None
    if traj.log_time_unit != 0 or "step" in traj.config or traj.models[0].get("fisher_rao") is not None:
        return None
    beta = energy_beta(traj.models[0], traj.dataset.sizes.get("coordinate", 1))
    try:
        model = traj.model
    except ValueError:  # the record has not all of it
        return None
    if beta is None or beta != model.beta:  # not isotropic, or with a gain
        return None
    if kind == "Equiangular":
        return _equiangular(traj, model, beta)
    return _one_cluster(traj, model, beta) if model.noise is None else _noisy(traj, model, beta)


def _equiangular(traj: Trajectory, model: Any, beta: float) -> Expectation | None:
    first, rho = traj.state(0), float(traj.final.rho)
    if not float(first.rho) < rho < 1 - 1e-9:
        return None
    start = float(first.rho), model.attention.kind, float(first.radius)
    time = time_to_cosine(rho, first.n, beta, model.norm, *start)
    return Expectation(f"time to reach the cosine {rho:.4g}", time, float(traj.times[-1]))


def _noisy(traj: Trajectory, model: Any, beta: float) -> Expectation | None:
    if not isinstance(model.norm, PostLN) or type(model.noise).__name__ != "SphereNoise":
        return None
    d, kernel, kappa = traj.dataset.sizes["coordinate"], model.attention.kind, float(model.noise.kappa)
    threshold = critical_kappa(beta, d, kernel)
    side = which_law(beta, d, kernel, kappa, math.log(threshold))
    later = range(len(traj.times) // 2, len(traj.times), 1 + len(traj.times) // 40)
    measured = np.mean([order_parameter(traj.state(k)) for k in later])
    return Expectation("order parameter", f"critical κ = {threshold:.4g}; κ = {kappa:g} is {side}", float(measured))


def _one_cluster(traj: Trajectory, model: Any, beta: float) -> Expectation | None:
    n = traj.dataset.sizes["token"]
    if n < 2 or np.ptp(traj.final.weights) > 1e-12 or "coarsening" in traj.config.get("reductions", ()):
        return None
    chosen = np.unique(np.linspace(0, len(traj.times) - 1, min(len(traj.times), 60)).round().astype(int))
    gap = np.array([1 - mean_cosine(traj.state(int(k))) for k in chosen])
    late = (gap > LATE[0]) & (gap < LATE[1])
    law = terminal_law(n, beta, model.norm, model.attention.kind)
    if late.sum() < 4 or law.kind != "exponential" or not math.isfinite(law.rate):
        return None
    rate = fit_terminal_law(traj.times[chosen][late], gap[late], law.kind)
    return Expectation("rate at which the cluster contracts", law.rate, rate)
