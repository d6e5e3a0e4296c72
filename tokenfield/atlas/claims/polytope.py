"""V = I and A positive definite: rescaled tokens converge to the vertices of a polytope."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, equal

TIMES = np.append(np.linspace(0, 5, 101), 30.0)


def start(seed: int, n: int = 40) -> tuple[np.ndarray, tkf.Tokens]:
    """Return a random positive definite A (eigenvalues between 6 and 12), and tokens uniform in the unit disc."""
    rng = np.random.default_rng(seed)
    frame, _ = np.linalg.qr(rng.standard_normal((2, 2)))
    A = (frame * rng.uniform(6, 12, 2)) @ frame.T
    radius, angle = np.sqrt(rng.uniform(size=n)), rng.uniform(0, 2 * np.pi, n)
    return (A + A.T) / 2, tkf.Tokens(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def escape(later: np.ndarray, earlier: np.ndarray) -> float:
    """Return how far the points `later` lie outside the convex hull of `earlier` (negative: all inside)."""
    from scipy.spatial import ConvexHull

    sides = ConvexHull(earlier).equations
    return float((later @ sides[:, :2].T + sides[:, 2]).max())


def vertices(points: np.ndarray) -> np.ndarray:
    """Return the extreme points in order, as maximizers along 3600 directions (this also works if the hull is a segment)."""
    angles = np.linspace(0, 2 * np.pi, 3600, endpoint=False) + 1e-4
    best = np.argmax(points @ np.stack([np.cos(angles), np.sin(angles)]), axis=0)
    return points[list(dict.fromkeys(best))]


def measure(quick: bool) -> Evidence:
    escapes, ties, strays, corners, runs = [], [], 0, [], []
    for seed in range(6 if quick else 60):
        A, tokens = start(seed)
        model = tkf.Transformer(tkf.Softmax(A=A), norm=tkf.Rescaled())
        run = tkf.simulate(model, tokens, TIMES[-1], save_at=TIMES, rtol=1e-10, atol=1e-12, progress=False)
        z = run.dataset["x"].values
        escapes += [escape(z[k + 1], z[k]) for k in range(100)]
        corners.append(vertices(tkf.clusters(run.final, tol=1e-6, metric="distance").centers))
        own = np.einsum("ni,ij,nj->n", z[-1], A, z[-1])
        ties.append(np.abs((z[-1] @ A @ corners[-1].T).max(axis=1) - own).max())
        strays += int((np.linalg.norm(z[-1][:, None] - corners[-1], axis=-1).min(axis=1) > 1e-6).sum())
        runs.append(z)
    counts = [len(v) for v in corners]
    checks = (
        at_most("largest distance outside an earlier hull, t ≤ 5", 1e-9, max(escapes)),
        at_most("at t = 30, largest | max_j ⟨Az, v_j⟩ − ⟨Az, z⟩ | over tokens z", 1e-8, max(ties)),
        equal("tokens farther than 1e-6 from every vertex at t = 30", 0, strays),
        at_least("largest number of vertices of a limit polytope", 3, max(counts)),
        at_most("mean number of vertices, 40 tokens", 8, float(np.mean(counts))),
    )
    return Evidence(
        checks, draw(runs[0], corners[0]), "40 rescaled tokens in R^2, V = I, a random positive definite A."
    )


def draw(z: np.ndarray, corners: np.ndarray):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
    axes.plot(z[:, :, 0], z[:, :, 1], color="#0072B2", lw=0.8)
    axes.plot(*z[0].T, "o", color="#0072B2", ms=3, label="tokens at $t = 0$")
    early = (z[0], "hull, $t = 0$", ":", "black"), (z[10], "hull, $t = 0.5$", "--", "#009E73")
    for points, label, style, color in (*early, (corners, "$K$", "-", "#D55E00")):
        ring = vertices(points)
        axes.plot(*np.concatenate([ring, ring[:1]]).T, style, color=color, lw=1.2, label=label)
    axes.plot(*corners.T, "^", color="#D55E00", ms=7, label="vertices $v_j$")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


CLAIM = Claim(
    id="polytope",
    section="Clustering in R^d",
    title="Tokens converge to the vertices of a polytope",
    statement="Let V = I, A be symmetric positive definite, and z = e^{−t}x. The convex hull of the rescaled tokens shrinks "
    "to a convex polytope K with vertices v_j. Each token tends to a vertex, to a boundary point x with ⟨Ax, x⟩ = "
    "max_j ⟨Ax, v_j⟩, or to 0. The last two are unstable: from random starts tokens reach only vertices, and few of them.",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet, The emergence of clusters in self-attention dynamics, NeurIPS "
    "2023, section 3; quoted in Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part I",
    measure=measure,
)
