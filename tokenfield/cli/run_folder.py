"""A run and its folder: dataset, resolved config, figures, animation, report."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from ..config import build
from ..config.run import RunConfig, to_toml
from .errors import Interrupted

CHECKPOINT, DATASET, CONFIG = "checkpoint.npz", "trajectory.zarr", "config.toml"


def execute(config: RunConfig, out: Path | None, *, overwrite: bool, animation: bool, as_json: bool) -> None:
    """Run, write the folder, print the numbers."""
    from ..report.summary import summary

    model, state, rule = build.model(config), build.tokens(config.tokens), build.stop_rule(config.stop_when)
    folder = out if out is not None or as_json else Path("runs") / _name(config)
    if folder is not None:
        _open(folder, config, overwrite)
    traj = _run(config, model, state, rule, folder)
    numbers: dict[str, Any] = summary(traj)
    if folder is not None:
        numbers["out"] = str(folder)
        _write(traj, folder, animation)
    if as_json:
        print(json.dumps(numbers))
    else:
        _print(numbers)


def _name(config: RunConfig) -> str:
    digest = hashlib.sha256(to_toml(config).encode()).hexdigest()[:8]
    return f"{config.attention.kind}-{config.norm.kind}-{digest}"


def _open(folder: Path, config: RunConfig, overwrite: bool) -> None:
    """Make the folder, or continue in one that holds the same run unfinished."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: {folder} is a file, not a folder")
    if (folder / DATASET).exists() and not overwrite:
        raise ValueError(f"--out: {folder} holds a finished run: give another folder, or --overwrite")
    text = to_toml(config)
    written = folder / CONFIG
    if written.exists() and written.read_text(encoding="utf-8", errors="replace") != text:
        if not overwrite:
            raise ValueError(f"--out: {folder} holds another run: give another folder, or --overwrite")
        (folder / CHECKPOINT).unlink(missing_ok=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None


def _run(config: RunConfig, model: Any, state: Any, rule: Any, folder: Path | None) -> Any:
    import tokenfield as tkf

    from ..solve.waiting import helps

    if config.t1 is None:
        traj = tkf.layers(model, state, config.depth, config.step)
    else:
        waits = config.method == "coarsen" or (
            config.method is None and rule is None and helps(model, state, config.t1)
        )
        noisy = config.noise is not None
        checkpoint = None if folder is None or waits or noisy else folder / CHECKPOINT
        try:
            traj = tkf.simulate(
                model,
                state,
                config.t1,
                save_at=config.save_at,
                rtol=config.rtol,
                atol=config.atol,
                method=config.method,
                merge_tolerance=config.merge_tolerance,
                dt=config.dt,
                seed=None if config.noise is None else config.noise.seed,
                stop_when=rule,
                checkpoint=checkpoint,
            )
        except KeyboardInterrupt:
            kept = checkpoint is not None and checkpoint.exists()
            hint = f"; kept in {checkpoint}: give the same command again to go on" if kept else ""
            raise Interrupted("interrupted" + hint) from None
    start = config.tokens.used()
    attributes: dict[str, Any] = {
        "start": json.dumps(start),
        **({"seed": config.tokens.seed} if "seed" in start else {}),
    }
    return tkf.Trajectory(traj.dataset.assign_attrs(attributes))


def _write(traj: Any, folder: Path, animation: bool) -> None:
    from ..report import write_report

    traj.save(folder / DATASET, overwrite=True)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    _say("drawing")
    traj.plot().savefig(folder / "overview.png", dpi=160)
    gif = traj.animate(folder / "animation.gif") if animation else None
    write_report(traj, folder, animation=gif)


def _say(message: str) -> None:
    if sys.stderr.isatty():
        print(message + " …", file=sys.stderr)


def _print(numbers: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "value", title="final state")
    for key, value in numbers.items():
        if key == "events":
            value = "; ".join(f"{event['kind']} at {event['time']:.6g}" for event in value) or "none"
        elif isinstance(value, list):
            value = " ".join(map(str, value[:12])) + (f" … ({len(value)} in all)" if len(value) > 12 else "")
        elif isinstance(value, float):
            value = f"{value:.8g}"
        table.add_row(key, str(value))
    Console().print(table)
