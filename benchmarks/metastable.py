"""Metastable runs: their beginning beside SciPy's `solve_ivp` on the angles, and the seconds to one cluster.

Clusters wait exponentially long for the next merge, so no script comes to the end: `solve_ivp` is compared up to a time that it
reaches. On the staircase it uses LSODA, which gets farthest: its explicit methods would take 10^16 steps to the second merge,
BDF and Radau fail there, and LSODA fails at t = 10^28, before the third. With 2000 tokens, methods for stiff problems solve
linear systems of 2000 unknowns in each step, so it uses RK45, as a script does by default.
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import tokenfield as tkf

from .timing import medians

RTOL, ATOL = 1e-6, 1e-9


class Case(NamedTuple):
    """Tokens at `angles` on the circle, and the method, the final time and the right-hand side of the script."""

    name: str
    beta: float
    angles: Callable[[], np.ndarray]
    method: str
    t1: float
    rate: Callable[[np.ndarray, float], np.ndarray]


def uniform() -> np.ndarray:
    x = np.asarray(tkf.uniform_sphere(2000, 2, seed=0).x)
    return np.arctan2(x[:, 1], x[:, 0])


def by_differences(angles: np.ndarray, beta: float) -> np.ndarray:
    """Velocities of the angles, right to rounding even if they are as small as e^(-beta)."""
    difference = angles - angles[:, None]
    weights = np.exp(beta * (np.cos(difference) - 1))
    return (weights * np.sin(difference)).sum(1) / weights.sum(1)


def by_products(angles: np.ndarray, beta: float) -> np.ndarray:
    """The same by products of matrices: faster for many tokens."""
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    weights = np.exp(beta * (x @ x.T - 1))
    pull = weights @ x / weights.sum(axis=1, keepdims=True)
    return x[:, 0] * pull[:, 1] - x[:, 1] * pull[:, 0]


CASES = (
    Case(
        "staircase, n = 5, beta = 4000",
        4000.0,
        lambda: 0.5 * np.array([0, 0.5, 2, 4, 7]) * math.log(2000) / math.sqrt(2000),
        "LSODA",
        1e20,
        by_differences,
    ),
    Case("circle, n = 2000, beta = 200", 200.0, uniform, "RK45", 5.0, by_products),
)


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, the script's time over ours) to the time that the script reaches; the seconds are printed."""
    for case in CASES:
        angles = case.angles()
        state, model = tkf.circle_tokens(angles), tkf.Transformer(tkf.Softmax(case.beta), norm=tkf.PostLN())

        def ours(t1=case.t1, state=state, model=model):
            times = None if t1 == math.inf else [t1]
            return tkf.simulate(model, state, t1, rtol=RTOL, atol=ATOL, save_at=times, method="coarsen", progress=False)

        def script(case=case, angles=angles):
            return by_scipy(case, angles)

        for kind in ("with compilation", "again"):
            begun = time.perf_counter()
            run = ours(math.inf)
            seconds = time.perf_counter() - begun
            assert run.events[-1].kind == "one_cluster"
            merges = sum(event.kind == "merge" for event in run.events)
            found = (
                f"{run.dataset.attrs['steps']} steps, {merges} merges, t = 10^{run.log_times[-1] / math.log(10):.0f}"
            )
            print(f"  {case.name}, to one cluster, {kind}: {seconds:.2f} s ({found})")
        theirs, mine = script(), np.asarray(ours().final.x)
        difference = np.abs(mine - np.stack([np.cos(theirs), np.sin(theirs)], 1)).max()
        assert difference < 1e-3, f"{case.name}: tokens differ by {difference:.1e}"
        times = medians({"ours": ours, "script": script}, seconds=0.0, least=2)
        print(
            f"  to t = {case.t1:g}: {times['ours']:.2f} s, solve_ivp {times['script']:.2f} s, tokens differ by {difference:.1e}"
        )
        yield f"{case.name}, to t = {case.t1:g}", {f"solve_ivp {case.method}": times["script"] / times["ours"]}


def by_scipy(case: Case, angles: np.ndarray) -> np.ndarray:
    """The angles at the end of the script."""
    rate = lambda t, angles: case.rate(angles, case.beta)  # noqa: E731
    run = solve_ivp(rate, (0, case.t1), angles, method=case.method, rtol=RTOL, atol=ATOL)
    assert run.success, run.message
    return run.y[:, -1]
