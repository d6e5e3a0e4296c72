"""A run in five lines: what ran, what happened, the final tokens, what theory predicts, and the file to open."""

from collections.abc import Mapping
from typing import Any

from .._kinds import parameters
from ..normalization import AbstractSphereNorm
from ..observables.cluster_text import cluster_text
from ..report.run_comparisons import comparisons
from ..report.run_sentences import model_text
from ..results import Trajectory
from ..results.moments import event_text, moment_text
from ..theory.names import KERNELS

LISTED = 3  # events
NO_FORMULA = "no closed formula to compare this run with; tokenfield predict lists what is known"


def run_lines(traj: Trajectory, numbers: Mapping[str, Any], opened: str | None) -> list[tuple[str, str]]:
    """Return pairs (label, text).

    Args:
        traj: the run.
        numbers: its final numbers, see `tokenfield.report.summary`.
        opened: the file to open, None if nothing was written.
    """
    rejected = f" ({numbers['rejected_steps']} rejected)" if numbers["rejected_steps"] else ""
    lines = [("ran", f"{_start(traj)}, {model_text(traj)}, {numbers['steps']} steps{rejected}")]
    lines += [("events", _events(traj)), ("end", _end(numbers)), ("theory", _theory(traj, numbers))]
    if opened is not None:
        lines.append(("open", opened))
    return lines


def _start(traj: Trajectory) -> str:
    sizes = traj.dataset.sizes
    n = sizes.get("token")
    return traj.dataset.attrs["state"] if n is None else f"{n} token{'s' * (n != 1)} in dimension {sizes['coordinate']}"


def _events(traj: Trajectory) -> str:
    end = moment_text(traj.times[-1], traj.log_time_unit, digits=4)
    if not traj.events:
        return f"none until {end}"
    merges = [event for event in traj.events if event.kind == "merge"]
    if len(merges) <= LISTED:
        merges = []
    listed = [event_text(traj, event, 4) for event in traj.events if event not in merges]
    if merges:
        listed.insert(0, f"{len(merges)} merges, the last {event_text(traj, merges[-1], 4).removeprefix('merge ')}")
    more = f"; … {len(listed)} in total" if len(listed) > LISTED + 1 else ""
    return "; ".join(listed[: LISTED + 1]) + more


def _end(numbers: Mapping[str, Any]) -> str:
    sample = f" (of a sample of {numbers['sampled']} tokens)" if numbers.get("sampled") else ""
    parts = [cluster_text(numbers["clusters"]) + sample] if "clusters" in numbers else []
    for name in ("order_parameter", "mean_cosine", "effective_rank"):
        if numbers.get(name) is not None:
            parts.append(f"{name.replace('_', ' ')} {numbers[name]:.3g}")
    parts += [f"{name} = {_number(value)}" for name, value in numbers.get("observed", {}).items()]
    return "; ".join(parts) or "no observable of this state is known"


def _plain(text: str) -> str:
    """Return a text without the braces of exponents."""
    return text.replace("{", "").replace("}", "")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _theory(traj: Trajectory, numbers: Mapping[str, Any]) -> str:
    """Return a prediction beside the measurement, the command that lists predictions for this model, or that there is none."""
    found = comparisons(traj, numbers)
    if found:  # the last one is the most specific
        row = found[-1]
        remark = f"; {row.remark}" if row.remark else ""
        return _plain(f"{row.what}: predicted {row.predicted}; measured {row.measured}{remark}")
    beta = traj.energy_beta
    if beta is None:
        return NO_FORMULA
    model = traj.model
    if (
        beta != model.beta
        or type(model.attention) not in KERNELS.values()
        or not isinstance(model.norm, AbstractSphereNorm)
    ):
        return NO_FORMULA
    flags = {"attention": model.attention.kind, "norm": model.norm.kind}
    flags |= {name: getattr(model.norm, name) for name in ("tau", "alpha") if name in parameters(type(model.norm))}
    given = [f"--{name} {value if isinstance(value, str) else f'{float(value):g}'}" for name, value in flags.items()]
    sizes = traj.dataset.sizes
    return f"tokenfield predict --n {sizes['token']} --d {sizes['coordinate']} --beta {beta:g} {' '.join(given)}"
