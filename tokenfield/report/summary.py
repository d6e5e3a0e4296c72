"""The final numbers of a run, as plain data."""

from typing import Any

from ..observables import effective_rank, energy, mean_cosine, normalized_energy, order_parameter
from ..plotting.frames import Frames, final_clusters, read_frames
from ..results import Trajectory
from ..states import Tokens

MOST_PAIRED = 16384  # with more tokens, energy and clusters are those of a random sample
MEASURED = {"order_parameter": order_parameter, "mean_cosine": mean_cosine, "effective_rank": effective_rank}


def summary(traj: Trajectory, tol: float = 1e-3) -> dict[str, Any]:
    """Return the final numbers of a run as plain data: clusters, energy, order, rank, events, steps.

    Numbers are those of the last state (after a numerical overflow, of the last finite one, at `state_time`).
    Under a norm that moves directions, clusters and energy are those of the directions; beta of the energy is the
    model's, times the square of the gain of the norm. A number that does not exist is None.

    Args:
        traj: a run. For a state other than tokens, the result has `state`, those of `order_parameter`, `mean_cosine` and
            `effective_rank` that are defined for it, and the numbers about the run itself.
        tol: tolerance of the clusters.

    Returns:
        A dictionary with these keys:

        - `n`, `d`: number and dimension of the tokens.
        - `cluster_count`, `single_tokens`: number of clusters, each of at least two tokens, and of tokens in no cluster.
          `clusters`: sizes of clusters, largest first, then 1 for each single token. `loose`: number of tokens in components
          that have not collapsed; each of them counts as a single token. `cluster_metric`: "cosine", "distance", or
          "relative distance" (to the root mean square length, for tokens that grow without bound).
        - `energy`, `energy_kind`: "normalized", "centered" (at beta = 0) or None where the model has no energy.
        - `order_parameter`, `mean_cosine`, `effective_rank`.
        - `sampled`: number of tokens in the sample for energy and clusters, None for all (up to 16384).
        - `time`, `state_time`, `time_unit`, `log_time_unit`, `events`, `steps`, `rejected_steps`.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.report.summary(traj)["clusters"]
        [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    if traj.dataset.attrs["state"] != Tokens.__name__:
        return _of_state(traj)
    frames = read_frames(traj, most=2)
    paired = frames.sample(MOST_PAIRED)
    groups, metric = final_clusters(paired, tol)
    value, kind = final_energy(paired, traj.energy_beta)
    last = frames.state(-1)
    several = float(last.weights @ last.weights) < 1
    return {
        "n": frames.n,
        "d": frames.tokens.shape[2],
        "clusters": groups.sizes.tolist(),
        "cluster_count": groups.count,
        "single_tokens": groups.single_tokens,
        "loose": int(groups.loose),
        "cluster_metric": metric,
        "energy": value,
        "energy_kind": kind,
        "order_parameter": None if frames.space.indefinite else order_parameter(last),
        "mean_cosine": mean_cosine(last) if several and not frames.space.indefinite else None,
        "effective_rank": frames.rank(-1),
        "sampled": paired.n if paired.share else None,
        **_of_run(traj, float(frames.times[-1])),
    }


def _of_state(traj: Trajectory) -> dict[str, Any]:
    numbers: dict[str, Any] = {"state": traj.dataset.attrs["state"]}
    for name, measure in MEASURED.items():
        try:
            numbers[name] = measure(traj.final)
        except TypeError:  # not defined for this kind of state
            continue
    return numbers | _of_run(traj, float(traj.times[-1]))


def _of_run(traj: Trajectory, state_time: float) -> dict[str, Any]:
    return {
        "time": float(traj.times[-1]),
        "state_time": state_time,
        "time_unit": traj.time_unit,
        "log_time_unit": traj.log_time_unit + 0.0,  # avoid minus zero
        "events": [{"kind": event.kind, "time": float(event.time), **event.detail} for event in traj.events],
        "steps": int(traj.dataset.attrs["steps"]),
        "rejected_steps": int(traj.dataset.attrs["rejected_steps"]),
    }


def final_energy(frames: Frames, beta: float | None) -> tuple[float | None, str | None]:
    """Return the energy of the last frame and its kind."""
    if beta is None:
        return None, None
    if beta == 0:
        return energy(frames.state(-1), 0.0), "centered"
    return normalized_energy(frames.state(-1), beta), "normalized"
