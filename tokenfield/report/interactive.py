"""An interactive figure of tokens, drawn by plotly inside the page, that can be rotated and moved in time."""

from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from ..plotting.frames import Frames, areas, final_clusters, read_frames
from ..plotting.projection import graticule, oblique_basis, principal_axes, view_of, viewing_basis
from ..plotting.style import GRAY, token_colors
from ..plotting.time_axis import time_labels
from ..results import Trajectory
from .controls import layout_of

MOST_TOKENS = 500
# On a narrow screen the plot is as high as it is wide, with room for the slider: plotly would cut a ball off at both sides.
FIT = """
const plot = document.getElementById("{plot_id}");
const fit = () => {
  const height = Math.min(640, plot.clientWidth + 140);
  if (plot.clientHeight === height) return;
  plot.parentElement.style.height = `${height}px`;
  Plotly.relayout(plot, { height });
};
window.addEventListener("resize", fit);
fit();
"""
BALL = "#f4f4f4"  # the sphere hides the tokens behind it: rotate it to see them
MOST_FRAMES = 40


def interactive(traj: Trajectory, tol: float = 1e-3) -> tuple[str, str]:
    """Return a scatter plot with a slider for time, as HTML that includes plotly.js, and a caption in plain text.

    Tokens in R^3 are drawn in space, tokens in fewer dimensions in the plane, and tokens in more dimensions by their three
    leading principal components. At most 40 frames and 500 tokens (a random sample, always the same one) are drawn.
    """
    from plotly.graph_objects import Figure, Frame

    shown = read_frames(traj, MOST_FRAMES).sample(MOST_TOKENS)
    moments = time_labels(traj, shown.times, shown.log_times)
    colors = [to_hex(rgba) for rgba in token_colors(final_clusters(shown, tol)[0])]
    points, axes, caption = positions(shown)
    on_sphere = shown.spherical and shown.d == 3
    toward = viewing_basis(shown.x, shown.weights[-1])[2] if on_sphere else oblique_basis(-60, 22)[2]
    sizes = np.sqrt([areas(w) for w in shown.weights]).astype(np.float32)
    moving = bool((sizes != sizes[:1]).any())
    figure = Figure(
        data=[_scatter(points[0], sizes[0], colors), *_scenery(shown)],
        frames=[
            Frame(data=[_scatter(each, size if moving else None)], traces=[0], name=str(k))
            for k, (each, size) in enumerate(zip(points, sizes, strict=True))
        ],
        layout=layout_of(points, axes, *moments, toward, hidden=on_sphere),
    )
    options = {"displayModeBar": False, "responsive": True}
    html = figure.to_html(
        full_html=False, include_plotlyjs=True, config=options, div_id="tokens", auto_play=False, post_script=FIT
    )
    return html, caption + (f" {shown.share} are shown." if shown.share else "")


def positions(shown: Frames) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Return (f, n, 2 or 3) coordinates in single precision, names of the axes, and what is shown."""
    view = view_of(shown)
    letter = shown.symbol
    if shown.d > 3:
        axes, explained = principal_axes(view.x, shown.weights, 3)
        names = tuple(f"PC {k + 1} ({100 * share:.0f} %)" for k, share in enumerate(explained))
        caption = f"The three leading principal components, {100 * explained.sum():.0f} % of the variance over time."
        return (view.x @ axes.T).astype(np.float32), names, caption
    if shown.d == 1:
        return view.points.astype(np.float32), (letter, "token, by initial position"), "Tokens on the line."
    relative = " divided by their root mean square length" if shown.growing else ""
    what = "Directions of tokens" if letter == "θ" else "Rescaled tokens" if letter == "z" else "Tokens"
    names = tuple(f"{letter}<sub>{k + 1}</sub>" for k in range(shown.d))
    hint = " Drag to rotate, scroll to zoom." if shown.d == 3 else ""
    return view.x.astype(np.float32), names, f"{what}{relative}. Move the slider, or press play.{hint}"


def _scatter(points: np.ndarray, sizes: np.ndarray | None, colors: list[str] | None = None) -> Any:
    """Return the tokens at one time. A frame gives positions, and sizes relative to a plain mark if they change."""
    from plotly.graph_objects import Scatter, Scatter3d

    space = points.shape[1] == 3
    options = dict(zip("xyz", points.T, strict=False))
    marker: dict[str, Any] = {} if sizes is None else {"size": (4 if space else 8) * sizes}
    if marker:
        options["marker"] = marker
    if colors is not None:
        marker |= {"color": colors, "opacity": 1.0, "line": {"width": 0}}
        names = [f"token {k}" for k in range(len(points))]
        options |= {"mode": "markers", "marker": marker, "text": names, "hoverinfo": "text"}
    return (Scatter3d if space else Scatter)(**options)


def _scenery(shown: Frames) -> list[Any]:
    """Return the unit sphere or circle if tokens live on it."""
    from plotly.graph_objects import Scatter, Scatter3d, Surface

    if not shown.spherical or shown.d > 3:
        return []
    looks = {"mode": "lines", "line": {"color": GRAY, "width": 1}, "hoverinfo": "skip"}
    angle = np.linspace(0, 2 * np.pi, 121, dtype=np.float32)
    if shown.d == 2:
        return [Scatter(x=np.cos(angle), y=np.sin(angle), **looks)]
    gap = np.full((1, 3), np.nan)
    lines = np.concatenate([part for line in graticule(points=61) for part in (line, gap)]).astype(np.float32)
    height = np.linspace(0, np.pi, 31, dtype=np.float32)
    x, y = np.outer(np.cos(angle[::4]), np.sin(height)), np.outer(np.sin(angle[::4]), np.sin(height))
    z = np.broadcast_to(np.cos(height), x.shape)
    flat = {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0}
    plain = {"colorscale": [[0, BALL], [1, BALL]], "showscale": False, "hoverinfo": "skip"}
    ball = Surface(x=0.985 * x, y=0.985 * y, z=0.985 * z, lighting=flat, **plain)
    return [ball, Scatter3d(**dict(zip("xyz", lines.T, strict=True)), opacity=0.5, **looks)]
