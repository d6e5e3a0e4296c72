"""The local Lipschitz constant of softmax attention, beside the power method with torch.func's jvp and vjp."""

import math
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np

import tokenfield as tkf

from .timing import against

D, SIZES, RTOL = 64, (1000, 4000), 1e-6
LARGE, LIMIT = 16_384, 2048.0  # tokens, MB


def problem(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian tokens, `A = W/sqrt(d)` and V with entries of variance 1/d."""
    rng = np.random.default_rng(0)
    A, V = rng.standard_normal((2, D, D)) / math.sqrt(D)
    return rng.standard_normal((n, D)), A / math.sqrt(D), V


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[tuple[str, dict[str, float]]]:
    """(case, torch's time over ours). Both stop where an oracle would, at the same relative error of the value; then ours goes on
    until it can prove that error, which torch's cannot."""
    for n in sizes:
        x, A, V = problem(n)
        exact = by_us(x, A, V, 1e-10)
        assert abs(by_us(x, A, V, RTOL) / exact - 1) < RTOL
        steps = steps_needed(x, A, V, exact)
        rival = {"torch.func": partial(by_torch, x, A, V, steps)}
        for what, rtol in (("within", loosest(x, A, V, exact)), ("certified to", RTOL)):
            case = f"local Lipschitz constant ({n}, {D}), {what} {RTOL:g}, torch {steps} steps"
            yield case, against(partial(by_us, x, A, V, rtol), rival, seconds=0.0, least=3)


def loosest(x: np.ndarray, A: np.ndarray, V: np.ndarray, exact: float) -> float:
    """The largest tolerance with which our value is within RTOL: errors of values are squares of those of vectors."""
    tolerances = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, RTOL)
    return next(rtol for rtol in tolerances if abs(by_us(x, A, V, rtol) / exact - 1) <= RTOL)


def by_us(x: np.ndarray, A: np.ndarray, V: np.ndarray, rtol: float) -> float:
    return tkf.lipschitz.local(tkf.Softmax(A=A, V=V), x, rtol=rtol).constant


def by_torch(x: np.ndarray, A: np.ndarray, V: np.ndarray, steps: int) -> float:
    """|D v| after so many steps `v <- D^T D v / |D^T D v|` in double precision."""
    *_, last = _power_method(x, A, V, steps)
    return last


def steps_needed(x: np.ndarray, A: np.ndarray, V: np.ndarray, exact: float, most: int = 5000) -> int:
    """The first step at which |D v| is within RTOL of the constant: what an oracle would stop at."""
    for step, value in enumerate(_power_method(x, A, V, most), start=1):
        if abs(value / exact - 1) <= RTOL:
            return step
    raise RuntimeError(f"the power method is not within {RTOL:g} after {most} steps")


def _power_method(x: np.ndarray, A: np.ndarray, V: np.ndarray, steps: int) -> Iterator[float]:
    import torch

    X, A_, V_ = (torch.from_numpy(a) for a in (x, A, V))
    attend = lambda X: torch.softmax(X @ A_.T @ X.T, dim=-1) @ X @ V_.T  # noqa: E731
    _, pull = torch.func.vjp(attend, X)
    v = torch.from_numpy(np.random.default_rng(1).standard_normal(x.shape))
    v = v / v.norm()
    for _ in range(steps):
        image = torch.func.jvp(attend, (X,), (v,))[1]
        yield float(image.norm())
        (v,) = pull(image)
        v = v / v.norm()


def peak_megabytes(n: int = LARGE) -> float:
    """Peak memory of a process of its own that computes the constant for n tokens, all of Python and JAX included."""
    code = (
        "import resource\n"
        "from benchmarks.lipschitz import RTOL, by_us, problem\n"
        f"by_us(*problem({n}), RTOL)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)
