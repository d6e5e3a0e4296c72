"""The report of a run."""

import os
import tempfile
from pathlib import Path

from .._files import write_text
from ..results import Trajectory
from ..states import Tokens
from .page import code, figure_png, heading, image, page, paragraph, table
from .summary import summary
from .words import config_rows, final_rows, full_config, headline, provenance_rows

CAPTION = (
    "Left, the tokens: circles where they start, marks where they end, coloured by final cluster. Right, energy and "
    "order over time, and how the cosines (or distances) between tokens are spread; white means no pair at all."
)


def write_report(
    traj: Trajectory,
    folder: str | os.PathLike,
    title: str = "Tokens over time",
    command: str | None = None,
    animation: str | os.PathLike | bool | None = True,
    tol: float = 1e-3,
) -> Path:
    """Write `report.html`: numbers, figure, animation, a plot to turn around, configuration and provenance.

    It is one file that needs no network: the browser is told to refuse one.

    Args:
        traj: a run.
        folder: where to write it; made if it is not there.
        title: heading of the page.
        command: the command or code that made the run, if it is known.
        animation: True to make an animation, the path of a GIF to take that one, None to leave it out.
        tol: tolerance of the final clusters.

    Returns:
        The path of the file.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.report.write_report(traj, "run", title="Post-LN at beta = 9")
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    of_tokens = traj.dataset.attrs["state"] == Tokens.__name__
    views = (
        [heading("Interactive view"), _interactive(traj, tol), _animation(traj, animation, tol)] if of_tokens else []
    )
    body = "\n".join(
        [
            heading(title, 1),
            paragraph(headline(traj), "lead"),
            code(command) if command else "",
            heading("At the end"),
            table(final_rows(traj, summary(traj, tol))),
            heading("Over time"),
            _figure(traj, tol),
            *views,
            heading("How it was made"),
            '<div class="columns">',
            table(config_rows(full_config(traj))),
            table(provenance_rows(traj)),
            "</div>",
        ]
    )
    path = target / "report.html"
    write_text(path, page(title, body))
    return path


def _figure(traj: Trajectory, tol: float) -> str:
    from ..plotting import overview

    drawn = figure_png(overview(traj, tol=tol))
    if traj.dataset.attrs["state"] != Tokens.__name__:
        return image(drawn, "the state over time", wide=True)
    return image(drawn, "tokens, energy and cosines over time", CAPTION, wide=True)


def _interactive(traj: Trajectory, tol: float) -> str:
    from .interactive import interactive

    html, caption = interactive(traj, tol)
    return f"{paragraph(caption, 'note')}\n{html}"


def _animation(traj: Trajectory, animation: str | os.PathLike | bool | None, tol: float) -> str:
    from ..plotting import animate

    if animation is None or animation is False:
        return ""
    if animation is not True:
        gif = Path(animation).read_bytes()
    else:
        with tempfile.TemporaryDirectory() as scratch:
            gif = animate(traj, Path(scratch) / "tokens.gif", tol=tol).read_bytes()
    return f"{heading('Animation')}\n{image(gif, 'the tokens moving', kind='gif')}"
