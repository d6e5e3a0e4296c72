"""Slices of the `figure3` plan beside a batched PyTorch script with fixed steps, and Dask workers beside one."""

import json
import time
from collections.abc import Iterator

import numpy as np

BETAS = {8: 64, 128: 32, 1024: 8}  # of the 90 of a panel; each with its 32 repeats
BATCH = {1024: 128}  # so that there is one for each of two threads
STEP, EVERY = 0.1, 5  # the script's step, and how many of them lie between two times kept


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    for d in BETAS:
        ratio, ours, theirs = panel(d)
        if not ours <= theirs:
            raise AssertionError(f"d = {d}: mean error {ours:.2g}, above the script's {theirs:.2g}")
        case = f"figure3, d = {d} (mean error of the fraction {ours:.1e}, script {theirs:.1e})"
        yield case, {"torch script": ratio}
    yield "two Dask workers, 8 batches", {"one worker": workers()}


def plan_of(d: int, **overrides: object) -> str:
    from tokenfield.sweep.plan import read_plan

    overrides = {
        "axes.d": [d],
        "axes.beta": {"linspace": [0.1, 9.0, BETAS[d]]},
        **({"batch": BATCH[d]} if d in BATCH else {}),
        "run.rtol": TOLERANCE[d],
        "run.atol": TOLERANCE[d],
    } | overrides
    return read_plan("figure3", overrides).model_dump_json(exclude_none=True)


TOLERANCE = {8: 0.01, 128: 0.02, 1024: 0.02}  # as loose as the script's own accuracy allows


def panel(d: int) -> tuple[float, float, float]:
    """The script's time over ours, and both mean errors of the fraction of aligned pairs over all times and runs."""
    from tokenfield.sweep.engines.in_process import in_process
    from tokenfield.sweep.run_batch import _build, prepared, run_batch

    plan = plan_of(d)
    cells, batches = prepared(plan)
    built = _build(cells.plan, [cells[k] for k in range(len(cells))])
    x = np.stack([np.asarray(state.x) for _, state in built])
    beta = np.array([cells[k].config.attention.beta for k in range(len(cells))])

    def ours() -> np.ndarray:
        with in_process(plan, list(range(len(batches)))) as found:
            outcomes = dict(found)
        return np.stack([outcome.values["aligned"] for k in range(len(batches)) for outcome in outcomes[k]])

    ours()  # compiles
    times: dict[str, list[float]] = {"ours": [], "script": []}
    for _ in range(3):
        begun = time.perf_counter()
        mine = ours()
        times["ours"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        other = script(x, beta)
        times["script"].append(time.perf_counter() - begun)
    exact_plan = plan_of(d, **{"run.rtol": 1e-8, "run.atol": 1e-10})
    some = range(0, len(batches), 2)
    exact = np.stack([outcome.values["aligned"] for k in some for outcome in run_batch(exact_plan, k)])
    where = [cell for k in some for cell in batches[k].cells]
    error = lambda found: float(np.abs(found[where] - exact).mean())  # noqa: E731
    return min(times["script"]) / min(times["ours"]), error(mine), error(other)


def script(x: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """`x <- normalize(x + h att(x))`, 300 steps in float64, with the fraction of aligned pairs at every fifth."""
    import torch

    tokens, b, n = torch.tensor(x), torch.tensor(beta)[:, None, None], x.shape[1]
    kept = []
    for k in range(301):
        cosines = tokens @ tokens.transpose(1, 2)
        if k % EVERY == 0:
            kept.append(((cosines > 0.999).sum((1, 2)) - n) / (n * (n - 1)))
        tokens = torch.nn.functional.normalize(tokens + STEP * (torch.softmax(b * cosines, -1) @ tokens), dim=-1)
    return torch.stack(kept, 1).numpy()


def workers() -> float:
    """A plan of eight equal batches on one and on two single-threaded Dask workers, compiled beforehand."""
    import distributed

    from tokenfield.sweep.run_batch import run_batch

    plan = json.loads(plan_of(8)) | {"axes": {"beta": {"linspace": [4.0, 4.7, 8]}}, "repeats": 128, "batch": 128}
    plan["run"] |= {"rtol": 1e-8, "atol": 1e-10}
    text = json.dumps(plan)
    taken = {}
    for count in (1, 2):
        with (
            distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            client.run(run_batch, text, 0)
            begun = time.perf_counter()
            client.gather([client.submit(run_batch, text, k, pure=False) for k in range(8)])
            taken[count] = time.perf_counter() - begun
    return taken[1] / taken[2]
