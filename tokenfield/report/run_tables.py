"""Tables of a run: final numbers, configuration, provenance."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..observables.cluster_text import cluster_text
from ..results import Trajectory
from ..results.moments import event_text, moment_text
from .summary import MEASURED

LARGEST_SHOWN = 64  # entries of a matrix written out
LEFT_OUT = {
    "factor",
    "unit_exponent",
    "space",
    "given_space",
    "max_steps",
    "rtol",
    "atol",
    "method",
}  # internal, or listed under provenance
INNER = {"model", "score", "value", "gain"}  # parts that only hold parameters: their names add no information
PLAIN = {"Transformer", "Bilinear", "ValueMap", "Gain"}


def final_rows(traj: Trajectory, numbers: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return the final numbers as rows of a table."""
    if "state" in numbers:
        others = [(name.replace("_", " "), value) for name, value in numbers.items() if name in MEASURED]
        return [("state", numbers["state"]), *_run_rows(traj, numbers), *others]
    energy = {"normalized": "normalized energy", "centered": "centered energy (β = 0)"}.get(
        numbers["energy_kind"], "energy"
    )
    sample = f" (of a sample of {numbers['sampled']} tokens)" if numbers["sampled"] else ""
    rows: list[tuple[str, object]] = [
        *_run_rows(traj, numbers),
        (f"clusters, by {numbers['cluster_metric']}{sample}", cluster_text(numbers["clusters"])),
        (energy + sample, numbers["energy"] if numbers["energy_kind"] else "none for this model"),
        ("order parameter", numbers["order_parameter"]),
        ("mean cosine", numbers["mean_cosine"]),
        ("effective rank", numbers["effective_rank"]),
        ("steps", f"{numbers['steps']} ({numbers['rejected_steps']} rejected)"),
    ]
    if numbers["state_time"] != numbers["time"]:
        rows.insert(1, ("last finite state", moment_text(numbers["state_time"], traj.log_time_unit)))
    return rows


def _run_rows(traj: Trajectory, numbers: Mapping[str, Any]) -> list[tuple[str, object]]:
    happened = "; ".join(event_text(traj, event) for event in traj.events)
    return [("time reached", moment_text(numbers["time"], traj.log_time_unit)), ("events", happened or "none")]


def full_config(traj: Trajectory) -> dict[str, Any]:
    """Return the configuration, with the initial state if it was recorded."""
    start = traj.dataset.attrs.get("start")
    return {**({"start": json.loads(start)} if start else {}), **traj.config}


def config_rows(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """Return nested plain data as rows `(path, value)`; the value at the path of a part is its kind."""
    if isinstance(config, Mapping):
        if config.get("kind", "Bilinear") not in PLAIN:
            yield " › ".join(path), config["kind"]
        for name, value in config.items():
            if name != "kind" and name not in LEFT_OUT and value not in (None, []):
                yield from config_rows(value, path if name in INNER else (*path, name))
    elif isinstance(config, list) and any(isinstance(item, Mapping) for item in config):
        for index, item in enumerate(config):
            yield from config_rows(item, (*path, str(index + 1)))
    else:
        yield " › ".join(path), matrix_text(config)


def matrix_text(value: Any) -> object:
    """Format a matrix by rows, or by its shape if it is large; return other values unchanged."""
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        return value
    if len(value) * len(value[0]) > LARGEST_SHOWN:
        return f"a {len(value)} × {len(value[0])} matrix"
    return "[" + "; ".join(", ".join(f"{entry:.4g}" for entry in row) for row in value) + "]"


def provenance_rows(traj: Trajectory) -> list[tuple[str, object]]:
    """Return what is needed to reproduce the same bits."""
    config, attributes = traj.config, traj.dataset.attrs
    seed = attributes.get("seed", config.get("seed"))
    return [
        ("tokenfield", attributes.get("tokenfield_version")),
        ("JAX, Diffrax", [attributes.get("jax_version"), attributes.get("diffrax_version")]),
        ("threads", attributes.get("threads")),
        ("precision", attributes.get("precision")),
        ("seed", "none recorded" if seed is None else int(seed)),
        ("tolerances (relative, absolute)", _tolerances(config)),
        ("method", config.get("method", "layers")),
        ("sha256 of the numbers", _hash(traj)),
    ]


def _tolerances(config: Mapping[str, Any]) -> object:
    """Return the two tolerances, or why there are none."""
    if "rtol" in config:
        return [config["rtol"], config.get("atol", 0.0)]
    step = config.get("dt")
    fixed = "none: steps of a fixed size" + (f", dt = {step:.3g}" if isinstance(step, float) else "")
    return fixed if "method" in config else "none: discrete layers"


def _hash(traj: Trajectory) -> str:
    digest = hashlib.sha256()
    for name in sorted(map(str, traj.dataset.variables)):
        digest.update(name.encode() + np.ascontiguousarray(traj.dataset[name].values).tobytes())
    return digest.hexdigest()
