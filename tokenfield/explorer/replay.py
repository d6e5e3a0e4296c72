"""Saved runs as data that the page replays."""

import base64
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._check import as_path
from .._shown import shown
from ..results import Trajectory, load
from .drawn import Measured, frame_of, measure
from .frames import encode
from .names import kernel_name, norm_name

DATASET, REPORT = "trajectory.zarr", "report.html"
LARGEST = 64_000_000  # maximum bytes of frames in a page
LARGEST_LOG = 700.0  # largest logarithm of a time that is safe in a double
FEW, MOST_COUNTED = 64, 400  # number of frames with a cluster count, for many tokens; others repeat the previous count


def open_run(path: str | os.PathLike) -> Trajectory:
    """Return the run in a folder of `tokenfield simulate`, next to its report, or in a Zarr folder of `Trajectory.save`."""
    folder = as_path("path", path)
    if folder.name == REPORT and folder.is_file():
        folder = folder.parent
    if not folder.is_dir():
        raise ValueError(f"no such folder: {shown(str(folder))}: give the folder of a run, such as runs/first")
    inside = folder / DATASET
    if not inside.is_dir() and not (folder / "zarr.json").is_file():
        raise ValueError(f"{folder} is not a run: it has no {DATASET}; give a folder that `tokenfield simulate` wrote")
    return load(inside if inside.is_dir() else folder)


def replay_data(traj: Trajectory) -> dict[str, Any]:
    """Return a run as plain data: `config`, `times`, `log_time_unit` and `frames`, the concatenated frames in base64.

    A run with more states than a page can hold is thinned evenly.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.explorer import replay_data
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(8, 3, seed=0), t1=1.0, save_at=3)
        >>> replay_data(traj)["times"]
        [0.0, 0.5, 1.0]
    """
    beta, unit, times = traj.energy_beta, traj.log_time_unit, np.asarray(traj.times, float)
    one = encode(frame_of(traj.state(0), times[0], unit, measure(traj.state(0), beta)))
    most = max(2, LARGEST // len(one))
    indices = np.unique(np.linspace(0, len(times) - 1, min(len(times), most)).round().astype(int)).tolist()
    logs = traj.log_times
    long = bool(logs.max() > LARGEST_LOG)
    frames = []
    every = 1 if getattr(traj.state(0), "n", 0) <= FEW else -(-len(indices) // MOST_COUNTED)
    counted: Measured | None = None
    for number, k in enumerate(indices):
        state = traj.state(k)
        clock = (1.0, float(logs[k])) if long and np.isfinite(logs[k]) else (float(times[k]), unit)
        found = measure(state, beta, number % every == 0)
        if number % every == 0:
            counted = found
        elif counted is not None and counted.labels is not None and len(counted.labels) == getattr(state, "n", 0):
            found = found._replace(clusters=counted.clusters, labels=counted.labels)
        frames.append(encode(frame_of(state, *clock, found)))
    return {
        "config": run_config(traj),
        "times": times[indices].tolist(),
        "log_times": [float(value) if np.isfinite(value) else None for value in logs[indices]],
        "log_time_unit": unit,
        "events": [{"kind": event.kind, "time": event.time} for event in traj.events],
        "frames": base64.b64encode(b"".join(frames)).decode("ascii"),
    }


def run_config(traj: Trajectory) -> dict[str, Any] | None:
    """Return the run as the tables of a run file, or None if the page does not support every part of its model."""
    model = model_config(traj.models[0]) if len(traj.models) == 1 else None
    start = traj.dataset.attrs.get("start")
    if model is None:
        return None
    return {**model, "t1": traj.config.get("t1"), **({} if start is None else {"tokens": json.loads(start)})}


def model_config(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a recorded model (see `describe`) as tables of a run file, or None if the page does not support all of it."""
    attention, norm, noise = _attention(model["attention"]), _norm(model["norm"]), model.get("noise")
    if attention is None or norm is None or model.keys() - {"kind", "attention", "norm", "noise"}:
        return None
    return {"attention": attention, "norm": norm, "noise": None if noise is None else {"kappa": noise["kappa"]}}


def _attention(head: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the table of a head, or None if there are several or it has parts that the page does not support."""
    kind, score, value = kernel_name(head["kind"]), head.get("score", {}), head.get("value", {})
    positions = head.get("positions", [])
    known = {"kind", "score", "value", "causal", "normalized", "positions", "rule", "tie", "unit_exponent"}
    if kind is None or head.keys() - known or score.get("factor", 1.0) != 1.0:
        return None
    if {"Q", "K"} & score.keys() or len(positions) > 1 or any(each["kind"] != "ALiBi" for each in positions):
        return None
    table = {"kind": kind, "causal": head.get("causal", False)}
    table |= {key: score[key] for key in ("beta", "A") if key in score}
    table |= {key: part[key] for key, part in (("V", value), ("rule", head)) if key in part}
    return {**table, "slope": positions[0]["slope"]} if positions else table


def _norm(norm: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the table of a norm, or None if it has a gain of its own."""
    kind = norm_name(norm["kind"])
    if kind is None or norm.get("gain", {"kind": "Gain"}).keys() != {"kind"}:
        return None
    return {"kind": kind, **{key: norm[key] for key in ("tau", "alpha") if key in norm}}
