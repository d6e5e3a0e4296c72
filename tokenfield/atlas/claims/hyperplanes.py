"""If V has a simple positive leading eigenvalue, rescaled tokens converge to at most three parallel hyperplanes."""

import numpy as np

import tokenfield as tkf
from tokenfield.observables import Clusters

from ..claim import Claim, Evidence, at_least, at_most, equal

N, D, T = 24, 3, 10.0


def random_model(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return random Q, K, V and the leading left and right eigenvectors psi, phi of V.

    V has `1 = lambda_1 > |lambda_2|`, and `<Q phi, K phi> > 0`.
    """
    while True:
        Q, K, V = rng.standard_normal((3, D, D))
        values, right = np.linalg.eig(V)
        first = np.argmax(np.abs(values))
        top, phi = values[first], right[:, first].real
        simple = top.imag == 0 and np.abs(np.delete(values, first)).max() < 0.9 * top.real
        if simple and (Q @ phi) @ (K @ phi) > 0.2:
            return Q, K, V / top.real, np.linalg.inv(right)[first].real, phi


def levels(coordinate: np.ndarray) -> Clusters:
    """Return the levels of a coordinate; one token may have a level of its own."""
    return tkf.clusters(tkf.Tokens(coordinate[:, None]), tol=0.01, metric="distance")


def measure(quick: bool) -> Evidence:
    counts, gaps, right_counts, paths = [], [], [], []
    for seed in range(12 if quick else 200):
        rng = np.random.default_rng(seed)
        Q, K, V, left, right = random_model(rng)
        model = tkf.Transformer(tkf.Softmax(Q=Q, K=K, V=V), norm=tkf.Rescaled())
        start = tkf.Tokens(rng.standard_normal((N, D)))
        run = tkf.simulate(model, start, T, rtol=1e-9, atol=1e-11, progress=False)
        z = run.dataset["x"].values
        u = z @ left
        counts.append(len(levels(u[-1]).sizes))
        right_counts.append(len(levels(z[-1] @ right).sizes))
        gaps.append(np.abs(u[-1][:, None] - [u[-1].min(), 0.0, u[-1].max()]).min(axis=1).max())
        paths.append((run.times, u))
    one, two = counts.count(1), counts.count(2)
    checks = (
        at_most("largest number of levels of the leading left eigenvector", 3, max(counts)),
        at_most(
            "largest distance of a token from the nearest of: lowest level, highest level, 0; t = 10", 0.01, max(gaps)
        ),
        at_least(
            "largest number of levels of the leading right eigenvector (not normal to the planes)", 4, max(right_counts)
        ),
        equal("number of runs with one or two levels", len(counts), one + two),
    )
    caption = (
        "Coordinates of 24 tokens in R^3 along the leading left eigenvector ψ₁ of V, for two random triples (Q, K, V); dashed: "
        f"the levels. Of {len(counts)} triples, {two} ended with two levels and {one} with one."
    )
    return Evidence(checks, draw([paths[counts.index(2)], paths[counts.index(1)]]), caption)


def draw(paths):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, (times, u), title in zip(panels, paths, ("two levels", "one level"), strict=True):
        axes.plot(times, u, color="#0072B2", lw=0.8)
        for level in levels(u[-1]).centers[:, 0]:
            axes.axhline(level, color="#D55E00", ls="--", lw=1.4, zorder=3)
        axes.set(xlabel="time $t$", xlim=(0, 8), title=title)
    panels[0].set_ylabel(r"$\langle \psi_1, z_i(t)\rangle$")
    return figure


CLAIM = Claim(
    id="hyperplanes",
    section="Clustering in R^d",
    title="At most three hyperplanes",
    statement="Let the eigenvalue of V of largest modulus be real, positive and simple, φ₁ its eigenvector, and ⟨Qφ₁, "
    "Kφ₁⟩ > 0. Then every rescaled token z = e^{−tV}x tends to one of at most three parallel hyperplanes, level sets of "
    "⟨ψ₁, z⟩ with ψ₁ the leading left eigenvector: the lowest limit value, the highest one, and 0. The level 0 is "
    "unstable and does not occur in these runs.",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet, The emergence of clusters in self-attention dynamics, NeurIPS "
    "2023, section 4",
    measure=measure,
)
