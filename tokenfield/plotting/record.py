"""What the record of a run says of its model: the geometry of its tokens, the beta of its energy, its unit of time."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import normalization
from ..results import Trajectory


def models(traj: Trajectory) -> list[Mapping[str, Any]]:
    """The models of a run as plain data: one, or one for each layer; none if the record has no model."""
    model = traj.config.get("model") or []
    return [model] if isinstance(model, Mapping) else list(model)


def norms(traj: Trajectory) -> set[str]:
    """The names of the normalization rules of a run."""
    return {model["norm"]["kind"] for model in models(traj)}


def spherical(traj: Trajectory) -> bool:
    """True when the norm moves directions on the unit sphere, whatever it does to lengths."""
    kinds = [getattr(normalization, name, None) for name in norms(traj)]
    return bool(kinds) and all(
        isinstance(kind, type) and issubclass(kind, normalization.AbstractSphereNorm) for kind in kinds
    )


def sharpness(traj: Trajectory) -> float | None:
    """beta such that the flow increases `∬ e^{beta<θ,θ'>} dmu dmu` of the directions θ; None where it has no energy.

    That needs one Softmax or Unnormalized head with A = beta I, beta >= 0 and V = I, without mask or MLP, under a
    norm that moves directions. A norm with gain g reads `g sqrt(d) θ`, so beta becomes `beta g^2 d`.
    """
    if len(models(traj)) != 1 or not spherical(traj):
        return None
    model = models(traj)[0]
    attention, gain = model["attention"], _gain(model["norm"], traj.dataset.sizes["coordinate"])
    if attention["kind"] not in ("Softmax", "Unnormalized") or attention["causal"] or "mlp" in model or gain is None:
        return None
    score = attention["score"]
    plain = score["kind"] == "Bilinear" and not {"A", "Q", "K"} & score.keys() and "V" not in attention["value"]
    beta = score.get("beta")
    if not plain or not isinstance(beta, (int, float)) or beta < 0:
        return None
    return float(beta) * gain**2


def _gain(norm: Mapping[str, Any], d: int) -> float | None:
    """The factor between directions and what attention reads; None when it differs between coordinates."""
    g = (norm.get("gain") or {}).get("g")
    if g is None:
        return 1.0
    if isinstance(g, Mapping) or np.ptp(g) != 0:
        return None
    return float(np.ravel(g)[0]) * d**0.5


def time_unit(traj: Trajectory) -> str:
    """The unit of time for a label, "" for plain time."""
    exponent = traj.log_time_unit
    return "" if exponent == 0 else f"$e^{{{exponent:g}}}$"


def time_label(traj: Trajectory) -> str:
    """The label of a time axis, with the unit; layers are counted where a step is a layer."""
    if traj.config.get("step") == 1 and not time_unit(traj):
        return "layer"
    return f"time $t$ (units of {time_unit(traj)})" if time_unit(traj) else "time $t$"


def time_text(traj: Trajectory, time: float) -> str:
    """A moment in words, e.g. "t = 12.5" or "layer 3"."""
    if time_label(traj) == "layer":
        return f"layer {time:g}"
    return f"$t$ = {time:.4g}" + (f" × {time_unit(traj)}" if time_unit(traj) else "")
