"""The question of a run and its answer, as sentences."""

import math
from collections.abc import Mapping
from typing import Any

from .._kinds import found
from ..attention import AbstractAttention
from ..noise import AbstractNoise
from ..normalization import AbstractNorm
from ..observables import mean_cosine
from ..observables.cluster_text import cluster_text
from ..plotting.frames import read_frames
from ..results import Trajectory
from ..results.describe import recorded_kind
from .summary import summary

EVENTS = {
    "blow_up": "Tokens blow up: they become infinite at time {time}.",
    "vanished": "A token reaches length 0 at time {time}, where the flow ends.",
    "stationary": "From time {time} on, nothing moves anymore.",
    "resolution": "The run ends at time {time}, where the density needs more modes than the maximum.",
    "fold": "The layer that ends at time {time} maps different tokens to one point, where the density becomes infinite.",
}


def question(traj: Trajectory) -> str:
    """Return the question of a run: which tokens, which model, until when."""
    asked = f"What happens to {_start(traj)} under {model_text(traj)}?"
    layers = "method" not in traj.config and "rtol" not in traj.config and traj.models
    steps = len(traj.times) - 1
    until = f"{steps} layer{'s' * (steps != 1)}" if layers else f"Time {traj.times[0]:g} to {_planned(traj)}"
    return f"{asked} {until}."


def _planned(traj: Trajectory) -> str:
    """Return the requested end, or the one that was reached."""
    planned = traj.config.get("t1")
    if isinstance(planned, (int, float)) and planned > traj.times[-1] and traj.log_time_unit == 0:
        return "any time" if math.isinf(planned) else f"{planned:g}"
    return time_text(traj, traj.times[-1])


def _start(traj: Trajectory) -> str:
    sizes = traj.dataset.sizes
    if "token" not in sizes:
        return f"the state {repr(traj.state(0)).replace('Float64', '')}"
    n = sizes["token"]
    return f"{n} token{'s' * (n != 1)} in dimension {sizes['coordinate']}"


def model_text(traj: Trajectory) -> str:
    """Return the model as text: attention, norm, noise and the rate of moving weights."""
    kinds = traj.models
    if not kinds:
        return "a model that was not recorded"
    if len(kinds) > 1:
        return f"{len(kinds)} different layers"
    beta = kinds[0]["attention"].get("score", {}).get("beta")
    parts = [title_of(AbstractAttention, kinds[0]["attention"]["kind"])]
    parts[0] += f" with β = {beta:g}" if isinstance(beta, (int, float)) else ""
    parts.append(title_of(AbstractNorm, kinds[0]["norm"]["kind"]))
    if noise := kinds[0].get("noise"):
        parts.append(
            title_of(AbstractNoise, noise["kind"]) + (f" with κ = {noise['kappa']:g}" if "kappa" in noise else "")
        )
    if (rate := kinds[0].get("fisher_rao")) is not None:
        parts.append(f"weights that move at the rate c = {rate:g}")
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def title_of(family: type, recorded: str) -> str:
    """Return the name of a class as text, from the kind that a run records; for a user's class, its kind."""
    return next((each.title for each in found(family).values() if recorded_kind(each) == recorded), "") or recorded


def answer(traj: Trajectory, numbers: Mapping[str, Any]) -> tuple[str, str]:
    """Return how the run ended, in one sentence for readers without the theory, and further sentences ("" for none)."""
    if "state" in numbers:
        sentence = _of_state(traj, numbers)
    else:
        sizes, n = numbers["clusters"], numbers["sampled"] or numbers["n"]
        at = time_text(traj, numbers["state_time"])
        sampled = f"a sample of {n}" if numbers["sampled"] else f"{n}"
        if n == 1:
            sentence = f"The run has one token and ends at time {at}."
        elif any("noise" in model for model in traj.models):
            sentence = f"The noise keeps the {sampled} tokens moving until time {at}."
        elif len(sizes) == 1:
            sentence = f"All {sampled} tokens are in one cluster at time {at}."
        elif len(sizes) == n:
            sentence = f"The tokens have formed no clusters at time {at}: all {sampled} are separate."
        else:
            sentence = f"At time {at}, {sampled} tokens form {cluster_text(sizes)}."
    happened = [
        EVENTS[e["kind"]].format(time=time_text(traj, e["time"], e.get("log_time")))
        for e in numbers["events"]
        if e["kind"] in EVENTS
    ]
    said = [*happened[-1:], sentence, _change(traj, numbers)]
    return said[0], " ".join(filter(None, said[1:]))


def _change(traj: Trajectory, numbers: Mapping[str, Any]) -> str:
    if "state" in numbers or numbers.get("mean_cosine") is None:
        return ""
    first, last = mean_cosine(read_frames(_only_first(traj)).state(0)), numbers["mean_cosine"]
    if abs(last - first) < 0.005:
        return f"The mean cosine between the tokens stays near {decimals(last)}."
    verb = "rises" if last > first else "falls"
    return f"The mean cosine between the tokens {verb} from {decimals(first)} to {decimals(last)}."


def _only_first(traj: Trajectory) -> Trajectory:
    return Trajectory(traj.dataset.isel(time=slice(0, 1)))


def _of_state(traj: Trajectory, numbers: Mapping[str, Any]) -> str:
    first = summary(_only_first(traj))
    names = [name for name in ("mean_cosine", "order_parameter", "effective_rank") if numbers.get(name) is not None]
    changes = [
        f"the {name.replace('_', ' ')} goes from {decimals(first[name])} to {decimals(numbers[name])}" for name in names
    ]
    end = time_text(traj, numbers["time"])
    sentence = (
        f"{'; '.join(changes)} until time {end}." if changes else f"The run of a {numbers['state']} ends at time {end}."
    )
    return sentence[:1].upper() + sentence[1:]


def decimals(value: float) -> str:
    """Format with two decimals and a true minus sign; with more if the value is close to 1, and without −0.00."""
    if 0.995 <= value < 1 and (gap := 1 - value) > 1e-15:
        digits = -math.floor(math.log10(gap))
        return (
            f"{value:.{digits}f}"
            if digits <= 6
            else f"1 − {gap:.1g}".replace("e-0", "e-").replace("e-", " × 10^{-") + "}"
        )
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def time_text(traj: Trajectory, time: float, log_time: float | None = None) -> str:
    """Format a time with four digits; beyond the range of doubles, as a power of ten.

    `log_time` is its logarithm, if it is known: in a large unit, an early time underflows to 0.
    """
    if traj.log_time_unit == 0 or (time <= 0 and log_time is None):
        return f"{float(f'{time:.4g}'):.10g}" if time < 1e6 else f"{time:.4g}"
    exponent = (math.log(time) + traj.log_time_unit if log_time is None else log_time) / math.log(10)
    return f"10^{{{exponent:.4g}}}" if exponent > 6 else f"{10**exponent:.4g}"
