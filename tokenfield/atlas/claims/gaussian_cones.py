"""Six behaviors of Gaussian data in the plane, for each kernel, shown in the cone of covariances."""

import numpy as np

from tokenfield.plotting.cones import cone_figure
from tokenfield.studies.gaussian_cones import CASES, KERNELS, cone_starts, outcomes, q, run_case
from tokenfield.theory.gaussian import gaussian_limit

from ..claim import Claim, Evidence, at_least, at_most, close, equal


def plane_limit(cov: np.ndarray) -> np.ndarray:
    """Return the limit: x_2 is conserved; `<q, x>` shrinks by a factor E until uncorrelated with x_1, or to 0 if it never is."""
    E = max(0.0, q[1] * (q @ cov[:, 1]) / (q @ cov @ q))
    T = np.array([[E, (E - 1) * q[1] / q[0]], [0, 1]])
    return T @ cov @ T.T


def two_lines_limit(cov: np.ndarray) -> np.ndarray:
    """Return the limit, in which a and b equal |c|."""
    return abs(cov[0, 1]) * np.eye(2) + cov[0, 1] * (1 - np.eye(2))


def blow_up_direction(cov: np.ndarray) -> np.ndarray:
    """Return `Sigma_0^{1/2} w`, w the leading eigenvector of `Sigma_0^{1/2} M Sigma_0^{1/2}`."""
    M, L = CASES[4].Q + CASES[4].Q.T, np.linalg.cholesky(cov)
    u = L @ np.linalg.eigh(L.T @ M @ L)[1][:, -1]
    return np.outer(u, u) / (u @ u)


def distance(found: np.ndarray, limits) -> float:
    return float(np.abs(found - np.array(limits)).max())


def measure(quick: bool) -> Evidence:
    starts, runs, checks = cone_starts(quick), [], []
    for case in CASES:
        runs.append(run_case(case, starts))
    ends = [run.dataset["end_cov"].values.reshape(len(KERNELS), -1, 2, 2) for run in runs]
    traces = [np.trace(end, axis1=-2, axis2=-1) for end in ends]
    shares = [end / trace[..., None, None] for end, trace in zip(ends, traces, strict=True)]
    words = [outcomes(run).reshape(len(KERNELS), -1) for run in runs]
    checks.append(at_most("to zero, t = 1e5: largest tr Σ, all kernels", 2e-5, traces[0].max()))
    line = [gaussian_limit(-np.outer(q, q), None, cov) for cov in starts]
    plane, two = [plane_limit(cov) for cov in starts], [two_lines_limit(cov) for cov in starts]
    for k, kernel in enumerate(KERNELS):
        where, limits = ("line", line) if kernel != "multi-head" else ("plane (not a line)", plane)
        checks.append(
            at_most(f"to a line, {kernel}: to a {where}, distance from Σ*", 2e-3, distance(ends[1][k], limits))
        )
    checks.append(
        at_most("to a plane, all kernels: distance from Σ*", 1e-6, max(distance(end, plane) for end in ends[2]))
    )
    straight = max(distance(ends[3][k], two) for k in (0, 2, 3))
    checks.append(at_most("to two lines, all but L2: distance from |c₀| ((1, ±1), (±1, 1))", 1e-6, straight))
    sign = np.sign(starts[:, 0, 1])[:, None, None] * np.array([[0, 1], [1, 0]])
    checks.append(
        at_most(
            "to two lines, L2: distance of Σ/tr Σ from the same lines",
            1e-6,
            distance(2 * shares[3][1], np.eye(2) + sign),
        )
    )

    equal_words = lambda row, k, word: bool((words[row][k] == word).all())  # noqa: E731
    kinds = [next(word for word in ("settles", "blows up", "grows") if equal_words(4, k, word)) for k in range(4)]
    checks.append(
        equal("blow-up: outcomes, in the order of the columns", ["blows up", "grows", "grows", "blows up"], kinds)
    )
    aim = [blow_up_direction(cov) for cov in starts]
    checks.append(
        at_most("blow-up, softmax: distance of Σ/tr Σ from its predicted direction", 1e-5, distance(shares[4][0], aim))
    )
    axes = np.abs(np.abs(shares[4][3][:, 0, 0] - shares[4][3][:, 1, 1]) - 1).max()
    checks.append(at_most("blow-up, multi-head: distance of Σ/tr Σ from a coordinate axis", 1e-6, axes))
    checks.append(
        at_most(
            "blow-up, L2: distance of Σ/tr Σ from ½((1, 1), (1, 1))", 0.1, distance(shares[4][1], np.full((2, 2), 0.5))
        )
    )
    late = np.log(np.trace(runs[4].dataset["cov"].values[:, [-8, -1]], axis1=-2, axis2=-1)).reshape(len(KERNELS), -1, 2)
    span = np.diff(runs[4].times[[-8, -1]])[0]
    for k, rate in ((1, 3.0), (2, 2.0)):
        found = (late[k, :, 1] - late[k, :, 0]) / span
        checks.append(
            close(
                f"blow-up, {KERNELS[k]}: rate of growth of tr Σ, worst start",
                rate,
                found[np.argmax(np.abs(found - rate))],
                atol=0.05,
            )
        )
    inside = np.linalg.eigvalsh(shares[4][2])[:, 0].max()
    checks.append(at_least("blow-up, Sinkhorn: largest smaller eigenvalue of Σ/tr Σ (no collapse)", 0.05, inside))

    c, b = starts[:, 0, 1], starts[:, 1, 1]
    up, times = c > 0, runs[5].dataset["end_time"].values.reshape(len(KERNELS), -1)
    for k, kernel in enumerate(KERNELS):
        grown = "grows" if kernel == "Sinkhorn" else "blows up"
        right = np.where(up, grown, "settles") == words[5][k]
        checks.append(
            equal(
                f"mixed, {kernel}: starts with outcome “{grown}” if c₀ > 0, and “settles” otherwise",
                len(c),
                int(right.sum()),
            )
        )
    exact = {0: np.sqrt(2) / c, 1: (1 + np.sqrt(2) * b) / (np.sqrt(2) * c), 3: 1 / c}
    error = max(np.abs(times[k][up] / exact[k][up] - 1).max() for k in exact)
    checks.append(
        at_most("mixed: largest relative error of √2/c₀, (1 + √2 b₀)/√2c₀ (L2), 1/c₀ (multi-head)", 1e-6, error)
    )
    rest = [np.diag([0.0, each]) for each in b[~up]]
    checks.append(
        at_most(
            "mixed, c₀ < 0, all kernels: distance from diag(0, b₀)",
            2e-2,
            max(distance(end[~up], rest) for end in ends[5]),
        )
    )
    caption = (
        "Covariances of the plane at (a − b, 2c, a + b), from starts of trace 1; q = (.406, .914). Orange: limits."
    )
    return Evidence(tuple(checks), cone_figure(runs), caption)


CLAIM = Claim(
    id="gaussian_cones",
    section="Gaussian data",
    title="Six behaviors of Gaussian data in the plane",
    statement="Depending on Q, K, V, a covariance of the plane tends to 0, to a line of rank-one matrices, to a plane, to two "
    "lines, blows up, or (the mixed case) converges or blows up depending on the start. Kernels that converge have the same kind "
    "of limit, and heads of width one follow the same curve under softmax, L2 and Sinkhorn attention. Where softmax blows up, "
    "Sinkhorn grows exponentially, and so does L2 unless K is singular. Splitting A into heads changes the limits.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part III, figures; Castin, Ablin, Carrillo, Peyré "
    "2025; the examples and their limits are derived here",
    measure=measure,
)
