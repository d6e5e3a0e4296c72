"""The report of a run."""

import os
import tempfile
from html import escape
from pathlib import Path

from .._files import present
from ..results import Trajectory
from ..states import Tokens
from .page import classed, figure_bytes, image, paragraph, table
from .run_comparisons import ABOUT, NONE, comparisons
from .run_sentences import answer, question
from .run_tables import config_rows, final_rows, full_config, provenance_rows
from .story import Story, write_story
from .summary import summary

CAPTION = (
    "Left, the tokens: circles where they start, marks where they end, colored by final cluster. Right, energy and "
    "order over time, and the distribution of the cosines (or distances) between tokens; white means no pairs."
)
FILES = {
    "trajectory.zarr": "all states of the run, as a Zarr dataset",
    "config.toml": "the configuration: `tokenfield simulate config.toml` runs it again",
    **{f"overview.{format}": "the figure" for format in ("png", "pdf", "svg")},
    **{f"animation.{format}": "the animation" for format in ("gif", "mp4", "html")},
}
SNIPPET = """import tokenfield as tkf

traj = tkf.load("trajectory.zarr")
print(traj.final, traj.times[-1])
traj.plot().savefig("again.png")"""


def write_report(
    traj: Trajectory,
    folder: str | os.PathLike,
    title: str = "Tokens over time",
    command: str | None = None,
    animation: str | os.PathLike | bool | None = True,
    tol: float = 1e-3,
) -> Path:
    """Write `report.html`: the answer, predictions, figures, an interactive plot, data and provenance.

    It is one file that needs no network: its content security policy does not let the browser load anything.

    Args:
        traj: a run.
        folder: where to write it; created if needed.
        title: heading of the page.
        command: the command or code that made the run, if it is known.
        animation: True to make an animation, the path of a GIF to use an existing one, None for no animation.
        tol: tolerance of the final clusters.

    Returns:
        The path of the file.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.report.write_report(traj, "run", title="Post-LN at beta = 9")
    """
    return write_story(story(traj, Path(folder), title, command, animation, tol), folder)


def story(
    traj: Trajectory,
    folder: Path,
    title: str,
    command: str | None,
    animation: str | os.PathLike | bool | None,
    tol: float,
) -> Story:
    """Return the contents of the report of a run. Files are linked if they are in `folder`."""
    numbers = summary(traj, tol)
    compared = comparisons(traj, numbers)
    seen, more = answer(traj, numbers)
    evidence = [("Over time", _figure(traj, tol, f"{seen} {more}".strip()))]
    if traj.dataset.attrs["state"] == Tokens.__name__:
        evidence += [("Interactive view", _interactive(traj, tol)), *_animation(traj, animation, tol)]
    evidence.append(("At the end", table(final_rows(traj, numbers))))
    saved = {name: about for name, about in FILES.items() if present(folder / name)}
    return Story(
        title=title,
        question=question(traj),
        answer=seen,
        more=more,
        comparisons=compared,
        about_comparisons=ABOUT if compared else NONE,
        evidence=evidence,
        files=saved,
        snippet=SNIPPET if "trajectory.zarr" in saved else "",
        command=command,
        details=[
            ("Configuration", table(config_rows(full_config(traj)))),
            ("Versions, seed, tolerances", table(provenance_rows(traj))),
        ],
    )


def _figure(traj: Trajectory, tol: float, seen: str) -> str:
    from ..plotting import overview

    drawn = figure_bytes(overview(traj, tol=tol))
    if traj.dataset.attrs["state"] != Tokens.__name__:
        return image(drawn, f"The state over time. {seen}", wide=True)
    return image(drawn, f"Tokens, their energy and their cosines over time. {seen}", CAPTION, wide=True)


def _interactive(traj: Trajectory, tol: float) -> str:
    from .interactive import interactive

    html, caption = interactive(traj, tol)
    plot = f'<div class="plot" role="group" aria-label="Interactive plot. {escape(caption)}">{html}</div>'
    return classed("screen", f"{paragraph(caption, 'note')}\n{plot}")


def _animation(traj: Trajectory, animation: str | os.PathLike | bool | None, tol: float) -> list[tuple[str, str]]:
    from ..plotting import animate

    if animation is None or animation is False:
        return []
    if animation is not True:
        gif = Path(animation).read_bytes()
    else:
        with tempfile.TemporaryDirectory() as scratch:
            gif = animate(traj, Path(scratch) / "tokens.gif", tol=tol).read_bytes()
    return [("Animation", image(gif, "The tokens moving from their start to their end", kind="gif"))]
