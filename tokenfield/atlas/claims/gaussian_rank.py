"""Largest rank of a stationary covariance."""

import numpy as np

import tokenfield as tkf
from tokenfield.plotting.ranks import rank_histogram
from tokenfield.studies.gaussian_ranks import VALUES, limit_ranks
from tokenfield.theory.gaussian import gaussian_limit, gaussian_rank_bound, gaussian_stationarity

from ..claim import Claim, Evidence, at_least, at_most, equal


def symmetric(rng, positive: int, negative: int, null: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a random symmetric matrix of given signature, and its eigenvectors in that order."""
    d = positive + negative + null
    U = np.linalg.qr(rng.standard_normal((d, d)))[0]
    m = np.concatenate([rng.uniform(0.5, 2, positive), -rng.uniform(0.5, 2, negative), np.zeros(null)])
    return (U * m) @ U.T, U / np.where(m == 0, 1, np.sqrt(np.abs(np.where(m == 0, 1, m))))


def largest_stationary(rng, positive: int, negative: int, null: int) -> tuple[np.ndarray, np.ndarray]:
    """Return A with `A + A^T = M`, and a stationary covariance `L L^T` of largest rank.

    `L^T M L = 0` holds because L pairs positive with negative eigenvalues of M.
    """
    M, W = symmetric(rng, positive, negative, null)
    pairs = min(positive, negative)
    L = np.hstack([W[:, :pairs] + W[:, positive : positive + pairs], W[:, positive + negative :]])
    skew, mix = rng.standard_normal(M.shape), rng.standard_normal((L.shape[1],) * 2)
    return (M + skew - skew.T) / 2, L @ mix @ mix.T @ L.T


def rank(cov: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(cov, 1e-9 * np.linalg.norm(cov), hermitian=True))


def squeeze(rng, trials: int) -> float:
    """Return for d = 3 the least `|U^T M U| / |lambda_2(M)|` over random planes U and invertible M; >= 1 by interlacing."""
    least = np.inf
    for _ in range(trials):
        M, _ = symmetric(rng, *((2, 1, 0) if rng.uniform() < 0.5 else (1, 2, 0)))
        U = np.linalg.qr(rng.standard_normal((3, 2)))[0]
        least = min(least, np.linalg.norm(U.T @ M @ U, 2) / abs(np.linalg.eigvalsh(M)[1]))
    return least


def range_of_limit(rng, trials: int) -> tuple[float, float, float]:
    """Return three distances for M <= 0 of rank 2 in R^4.

    They are: of range(Sigma*) from ker M; of Sigma* from 0 along eigenvectors of M with negative eigenvalues; and of the two
    positive eigenvalues of Sigma* from the largest two of Sigma_0.
    """
    out = []
    for _ in range(trials):
        M, _ = symmetric(rng, 0, 2, 2)
        root = rng.standard_normal((4, 4))
        limit = gaussian_limit(M / 2, None, root @ root.T)
        m, U = np.linalg.eigh(M)
        N, found = U[:, m > -1e-9], np.linalg.eigh(limit)
        span = found[1][:, -2:]
        moved = np.abs(found[0][-2:] / np.linalg.eigvalsh(root @ root.T)[-2:] - 1).max()
        along = np.abs(np.einsum("di,de,ei->i", U[:, :2], limit, U[:, :2])).max() / np.trace(limit)
        out.append((np.linalg.norm(span @ span.T - N @ N.T, 2), along, moved))
    return tuple(np.max(out, axis=0))


def measure(quick: bool) -> Evidence:
    rng, trials = np.random.default_rng(0), 40 if quick else 400
    residual, wrong, reached = 0.0, 0, {d: 0 for d in (2, 3, 4, 5)}
    for _ in range(trials):
        shape = rng.multinomial(rng.integers(2, 6), [0.4, 0.4, 0.2])
        A, cov = largest_stationary(rng, *shape)
        attention = tkf.Softmax(A=A)
        residual = max(residual, gaussian_stationarity(attention, cov) / (np.linalg.norm(cov) ** 2 or 1))
        wrong += rank(cov) != gaussian_rank_bound(A)
        if shape[2] == 0:
            reached[sum(shape)] = max(reached[sum(shape)], rank(cov))
    off, along, moved = range_of_limit(rng, trials)
    dimensions, draws = ((3,), 24) if quick else ((3, 4, 5), 60)
    found = [[limit_ranks(d, draws, 0, "softmax", values) for d in dimensions] for values in VALUES]
    predicted = [int((np.linalg.eigvalsh(one.A)[:, -1] > 0).sum()) for one in found[0]]
    blown, over = [], []
    for one, other in zip(*found, strict=True):
        blown.append(int((one.kind == "diverged").sum()))
        over.append(int(((other.kind == "settled") & (other.rank > other.d // 2)).sum()))
    settled = sum(int((one.kind == "settled").sum()) for one in found[1])
    ranks = [max(np.flatnonzero(one.counts("settled")), default=0) for one in found[1]]
    checks = (
        at_most(f"V = I, {trials} constructed Σ: |Σ′| / |Σ|²", 1e-13, residual),
        equal("the same: cases with rank ≠ dim ker M + min(#positive, #negative)", 0, wrong),
        equal("largest rank constructed for invertible M, d = 2, 3, 4, 5", [1, 1, 2, 2], list(reached.values())),
        at_least(
            "d = 3, rank 2 (printed as allowed): least |UᵀMU| / |λ₂(M)| over planes U", 1.0, squeeze(rng, 100 * trials)
        ),
        at_most("M ⪯ 0: distance of range(Σ*) from ker M", 1e-7, off),
        at_most("M ⪯ 0: Σ* along eigenvectors of M with λ < 0, relative to tr Σ*", 1e-12, along),
        at_least("M ⪯ 0: largest relative change of the positive eigenvalues", 0.5, moved),
        equal("V = I, random A: draws that diverge (predicted: finite t*)", predicted, blown),
        equal(f"random V: {settled} limits, number with rank above ⌊d/2⌋", [0] * len(over), over),
        equal("random V: largest rank of a limit", [d // 2 for d in dimensions], [int(r) for r in ranks]),
    )
    caption = (
        f"Ranks after simulation, {draws} draws in each panel, eigenvalues above 1 % of the largest. Dashed: ⌊d/2⌋."
    )
    return Evidence(checks, rank_histogram(found), caption)


CLAIM = Claim(
    id="gaussian_rank",
    section="Gaussian data",
    title="Stationary covariances have low rank",
    statement="For softmax attention with V = I, a stationary Σ = LLᵀ satisfies LᵀML = 0 with M = A + Aᵀ, so its rank is "
    "at most dim ker M + min(#positive, #negative eigenvalues of M), and this bound is attained. For invertible symmetric A "
    "it is at most ⌊d/2⌋; the talks print ⌈d/2⌉, which is true but never attained for odd d. If M ⪯ 0 the limit has range "
    "ker M, whatever Σ₀. From a random start, V = I leads to 0 or to a blow-up; random V gives limits within the bound.",
    source="Castin, Increasing the sequence length in LLMs (talk, Amsterdam 2025), part I; Castin, Ablin, Carrillo, Peyré "
    "2025; the sharp bound, the range and the counts are derived here",
    measure=measure,
)
