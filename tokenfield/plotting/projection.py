"""Project tokens in R^d to the page: the circle, the plane, a view of the sphere, principal components."""

from typing import NamedTuple

import numpy as np

from .frames import Frames, relative

PCA_FRAMES = 12
PCA_TOKENS = 256


class View(NamedTuple):
    """Tokens projected to the page.

    Attributes:
        kind: "line" (d = 1), "circle", "disc" (of Poincaré), "plane", "sphere", "space" (R^3) or "pca".
        points: (f, n, 2) positions on the page; for "line" the token and its number.
        depth: (f, n) height above the page, toward the reader; 0 where there is none.
        axes: names of the axes, () where none are drawn.
        title: the title of the panel.
        basis: (3, 3) right, up and towards the reader, for "sphere" and "space".
        x: (f, n, d) what is drawn, before the projection.
        period: of the coordinates, if they are angles.
    """

    kind: str
    points: np.ndarray
    depth: np.ndarray
    axes: tuple[str, ...]
    title: str
    basis: np.ndarray
    x: np.ndarray
    period: float | None = None


def view_of(frames: Frames) -> View:
    """Return the view that fits the dimension and the geometry of a run."""
    return _view(frames)._replace(period=frames.space.period)


def _view(frames: Frames) -> View:
    x = relative(frames) if frames.growing else frames.x
    flat = np.zeros(x.shape[:2])
    names = tuple(f"${symbol(frames)}_{k + 1}$" for k in range(min(frames.d, 3)))
    basis = np.eye(3)
    if frames.d == 1:
        ranks = np.broadcast_to(np.argsort(np.argsort(x[0, :, 0])) + 1.0, x.shape[:2])
        return View("line", np.stack([x[..., 0], ranks], -1), flat, (names[0], "token"), title_of(frames), basis, x)
    if frames.d == 2:
        kind = "circle" if frames.spherical else "disc" if frames.space.ball else "plane"
        return View(kind, x, flat, names, title_of(frames), basis, x)
    if frames.d == 3:
        basis = viewing_basis(x, frames.weights[-1]) if frames.spherical else oblique_basis(-60, 22)
        rotated = x @ basis.T
        kind = "sphere" if frames.spherical else "space"
        return View(kind, rotated[..., :2], rotated[..., 2], names, title_of(frames), basis, x)
    axes, explained = principal_axes(x, frames.weights, 2)
    title = f"{title_of(frames)}\nPCA: {100 * explained.sum():.0f} % of the variance"
    labels = tuple(f"PC {k + 1} ({100 * share:.0f} %)" for k, share in enumerate(explained))
    return View("pca", x @ axes.T, flat, labels, title, basis, x)


def symbol(frames: Frames) -> str:
    """Return the token's symbol as TeX."""
    return r"\theta" if frames.symbol == "θ" else frames.symbol


def title_of(frames: Frames) -> str:
    """Return what is drawn, as text."""
    space = rf"$\mathbb{{R}}^{{{frames.d}}}$" if frames.d > 1 else r"$\mathbb{R}$"
    if frames.spherical:
        what = "Directions" if frames.symbol == "θ" else "Tokens"
        return what + {2: " on the circle", 3: " on the sphere"}.get(frames.d, f" on the sphere of {space}")
    if frames.charted:
        return f"Tokens, {frames.space.title}"
    what = f"Rescaled tokens in {space}" if frames.symbol == "z" else f"Tokens in {space}"
    return what + (" / r.m.s. length" if frames.growing else "")


def principal_axes(x: np.ndarray, weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading principal axes of tokens pooled over time, and the share of the variance that each explains.

    The pool is at most 12 evenly chosen frames of at most 256 evenly chosen tokens, weighted and centered. Axes have
    their largest coordinate positive, so that the same run gives the same picture.

    Args:
        x: (f, n, d) tokens.
        weights: (f, n) weights.
        count: number of axes.

    Returns:
        (count, d) axes and (count,) shares.
    """
    pick = lambda size, most: np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))  # noqa: E731
    times, tokens = pick(x.shape[0], PCA_FRAMES), pick(x.shape[1], PCA_TOKENS)
    pool = x[times][:, tokens].reshape(-1, x.shape[2])
    chosen = weights[times][:, tokens]
    w = (chosen / chosen.sum(axis=1, keepdims=True) / len(times)).ravel()
    rows = np.sqrt(w)[:, None] * (pool - w @ pool)
    _, values, axes = np.linalg.svd(np.pad(rows, ((0, max(0, count - len(rows))), (0, 0))), full_matrices=False)
    axes, variances = axes[:count], values[:count] ** 2
    axes = axes * np.where(axes[np.arange(count), np.abs(axes).argmax(1)] < 0, -1, 1)[:, None]
    total = (values**2).sum()
    return axes, variances / total if total > 0 else np.zeros(count)


def viewing_basis(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a view of the sphere with as much as possible of the final mass in front; slightly from above if possible."""
    views = [
        oblique_basis(azimuth, elevation) for elevation in (20, 35, 0, -20, -35) for azimuth in range(-60, 300, 15)
    ]
    in_front = [weights @ np.tanh(2 * (x[-1] @ view[2])) for view in views]
    return views[int(np.argmax(np.round(in_front, 2)))]


def oblique_basis(azimuth: float, elevation: float) -> np.ndarray:
    """Return the directions right, up and towards the reader, for a reader at these angles (degrees)."""
    a, e = np.radians([azimuth, elevation])
    towards = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([-np.sin(a), np.cos(a), 0.0])
    return np.stack([right, np.cross(towards, right), towards])


def graticule(points: int = 181) -> list[np.ndarray]:
    """Return parallels and meridians of the unit sphere every 30°, each as (points, 3)."""
    angle = np.linspace(0, 2 * np.pi, points)
    circle, height = np.stack([np.cos(angle), np.sin(angle)], 1), np.ones((points, 1))
    parallels = [np.hstack([np.cos(a) * circle, np.sin(a) * height]) for a in np.radians([-60, -30, 0, 30, 60])]
    around = [np.array([np.cos(a), np.sin(a)]) for a in np.radians(np.arange(0, 180, 30))]
    return parallels + [np.hstack([circle[:, :1] * direction, circle[:, 1:]]) for direction in around]
