"""On the line: each row of the attention matrix becomes a unit vector."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, equal

START = (-0.7, -0.2, 0.15, 0.4, 0.9)
N, T = len(START), 16.0
TIMES = np.linspace(0, T, 33)


def matrices(start, a: float, v: float) -> np.ndarray:
    """Return the attention matrix at `x = e^{tv} z` for each of TIMES/v, tokens in increasing order."""
    model = tkf.Transformer(tkf.Softmax(A=[[a]], V=[[v]]), norm=tkf.Rescaled())
    times = TIMES / v
    tokens = tkf.Tokens(np.sort(start)[:, None])
    run = tkf.simulate(model, tokens, times[-1], save_at=times, rtol=1e-10, atol=1e-12, progress=False)
    x = np.exp(times * v)[:, None, None] * run.dataset["x"].values
    return np.array([tkf.attention_matrix(tkf.Tokens(points), model.attention) for points in x])


def distances(P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each row of P (..., n, n), its largest entrywise distance to e_first and to e_last."""
    ends = np.eye(P.shape[-1])
    return np.abs(P - ends[0]).max(axis=-1), np.abs(P - ends[-1]).max(axis=-1)


def measure(quick: bool) -> Evidence:
    P = matrices(START, 1.0, 1.0)
    first, last = distances(P[-1])
    goes_to = [1 if near_first < near_last else N for near_first, near_last in zip(first, last, strict=True)]
    exceptional, ranks, split = [], [], 0
    for seed in range(8 if quick else 200):
        rng = np.random.default_rng(seed)
        a, v = rng.uniform(0.5, 3, 2)
        near_first, near_last = distances(final := matrices(rng.standard_normal(N), a, v)[-1])
        exceptional.append(int((np.minimum(near_first, near_last) > 1e-6).sum()))
        ranks.append(int(np.linalg.matrix_rank(final, tol=1e-3)) - exceptional[-1])
        split += bool(near_first.min() < 1e-6 and near_last.min() < 1e-6)
    checks = (
        equal("V = A = 1, start (−.7, −.2, .15, .4, .9): row i tends to e_k, k =", [1, 5, 5, 5, 5], goes_to),
        at_most(
            "the same: largest distance of a row from that limit at t = 16", 1e-6, float(np.minimum(first, last).max())
        ),
        at_most("random starts, a, v: largest number of rows that are neither e_first nor e_last", 1, max(exceptional)),
        at_most("largest rank of the limit matrix minus its number of exceptional rows", 2, max(ranks)),
        equal("e_first and e_last both occur for some random starts", True, split > 0),
    )
    caption = (
        "Attention matrix of five tokens on the line, in increasing order, from (−.7, −.2, .15, .4, .9), V = A = 1."
    )
    return Evidence(checks, draw(P), caption)


def draw(P: np.ndarray):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.4), layout="constrained")
    panels = figure.subplots(1, 4, sharey=True)
    for axes, index in zip(panels, (0, 2, 4, 8), strict=True):
        image = axes.imshow(P[index], cmap="Blues", vmin=0, vmax=1, extent=(0.5, N + 0.5, N + 0.5, 0.5))
        axes.set(title=f"$t = {TIMES[index]:g}$", xlabel="key $j$", xticks=range(1, N + 1), yticks=range(1, N + 1))
    panels[0].set_ylabel("query $i$")
    figure.colorbar(image, ax=panels, label="$P_{ij}$", shrink=0.7)
    return figure


CLAIM = Claim(
    id="boolean_matrix",
    section="Clustering in R^d",
    title="On the line the attention matrix becomes Boolean",
    statement="Let d = 1, V > 0, A > 0, and let the tokens be distinct. As t → ∞ each row of the attention matrix tends to "
    "the unit vector of the first or of the last token, in the order on the line, with at most one exceptional row.",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet, The emergence of clusters in self-attention dynamics, NeurIPS "
    "2023, section 2",
    measure=measure,
)
