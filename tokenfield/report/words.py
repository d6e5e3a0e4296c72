"""What a result says of itself, in words and rows of tables."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..observables.cluster_text import cluster_text
from ..results import Trajectory
from ..results.moments import moment_text
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
}  # internal, or said under provenance
INNER = {"model", "score", "value", "gain"}  # parts that only hold parameters: their names say nothing more
PLAIN = {"Transformer", "Bilinear", "ValueMap", "Gain"}


def headline(traj: Trajectory) -> str:
    """The run in a line: how many tokens, which attention, norm and noise, whether weights move, until when."""
    sizes = traj.dataset.sizes
    n = sizes.get("token")
    parts = [
        traj.dataset.attrs["state"] if n is None else f"{n} token{'s' * (n != 1)} in dimension {sizes['coordinate']}"
    ]
    kinds = traj.models
    if len(kinds) == 1:
        beta = kinds[0]["attention"].get("score", {}).get("beta")
        sharp = f" with β = {beta:g}" if isinstance(beta, (int, float)) else ""
        parts.append(f"{kinds[0]['attention']['kind']}{sharp}, {kinds[0]['norm']['kind']}")
        if noise := kinds[0].get("noise"):
            parts.append(f"{noise['kind']} with κ = {noise['kappa']:g}")
        if (rate := kinds[0].get("fisher_rao")) is not None:
            parts.append(f"weights that move at the rate c = {rate:g}")
    elif kinds:
        parts.append(f"{len(kinds)} different layers")
    return "; ".join([*parts, f"time {traj.times[0]:g} to {moment(traj, traj.times[-1])}"])


def moment(traj: Trajectory, time: float, log_time: float | None = None) -> str:
    """A time as a number, or as "log10 t = 846.1" where the unit of time is not 1."""
    return moment_text(time, traj.log_time_unit, log_time).removeprefix("t = ")


def final_rows(traj: Trajectory, numbers: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The final numbers as rows of a table."""
    if "state" in numbers:
        others = [(name.replace("_", " "), value) for name, value in numbers.items() if name in MEASURED]
        return [("state", numbers["state"]), *_run_rows(traj, numbers), *others]
    energy = {"normalized": "normalized energy", "centred": "centred energy (β = 0)"}.get(
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
        ("steps (rejected)", f"{numbers['steps']} ({numbers['rejected_steps']})"),
    ]
    if numbers["state_time"] != numbers["time"]:
        rows.insert(1, ("last finite state", moment(traj, numbers["state_time"])))
    return rows


def _run_rows(traj: Trajectory, numbers: Mapping[str, Any]) -> list[tuple[str, object]]:
    happened = [
        f"{e['kind'].replace('_', ' ')} at {moment(traj, e['time'], e.get('log_time'))}" for e in numbers["events"]
    ]
    return [("time reached", moment(traj, numbers["time"])), ("events", "; ".join(happened) or "none")]


def full_config(traj: Trajectory) -> dict[str, Any]:
    """The configuration, with the start where it was recorded."""
    start = traj.dataset.attrs.get("start")
    return {**({"start": json.loads(start)} if start else {}), **traj.config}


def config_rows(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """Nested plain data as rows `(path, value)`; the kind of a part stands at its path."""
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
    """A matrix by rows, or by its shape when it is large; other values as they are."""
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        return value
    if len(value) * len(value[0]) > LARGEST_SHOWN:
        return f"a {len(value)} × {len(value[0])} matrix"
    return "[" + "; ".join(", ".join(f"{entry:.4g}" for entry in row) for row in value) + "]"


def provenance_rows(traj: Trajectory) -> list[tuple[str, object]]:
    """What it takes to get the same bits again."""
    config, attributes = traj.config, traj.dataset.attrs
    seed = attributes.get("seed", config.get("seed"))
    return [
        ("tokenfield", attributes.get("tokenfield_version")),
        ("JAX, Diffrax", [attributes.get("jax_version"), attributes.get("diffrax_version")]),
        ("threads", attributes.get("threads")),
        ("precision", attributes.get("precision")),
        ("seed", "none recorded" if seed is None else int(seed)),
        (
            "tolerances (relative, absolute)",
            [config["rtol"], config.get("atol", 0.0)] if "rtol" in config else "none: layers",
        ),
        ("method", config.get("method", "layers")),
        ("sha256 of the numbers", _hash(traj)),
    ]


def _hash(traj: Trajectory) -> str:
    digest = hashlib.sha256()
    for name in sorted(map(str, traj.dataset.variables)):
        digest.update(name.encode() + np.ascontiguousarray(traj.dataset[name].values).tobytes())
    return digest.hexdigest()
