"""Slices of the `figure3` plan beside a batched PyTorch script with fixed steps, and Dask workers beside one."""

import json
import time
from collections.abc import Callable, Iterator

import numpy as np

BETAS = {8: 64, 128: 32, 1024: 8}  # of the 90 of a panel; each with its 32 repeats
BATCH = {1024: 128}  # so that there is one for each of two threads
TOLERANCE = 0.0075  # mean errors are a third of the script's
ROUNDS = 6
PARTS = 128, 16  # batches in which the script is tried as well
STEP, EVERY = 0.1, 5  # the script's step, and how many of them lie between two times kept


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    for d in BETAS:
        ratios, ours, theirs = panel(d)
        if not ours <= theirs:
            raise AssertionError(f"d = {d}: mean error {ours:.2g}, above the script's {theirs:.2g}")
        case = f"figure3, d = {d} (mean error of the fraction {ours:.1e}, script {theirs:.1e})"
        yield case, ratios
    yield "two Dask workers, 8 batches", {"one worker": workers()}


def plan_of(d: int, **overrides: object) -> str:
    from tokenfield.sweep.plan import read_plan

    overrides = {
        "axes.d": [d],
        "axes.beta": {"linspace": [0.1, 9.0, BETAS[d]]},
        **({"batch": BATCH[d]} if d in BATCH else {}),
        "run.method": "bosh3",  # of low order, for tolerances as loose as these
        "run.rtol": TOLERANCE,
        "run.atol": TOLERANCE,
    } | overrides
    return read_plan("figure3", overrides).model_dump_json(exclude_none=True)


def panel(d: int) -> tuple[dict[str, float], float, float]:
    """The script's time over ours, in workers as the command does it and in this process, and both mean errors of the
    fraction of aligned pairs over all times and runs. Workers have started, and all is compiled, beforehand.

    The script takes the same batch as we do. Where that is large, most of its time may be the system's, which gives it fresh
    memory in each step, so the best of smaller batches stands beside it."""
    from tokenfield._cpus import available_cpus
    from tokenfield.sweep.engines.in_process import in_process
    from tokenfield.sweep.engines.processes import processes
    from tokenfield.sweep.run_batch import _build, prepared, run_batch

    plan = plan_of(d)
    cells, batches = prepared(plan)
    built = _build(cells.plan, [cells[k] for k in range(len(cells))])
    x = np.stack([np.asarray(state.x) for _, state in built])
    beta = np.array([cells[k].config.attention.beta for k in range(len(cells))])
    engines = {"in workers": processes(available_cpus()), "in one process": in_process}
    taken: dict[str, float] = {}
    found: dict[int, list] = {}
    script_times = [clock(lambda: script(x, beta))]
    for name, engine in engines.items():
        ends = []
        with engine(plan, list(range(len(batches))) * ROUNDS) as outcomes:
            for done, (number, outcome) in enumerate(outcomes, 1):
                found[number] = outcome
                if done % len(batches) == 0:
                    ends.append(time.perf_counter())
        taken[name] = float(np.diff(ends).min())  # the first round compiles
        script_times.append(clock(lambda: script(x, beta)))
    mine = np.stack([outcome.values["aligned"] for k in range(len(batches)) for outcome in found[k]])
    exact_plan = plan_of(d, **{"run.rtol": 1e-8, "run.atol": 1e-10})
    some = range(0, len(batches), max(1, len(batches) // 2))
    exact = np.stack([outcome.values["aligned"] for k in some for outcome in run_batch(exact_plan, k)])
    where = [cell for k in some for cell in batches[k].cells]
    error = lambda found: float(np.abs(found[where] - exact).mean())  # noqa: E731
    scripts = {
        "torch script": min(script_times),
        "script, best batch": min(*script_times, *(clock(lambda size=size: in_parts(x, beta, size)) for size in PARTS)),
    }
    ratios = {f"{rival}, {name}": its / time_ for rival, its in scripts.items() for name, time_ in taken.items()}
    return ratios, error(mine), error(script(x, beta))


def in_parts(x: np.ndarray, beta: np.ndarray, size: int) -> None:
    """The script for so many members at a time."""
    for k in range(0, len(x), size):
        script(x[k : k + size], beta[k : k + size])


def clock(run: Callable[[], object]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


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

    from tokenfield.sweep.run_batch import run_batch, worker_environment

    plan = json.loads(plan_of(8)) | {"axes": {"beta": {"linspace": [4.0, 4.7, 8]}}, "repeats": 128, "batch": 128}
    plan["run"] |= {"rtol": 1e-8, "atol": 1e-10}
    text = json.dumps(plan)
    taken = {}
    for count in (1, 2):
        with (
            distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs=50,
                env=worker_environment(text),
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            client.run(run_batch, text, 0)
            run_all = lambda client=client: client.gather(  # noqa: E731
                [client.submit(run_batch, text, k, pure=False) for k in range(8)]
            )
            taken[count] = min(clock(run_all) for _ in range(2))
    return taken[1] / taken[2]
