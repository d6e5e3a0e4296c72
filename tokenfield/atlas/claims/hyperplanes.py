"""A simple positive leading eigenvalue of V: rescaled tokens settle on at most three parallel hyperplanes."""

import numpy as np

import tokenfield as tkf
from tokenfield.observables import Clusters

from ..claim import Claim, Evidence, at_least, at_most, equal

N, D, T = 24, 3, 15.0


def draw_model(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Random Q, K, V with eigenvalues 1 = lambda_1 > |lambda_2| of V and <Q phi, K phi> > 0; its eigenvectors."""
    while True:
        Q, K, V = rng.standard_normal((3, D, D))
        values, right = np.linalg.eig(V)
        first = np.argmax(np.abs(values))
        top = values[first]
        if top.imag != 0 or top.real <= 0 or np.abs(np.delete(values, first)).max() > 0.9 * top.real:
            continue
        phi = right[:, first].real
        if (Q @ phi) @ (K @ phi) > 0.2:
            return Q, K, V / top.real, np.linalg.inv(right)[first].real, phi


def levels(coordinate: np.ndarray) -> Clusters:
    return tkf.clusters(tkf.Tokens(coordinate[:, None]), tol=1e-4, metric="distance")


def measure(quick: bool) -> Evidence:
    counts, gaps, right_counts, paths = [], [], [], []
    for seed in range(12 if quick else 200):
        rng = np.random.default_rng(seed)
        Q, K, V, left, right = draw_model(rng)
        model = tkf.Transformer(tkf.Softmax(Q=Q, K=K, V=V), norm=tkf.Rescaled())
        start = tkf.Tokens(rng.standard_normal((N, D)))
        run = tkf.simulate(model, start, T, rtol=1e-10, atol=1e-12, progress=False)
        u = run.dataset["x"].values @ left
        found = levels(u[-1])
        counts.append(found.count)
        right_counts.append(levels(run.dataset["x"].values[-1] @ right).count)
        allowed = np.array([u[-1].min(), 0.0, u[-1].max()])
        gaps.append(np.abs(u[-1][:, None] - allowed).min(axis=1).max())
        paths.append((run.times, u))
    tally = {k: counts.count(k) for k in sorted(set(counts))}
    checks = (
        at_most("most levels of the leading left eigenvector", 3, max(counts)),
        at_most("largest distance of a token to the lowest level, the highest or 0", 1e-4, max(gaps)),
        at_least("most levels of the leading right eigenvector (not the normal of the planes)", 4, max(right_counts)),
        equal(
            "runs with one or two levels (a third, at 0, is unstable)", len(counts), tally.get(1, 0) + tally.get(2, 0)
        ),
    )
    chosen = [counts.index(2), counts.index(1)]
    caption = (
        "The coordinate of 24 tokens of R^3 along the leading left eigenvector of V, for two random triples (Q, K, V): "
        f"two levels and one. In all: {', '.join(f'{v} runs with {k} level(s)' for k, v in tally.items())}."
    )
    return Evidence(checks, figure([paths[k] for k in chosen]), caption)


def figure(paths):
    from matplotlib.figure import Figure

    picture = Figure(figsize=(6, 3.5), layout="constrained")
    for axes, (times, u) in zip(picture.subplots(1, 2), paths, strict=True):
        axes.plot(times, u, color="#0072B2", lw=0.8)
        for level in levels(u[-1]).centres[:, 0]:
            axes.axhline(level, color="#D55E00", ls="--", lw=1.2, zorder=3)
        axes.set(xlabel="time $t$", xlim=(0, 10), ylabel=r"$\langle \psi_1, z_i(t)\rangle$")
    return picture


CLAIM = Claim(
    id="hyperplanes",
    section="Clustering in R^d",
    title="At most three hyperplanes",
    statement=(
        "Let the eigenvalue of V of largest modulus be real, positive and simple, φ₁ its eigenvector, ⟨Qφ₁, Kφ₁⟩ > 0. "
        "Then every rescaled token z = e^{−tV}x tends to one of at most three parallel hyperplanes: the levels of the "
        "leading left eigenvector ψ₁, namely the lowest value that ⟨ψ₁, z⟩ keeps, the highest, and 0. "
        "The level 0 is unstable and is not reached from generic starts."
    ),
    source=(
        "B. Geshkovski, C. Letrouit, Y. Polyanskiy, P. Rigollet, The emergence of clusters in self-attention dynamics, "
        "NeurIPS 2023, section 4"
    ),
    measure=measure,
)
