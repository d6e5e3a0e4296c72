"""Predictions of theory for a run, compared with its measurements. Only formulas that hold for the run are used."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..noise import SphereNoise
from ..normalization import AbstractSphereNorm, PostLN
from ..observables import clusters, mean_cosine, order_parameter
from ..observables.cluster_text import cluster_text
from ..plotting.frames import Frames, read_frames
from ..results import Trajectory
from ..states import Equiangular, Tokens
from ..theory import critical_kappa, fit_terminal_law, pair_merge_time, stationary_states, terminal_law, time_to_cosine
from .run_sentences import decimals, time_text
from .story import Comparison

ABOUT = "Theory needs no simulation for these; the formulas are those of `tokenfield predict`."
NONE = "No closed formula describes this run, so there is nothing to compare it with. See `tokenfield predict` for what is known."
STEPS = 60  # maximum number of saved states that are evaluated
NEAR, FAR = 1e-9, 1e-3  # the range of 1 − ρ in which the final rate of approach is fitted
EQUAL = 1e-6  # spread of cosines up to which tokens count as equiangular
PAIR = 1e-6  # tolerance within which the tokens of a cluster count as a point
HALF = 0.5  # the last part of the run, over which noisy order is averaged


def comparisons(traj: Trajectory, numbers: Mapping[str, Any]) -> list[Comparison]:
    """Return predictions and measurements, for the formulas that hold for this run.

    Args:
        traj: a run.
        numbers: its `summary`.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.Equiangular(0.0, n=8), t1=2.0)
        >>> [row.what for row in comparisons(traj, tkf.report.summary(traj))]
        ['time from mean cosine 0 to 0.91']
    """
    try:
        model = traj.model
    except ValueError:  # not recorded in full, so there is no prediction
        return []
    state = traj.dataset.attrs["state"]
    continuous = "method" in traj.config or "rtol" in traj.config
    beta = _isotropic_beta(traj, model)
    if beta is None or not continuous:
        return []
    kernel = "softmax" if type(model.attention).__name__ == "Softmax" else "unnormalized"
    merged = (
        [] if model.noise is not None or model.fisher_rao is not None else list(_of_merge(traj, model, beta, kernel))
    )
    if traj.log_time_unit != 0:
        return merged
    if state == Equiangular.__name__:
        return list(_of_equal_angles(traj, model.norm, beta, kernel))
    if state != Tokens.__name__ or not numbers["n"] > 1:
        return []
    frames = read_frames(traj, STEPS)
    if model.noise is not None:
        return list(_of_noise(frames, model, beta, kernel))
    rows = [
        *_of_energy(frames, beta),
        *_of_clusters(traj, frames, numbers),
        *merged,
        *_of_equal_angles(traj, model.norm, beta, kernel),
    ]
    return rows if model.fisher_rao is not None else [*rows, *_of_approach(traj, frames, model.norm, beta, kernel)]


def _isotropic_beta(traj: Trajectory, model: Any) -> float | None:
    """Return beta of softmax or unnormalized attention with A = beta I and V = I under a norm without gain; otherwise None."""
    from ..flows.energy import energy_beta

    if not isinstance(model.norm, AbstractSphereNorm) or not model.norm.isotropic:
        return None
    return energy_beta(model, traj.dataset.sizes.get("coordinate", 1))


def _of_energy(frames: Frames, beta: float) -> Iterator[Comparison]:
    from ..plotting.energies import curves_of

    values = curves_of(frames, beta).lines[0].values
    fall = float(np.max(-np.diff(values), initial=0.0))
    never = fall <= 1e-6 * float(np.abs(values).max())
    seen = f"goes from {decimals(values[0])} to {decimals(values[-1])}"
    remark = "no fall between saved states" if never else f"falls by up to {fall:.2g}"
    yield Comparison("interaction energy", "never falls", seen, never, remark)


def _of_clusters(traj: Trajectory, frames: Frames, numbers: Mapping[str, Any]) -> Iterator[Comparison]:
    merged = len(numbers["clusters"]) == 1
    at = time_text(traj, numbers["state_time"])
    remark = "" if merged else f"not reached by time {at}: run longer"
    yield Comparison(
        "clusters in the long run",
        "1, from almost every start",
        cluster_text(numbers["clusters"]),
        merged or None,
        remark,
    )


def _of_merge(traj: Trajectory, model: Any, beta: float, kernel: str) -> Iterator[Comparison]:
    """Compare the time of the last merge with that of two point masses, from the first saved state with two clusters."""
    merges = [event.detail for event in traj.events if event.kind == "merge"]
    if (
        not merges
        or not isinstance(model.norm, PostLN)
        or len(merges[-1]["masses"]) != 2
        or sum(merges[-1]["masses"]) < 1 - 1e-9
    ):
        return
    begun = merges[-2]["log_time"] if len(merges) > 1 else -math.inf
    between = np.flatnonzero((traj.log_times >= begun) & (traj.log_times < merges[-1]["log_time"]))
    for k in between[[2**j - 1 for j in range(len(between).bit_length())]]:  # a few: clusters of many tokens take time
        pair = clusters(traj.state(int(k)), tol=PAIR)
        if len(pair.sizes) == 2:
            break
    else:
        return
    rho, halfway = float(pair.centers[0] @ pair.centers[1]), 1 - math.log(2) / beta  # where the energy is halfway
    if not -1 < rho < halfway:
        return
    waited = pair_merge_time(rho, halfway, beta, (pair.masses[0], pair.masses[1]), kernel, log=True)
    expected, measured = np.logaddexp(traj.log_times[k], waited), merges[-1]["log_time"]
    off = abs(math.expm1(measured - expected))
    predicted, seen = (time_text(traj, math.exp(min(each, 709.0)), each) for each in (expected, measured))
    yield Comparison("time of the last merge", predicted, seen, off < 0.02, f"{_percent(off)} apart")


def _of_equal_angles(traj: Trajectory, norm: Any, beta: float, kernel: str) -> Iterator[Comparison]:
    """Compare the time at which equiangular tokens reach a cosine."""
    start, states = traj.state(0), traj.states
    n, radius = start.n, 1.0
    if isinstance(start, Tokens):
        x = np.asarray(start.x)
        lengths = np.linalg.norm(x, axis=1)
        unit = x / lengths[:, None]
        cosines = (unit[:STEPS] @ unit.T)[np.triu_indices(min(n, STEPS), 1, n)]
        equal_weights = float(np.ptp(np.asarray(start.weights))) <= 1e-12
        if n < 2 or np.ptp(cosines) > EQUAL or np.ptp(lengths) > EQUAL or not equal_weights:
            return
        radius = float(lengths[0])
    else:
        radius = float(start.radius)
    rho = np.array([float(mean_cosine(state)) for state in states])
    target = min(float(rho[-1]), 0.99)
    if not rho[0] < target or (np.diff(rho) <= 0).any():
        return
    reached = float(np.interp(-math.log(1 - target), -np.log(np.maximum(1 - rho, 1e-300)), traj.times))
    expected = time_to_cosine(target, n, beta, norm, float(rho[0]), kernel, radius)
    off = abs(reached - expected) / expected
    yield Comparison(
        f"time from mean cosine {decimals(rho[0]).removesuffix('.00')} to {decimals(target)}",
        f"{expected:.5g}",
        f"{reached:.5g}",
        off < 0.02,
        f"{_percent(off)} apart",
    )


def _of_approach(traj: Trajectory, frames: Frames, norm: Any, beta: float, kernel: str) -> Iterator[Comparison]:
    """Compare the law by which the last cosines tend to 1."""
    law = terminal_law(frames.n, beta, norm, kernel)
    gap = np.array([1 - mean_cosine(frames.state(k)) for k in range(len(frames.times))])
    late = (gap > NEAR) & (gap < FAR) & (frames.times > 0)
    if late.sum() < 3 or not math.isfinite(law.rate) or (np.diff(gap[late]) >= 0).any():
        return
    rate = fit_terminal_law(frames.times[late], gap[late], law.kind)
    off = abs(rate - law.rate) / law.rate
    form = {"exponential": "e^{-rate t}", "power": "t^{-rate}"}.get(law.kind, "e^{-rate √t}")
    what = f"rate at which 1 − mean cosine falls at the end, like {form}"
    yield Comparison(what, f"{law.rate:.4g}", f"{rate:.4g}", off < 0.05 or None, f"{_percent(off)} apart")


def _of_noise(frames: Frames, model: Any, beta: float, kernel: str) -> Iterator[Comparison]:
    """Compare the order of noisy tokens on the sphere with the stationary law of very many tokens."""
    if not isinstance(model.noise, SphereNoise) or not isinstance(model.norm, PostLN):
        return
    kappa, d = float(model.noise.kappa), frames.d
    critical = critical_kappa(beta, d, kernel)
    laws = [law for law in stationary_states(beta, kappa, d, kernel) if law.stable and law.mode <= 1]
    if not laws:
        return
    late = frames.times >= HALF * frames.times[-1]
    measured = float(np.mean([order_parameter(frames.state(k)) for k in np.flatnonzero(late).tolist()]))
    margin = 3 / math.sqrt(frames.n)
    nearest = min(laws, key=lambda law: abs(law.m_1 - measured))
    predicted_text = " or ".join(f"{law.m_1:.3f}" for law in laws)
    side = "above" if kappa > critical else "below"
    what = f"order parameter in the long run (κ = {kappa:g} is {side} the critical {critical:.4g})"
    close = abs(nearest.m_1 - measured) <= margin
    remark = f"{frames.n} tokens fluctuate by about {1 / math.sqrt(frames.n):.2g}"
    yield Comparison(what, predicted_text, f"{measured:.3f}", True if close else None, remark)


def _percent(part: float) -> str:
    if part < 1e-4:
        return "less than 0.01 %"
    return f"{100 * part:.1g} %" if part < 0.1 else f"{100 * part:.0f} %"
