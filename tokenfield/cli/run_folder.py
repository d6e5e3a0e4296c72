"""A run and its folder: dataset, resolved config, figures, animation, report."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from ..config import build
from ..config.run import RunConfig, to_toml
from .errors import Interrupted

CHECKPOINT, DATASET, CONFIG = "checkpoint.npz", "trajectory.zarr", "config.toml"
FIGURE, ANIMATION, REPORT = "overview.png", "animation.gif", "report.html"
FILES = CHECKPOINT, DATASET, CONFIG, FIGURE, ANIMATION, REPORT
ASIDE = ".replaced"


def execute(config: RunConfig, out: Path | None, *, overwrite: bool, animation: bool, as_json: bool) -> None:
    """Run, write the folder, print the numbers."""
    from ..report.summary import summary

    model, state, rule = build.model(config), build.tokens(config.tokens), build.stop_rule(config.stop_when)
    folder = out if out is not None or as_json else Path("runs") / _name(config)
    if folder is not None:
        _open(folder, config, overwrite)
    try:
        traj = _run(config, model, state, rule, folder, overwrite)
    except Exception as error:
        if folder is not None and not isinstance(error, Interrupted):
            _bring_back(folder)
        raise
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
    text = to_toml(config)
    written = folder / CONFIG
    finished = (folder / DATASET).exists() and not (folder / CHECKPOINT).exists()
    other = written.exists() and written.read_text(encoding="utf-8", errors="replace") != text
    if (finished or other) and not overwrite:
        what = "a finished run" if finished else "another run"
        raise ValueError(f"--out: {folder} holds {what}: give another folder, or --overwrite")
    try:
        if finished or other:
            _set_aside(folder)
        folder.mkdir(parents=True, exist_ok=True)
        written.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None


def _set_aside(folder: Path) -> None:
    """A run that is to be replaced is kept until the new one has ended, in case that is refused."""
    aside = folder / ASIDE
    if aside.exists():  # what is here was not finished
        _clear(folder)
        return
    aside.mkdir()
    for name in FILES:
        if (folder / name).exists():
            (folder / name).rename(aside / name)


def _bring_back(folder: Path) -> None:
    if (folder / ASIDE).exists():
        _clear(folder)
        for path in (folder / ASIDE).iterdir():
            path.rename(folder / path.name)
        (folder / ASIDE).rmdir()


def _clear(folder: Path) -> None:
    """Remove what a run has written, and nothing else."""
    for name in FILES:
        if name == DATASET:
            shutil.rmtree(folder / name, ignore_errors=True)
        else:
            (folder / name).unlink(missing_ok=True)


def _run(config: RunConfig, model: Any, state: Any, rule: Any, folder: Path | None, overwrite: bool) -> Any:
    import tokenfield as tkf

    from ..solve.checkpoint import CheckpointError

    checkpoint = None if folder is None else folder / CHECKPOINT
    try:
        if config.t1 is None:
            traj = tkf.layers(model, state, config.depth, config.step, checkpoint=checkpoint)
        else:
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
    except CheckpointError:
        if checkpoint is None or not overwrite:
            raise
        checkpoint.unlink()
        return _run(config, model, state, rule, folder, overwrite)
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

    try:
        traj.save(folder / DATASET, overwrite=True)
        _say("drawing")
        traj.plot().savefig(folder / FIGURE, dpi=160)
        gif = traj.animate(folder / ANIMATION) if animation else None
        write_report(traj, folder, animation=gif)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while drawing; the run is in {folder}: the same command draws it") from None
    shutil.rmtree(folder / ASIDE, ignore_errors=True)
    (folder / CHECKPOINT).unlink(missing_ok=True)  # while it is there the folder is not finished


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
