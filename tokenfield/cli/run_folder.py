"""A run and its folder: dataset, resolved config, figures, animation, report."""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from .._files import present, recover, refuse_foreign, remove, rename, write_text
from .._lock import alone_in
from .._quiet import say, shows_progress
from ..config import build
from ..config.run import RunConfig, to_toml
from .command_line import command_line
from .errors import Interrupted
from .folders import figure_file, write_figure
from .interrupts import interrupted, resumable_from

CHECKPOINT, DATASET, CONFIG = "checkpoint.npz", "trajectory.zarr", "config.toml"
FIGURE, REPORT = "overview.png", "report.html"
DRAWN = FIGURE, "overview.pdf", "overview.svg", "animation.gif", "animation.mp4", "animation.html"
FILES = CHECKPOINT, DATASET, CONFIG, *DRAWN, REPORT
ASIDE = ".replaced"  # a run that is to be replaced
MOVING = ".moving"  # the same run while its files are being moved: after a kill, some are here and some in the folder


class Animation(NamedTuple):
    """How to animate a run: "gif", "mp4", "html" or "none", and the clock (see `tokenfield.plotting.animate`)."""

    format: str = "gif"
    time: str | None = None

    def write(self, traj: Any, folder: Path) -> Path | None:
        """Write the animation and return its path; None if there is nothing to animate."""
        if self.format == "none" or traj.dataset.attrs["state"] != "Tokens":
            return None
        return traj.animate(folder / f"animation.{self.format}", time=self.time)


def execute(
    config: RunConfig, out: Path | None, *, overwrite: bool, animation: Animation, as_json: bool, format: str = "png"
) -> None:
    """Run a config, write its folder, and print the numbers."""
    model, state, rule = build.model(config), build.start(config), build.stop_rule(config.stop_when)
    folder = out if out is not None or as_json else Path("runs") / _name(config)
    with alone_in(folder):
        traj, numbers = _execute(config, model, state, rule, folder, overwrite, animation, format)
    if as_json:
        print(json.dumps(numbers))
    else:
        _print(traj, numbers, folder)


def _execute(
    config: RunConfig,
    model: Any,
    state: Any,
    rule: Any,
    folder: Path | None,
    overwrite: bool,
    animation: Animation,
    format: str,
) -> tuple[Any, dict[str, Any]]:
    from ..report.summary import summary

    if folder is not None:
        _open(folder, config, overwrite)
    try:
        traj = _run(config, model, state, rule, folder, overwrite)
    except Exception as error:
        if folder is not None and not isinstance(error, Interrupted):
            _bring_back(folder)
        raise
    numbers: dict[str, Any] = summary(traj)
    if config.observe:
        found = {name: each.measure(traj.final, model) for name, each in config.observe.items()}
        numbers["observed"] = {name: value if math.isfinite(value) else None for name, value in found.items()}
    if folder is not None:
        numbers["out"] = str(folder)
        _write(traj, folder, animation, format)
    return traj, numbers


def _name(config: RunConfig) -> str:
    digest = hashlib.sha256(to_toml(config).encode()).hexdigest()[:8]
    kinds = (re.sub(r"\W+", "-", part.kind) for part in (config.attention, config.norm))
    return "-".join([*kinds, digest])


def _open(folder: Path, config: RunConfig, overwrite: bool) -> None:
    """Prepare the folder; if it holds the same run, unfinished, keep it to continue from there."""
    _recover(folder)
    refuse_foreign(folder, (CONFIG, DATASET, CHECKPOINT), overwrite)
    text = to_toml(config)
    written = folder / CONFIG
    finished = present(folder / DATASET) and not present(folder / CHECKPOINT)
    other = present(written) and written.read_text(encoding="utf-8", errors="replace") != text
    if (finished or other) and not overwrite:
        what = "a finished run" if finished else "another run"
        raise ValueError(f"--out: {folder} holds {what}: give another folder, or --overwrite")
    try:
        if finished or other:
            _set_aside(folder)
        write_text(written, text)
    except OSError as error:
        raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None


def _recover(folder: Path) -> None:
    """Clean up after a killed command: remove temporary files, and restore a run that it was moving."""
    for name in (*FILES, ASIDE):
        recover(folder / name)
    if present(folder / ASIDE) and not present(folder / CONFIG):  # the new command ended before its run began
        rename(folder / ASIDE, folder / MOVING)
    _move_back(folder)


def _set_aside(folder: Path) -> None:
    """Keep a run that is to be replaced until the new one has ended, in case the new one fails."""
    if present(folder / ASIDE):  # the run in the folder was not finished
        _clear(folder)
        return
    (folder / MOVING).mkdir()
    for name in FILES:
        if present(folder / name):
            rename(folder / name, folder / MOVING / name)
    rename(folder / MOVING, folder / ASIDE)


def _bring_back(folder: Path) -> None:
    if present(folder / ASIDE):
        _clear(folder)
        rename(folder / ASIDE, folder / MOVING)
        _move_back(folder)


def _move_back(folder: Path) -> None:
    if present(folder / MOVING):
        for path in (folder / MOVING).iterdir():
            rename(path, folder / path.name)
        (folder / MOVING).rmdir()


def _clear(folder: Path) -> None:
    """Remove the files that a run has written, and nothing else."""
    for name in FILES:
        remove(folder / name)


def _run(config: RunConfig, model: Any, state: Any, rule: Any, folder: Path | None, overwrite: bool) -> Any:
    import tokenfield as tkf

    from ..driver.checkpoint import CheckpointError

    checkpoint = None if folder is None else folder / CHECKPOINT
    try:
        with resumable_from(checkpoint):
            traj = _trajectory(config, model, state, rule, checkpoint)
    except CheckpointError:
        if checkpoint is None or not overwrite:
            raise
        checkpoint.unlink()
        return _run(config, model, state, rule, folder, overwrite)
    except KeyboardInterrupt:
        with resumable_from(checkpoint):
            raise Interrupted(interrupted()) from None
    start = config.tokens.used() if config.state is None else config.state.model_dump()
    attributes: dict[str, Any] = {
        "start": json.dumps(start),
        **({"seed": start["seed"]} if "seed" in start else {}),
    }
    return tkf.Trajectory(traj.dataset.assign_attrs(attributes))


def _trajectory(config: RunConfig, model: Any, state: Any, rule: Any, checkpoint: Path | None) -> Any:
    import tokenfield as tkf

    if config.t1 is None:
        return tkf.layers(model, state, config.depth, config.step, checkpoint=checkpoint)
    return tkf.simulate(
        model,
        state,
        config.t1,
        save_at=config.save_at,
        rtol=config.rtol,
        atol=config.atol,
        method=config.method,
        merge_tolerance=config.merge_tolerance,
        dt=config.dt,
        seed=config.noise.seed if config.noise is not None and isinstance(state, tkf.Tokens) else None,
        stop_when=rule,
        checkpoint=checkpoint,
    )


def _write(traj: Any, folder: Path, animation: Animation, format: str) -> None:
    from ..report import write_report

    try:
        traj.save(folder / DATASET, overwrite=True)
        _print_status("drawing")
        write_figure(traj.plot(), figure_file(folder, FIGURE, format))
        drawn = animation.write(traj, folder)
        write_report(traj, folder, animation=drawn if animation.format == "gif" else None, command=command_line())
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while drawing; the run is in {folder}: the same command draws it") from None
    remove(folder / ASIDE)
    (folder / CHECKPOINT).unlink(missing_ok=True)  # while this file exists, the folder is not finished


def _print_status(message: str) -> None:
    if shows_progress():
        say(message + " …")


def _print(traj: Any, numbers: dict[str, Any], folder: Path | None) -> None:
    from .run_lines import run_lines

    for label, text in run_lines(traj, numbers, None if folder is None else str(folder / REPORT)):
        print(f"{label:7s} {text}")
