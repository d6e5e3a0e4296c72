"""Long waits, compilation included: beside the number of steps that a script with a fixed step of 0.1 would take."""

import math
import time
from collections.abc import Iterator

import numpy as np

import tokenfield as tkf

STAIRCASE = 0.5 * np.array([0, 0.5, 2, 4, 7]) * math.log(2000) / math.sqrt(2000)
CASES = {
    "staircase, n = 5, beta = 4000": (4000.0, lambda: tkf.circle_tokens(STAIRCASE)),
    "circle, n = 2000, beta = 200, to one cluster": (200.0, lambda: tkf.uniform_sphere(2000, 2, seed=0)),
}


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, decimal logarithm of the script's steps over ours); the seconds are printed."""
    for case, (beta, start) in CASES.items():
        model = tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN())
        begun = time.perf_counter()
        run = tkf.simulate(model, start(), math.inf, progress=False)
        seconds = time.perf_counter() - begun
        assert run.events[-1].kind == "one_cluster"
        merges = sum(event.kind == "merge" for event in run.events)
        steps = run.dataset.attrs["steps"]
        script = (run.log_times[-1] + math.log(10)) / math.log(10)
        print(
            f"  {case}: {seconds:.1f} s with compilation, {steps} steps for {merges} merges; fixed steps: 10^{script:.0f}"
        )
        yield f"{case}: log10 of steps", {"step 0.1": script - math.log10(steps)}
