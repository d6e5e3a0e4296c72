"""V = I and a positive definite score: rescaled tokens gather at the vertices of a polytope."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, equal

T = 30.0


def start(seed: int, n: int = 40) -> tuple[np.ndarray, tkf.Tokens]:
    """A random positive definite A (eigenvalues between 6 and 12), and tokens uniform in the unit disc."""
    rng = np.random.default_rng(seed)
    frame, _ = np.linalg.qr(rng.standard_normal((2, 2)))
    A = (frame * rng.uniform(6, 12, 2)) @ frame.T
    radius, angle = np.sqrt(rng.uniform(size=n)), rng.uniform(0, 2 * np.pi, n)
    return (A + A.T) / 2, tkf.Tokens(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def outside(later: np.ndarray, earlier: np.ndarray) -> float:
    """The largest distance of a point of `later` to the hull of `earlier`'s supporting lines (negative: inside)."""
    from scipy.spatial import ConvexHull

    faces = ConvexHull(earlier).equations
    return float((later @ faces[:, :2].T + faces[:, 2]).max())


def vertices(points: np.ndarray) -> np.ndarray:
    """Extreme points, as maximisers of 3600 directions (this also serves when the hull is a segment)."""
    angles = np.linspace(0, 2 * np.pi, 3600, endpoint=False) + 1e-4
    return points[np.unique(np.argmax(points @ np.stack([np.cos(angles), np.sin(angles)]), axis=0))]


def measure(quick: bool) -> Evidence:
    runs, leaks, ties, strays, counts = [], [], [], [], []
    for seed in range(6 if quick else 60):
        A, tokens = start(seed)
        model = tkf.Transformer(tkf.Softmax(A=A), norm=tkf.Rescaled())
        run = tkf.simulate(model, tokens, T, save_at=61, rtol=1e-10, atol=1e-12, progress=False)
        z = run.dataset["x"].values
        leaks.append(max(outside(z[k + 1], z[k]) for k in range(20)))  # to t = 10; later hulls are flat to rounding
        corners = vertices(tkf.clusters(run.final, tol=1e-6, metric="distance").centres)
        reach = np.linalg.norm(z[-1][:, None] - corners, axis=-1).min(axis=1)
        scores = z[-1] @ A @ corners.T
        own = np.einsum("ni,ij,nj->n", z[-1], A, z[-1])
        ties.append(np.abs(scores.max(axis=1) - own).max())
        strays.append(int((reach > 1e-6).sum()))
        counts.append(len(corners))
        runs.append((z, corners))
    checks = (
        at_most("largest escape from an earlier hull", 1e-8, max(leaks)),
        at_most("at t = 30, largest | max_j <Az, v_j> - <Az, z> | over tokens z", 1e-8, max(ties)),
        equal("tokens further than 1e-6 from every vertex at t = 30 (the other kinds are unstable)", 0, sum(strays)),
        at_least("most vertices of a limit polytope", 3, max(counts)),
        at_most("mean number of vertices (of 40 tokens)", 8, float(np.mean(counts))),
    )
    caption = (
        f"40 tokens, V = I, random A > 0. Dots: start; lines: rescaled tokens; triangles: the {counts[SHOWN]} vertices "
        "at t = 30. Dashed: hulls at t = 0 and 0.5; solid: the limit."
    )
    return Evidence(checks, draw(*runs[SHOWN]), caption)


SHOWN = 0


def draw(z: np.ndarray, corners: np.ndarray):
    from matplotlib.figure import Figure
    from scipy.spatial import ConvexHull

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
    axes.plot(z[:, :, 0], z[:, :, 1], color="#0072B2", lw=0.7, alpha=0.7)
    axes.plot(*z[0].T, "o", color="#0072B2", ms=3)
    for points, style, colour in ((z[0], "--", "#999999"), (z[1], "--", "#E69F00"), (corners, "-", "#D55E00")):
        ring = points[ConvexHull(points).vertices]
        axes.plot(*np.concatenate([ring, ring[:1]]).T, style, color=colour, lw=1.2)
    axes.plot(*corners.T, "^", color="#D55E00", ms=8)
    return figure


CLAIM = Claim(
    id="polytope",
    section="Clustering in R^d",
    title="Tokens gather at the vertices of a polytope",
    statement=(
        "Let V = I and A be symmetric positive definite, and z = e^{−t}x. The convex hull of the rescaled tokens "
        "shrinks, and tends to a convex polytope K with vertices v_j. Each token tends to a vertex, to a boundary point "
        "x with ⟨Ax, x⟩ = max_j ⟨Ax, v_j⟩, or to 0. The last two kinds are unstable: generic starts give vertices only, "
        "and usually few of them."
    ),
    source=(
        "B. Geshkovski, C. Letrouit, Y. Polyanskiy, P. Rigollet, The emergence of clusters in self-attention dynamics, "
        "NeurIPS 2023, section 3; quoted in V. Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part I"
    ),
    measure=measure,
)
