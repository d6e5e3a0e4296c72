"""The covariance flow beside the NumPy script that a researcher writes: projected Euler, at equal accuracy.

Euler's error falls like its step, so the number of steps at which it equals ours follows from one coarse run. The
script's time is measured on some hundred of its steps and multiplied up where all of them would take minutes.
"""

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

import tokenfield as tkf

MEASURED_STEPS = 300


def projected_euler(A: np.ndarray, S: np.ndarray, t1: float, steps: int, taken: int | None = None) -> np.ndarray:
    """The script: Euler steps of `S' = S A S + (S A S)^T` (a stack of S at once), then negative eigenvalues to 0."""
    h = t1 / steps
    for _ in range(steps if taken is None else taken):
        F = S @ A @ S
        S = S + h * (F + np.swapaxes(F, -1, -2))
        values, vectors = np.linalg.eigh(S)
        S = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return S


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio), after measuring both errors against the closed form."""
    yield _row("Gaussian flow, 40 × 40 starts, d = 2", grid(), -np.array([[1.0, 0.4], [-0.3, 0.5]]), 5.0)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((256, 256)) / 16
    yield _row("Gaussian flow, d = 256", (W @ W.T)[None], -np.eye(256) + rng.standard_normal((256, 256)) / 32, 2.0)


def grid() -> np.ndarray:
    """40 x 40 covariances on the slice of trace 1 of the cone."""
    angle, size = np.meshgrid(np.linspace(0, 2 * np.pi, 40, endpoint=False), np.linspace(0.02, 0.98, 40))
    x, y = size * np.cos(angle), size * np.sin(angle)
    return np.stack([1 + x, y, y, 1 - x], -1).reshape(-1, 2, 2) / 2


def _row(case: str, covs: np.ndarray, A: np.ndarray, t1: float, rtol: float = 1e-4) -> tuple[str, dict[str, float]]:
    model = tkf.Transformer(tkf.Softmax(A=A))
    exact = np.stack([tkf.theory.gaussian_closed_form(A, None, cov, t1) for cov in covs])
    error = lambda found: float(np.abs(found - exact).max())  # noqa: E731

    def ours() -> np.ndarray:
        options = {"save_at": 2, "rtol": rtol, "atol": rtol, "progress": False}
        if len(covs) == 1:
            return np.asarray(tkf.simulate(model, tkf.Gaussian(None, covs[0]), t1, **options).final.cov)[None]
        starts = [tkf.Gaussian(None, cov) for cov in covs]
        return tkf.simulate_many(model, starts, t1, **options).dataset["cov"].values[:, -1]

    mine = error(ours())
    coarse = 100
    steps = int(np.ceil(coarse * error(projected_euler(A, covs, t1, coarse)) / mine))
    seconds = median(ours, 5)
    taken = min(steps, MEASURED_STEPS)
    theirs = median(lambda: projected_euler(A, covs, t1, steps, taken), 3) * steps / taken
    print(f"  {case}: error {mine:.1e} in {seconds:.2f} s; Euler needs {steps} steps for it")
    return f"{case}, equal error", {"NumPy Euler": theirs / seconds}


def median(call: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)
