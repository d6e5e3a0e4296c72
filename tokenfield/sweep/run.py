"""`sweep`: run every cell of a plan."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._cache import keep_compiled_code
from .._files import recover, refuse_foreign, write_text
from .._jax import in_double
from .._lock import alone_in
from .batches import Batch, batches
from .cells import Cells
from .engines.in_process import in_process
from .folder import one_line_errors
from .outcome import Outcome
from .plan import Plan, read_plan
from .progress import SweepProgress
from .result import SweepResult
from .run_batch import check_seeds
from .sizes import refuse_too_large
from .store import DONE, FAILED, PENDING, PLAN, Store, create, open_store
from .stored import DATASET, holds_sweep


@in_double
def sweep(
    plan: Plan | Mapping[str, Any] | str | Path,
    out: str | Path | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    dask_workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    retry: bool = True,
    progress: bool | None = None,
) -> SweepResult:
    """Run a model over a grid of parameters and seeds, and save chosen numbers of every run.

    Args:
        plan: a `Plan`, a table like one, a TOML file, or the name of a plan of the package, such as "figure3".
        out: a folder for the dataset, written as cells are finished; None keeps it in memory only.
        overrides: values for dotted keys of the plan, e.g. {"run.rtol": 1e-8}.
        workers: number of local processes; None for this process.
        scheduler: run on the Dask cluster whose scheduler has this address.
        dask_workers: run on a local Dask cluster with this number of workers.
        resume: continue the sweep in the folder, with the same bits as without the interruption.
        overwrite: replace a sweep in the folder.
        retry: with resume, run failed cells again.
        progress: show cells done and failed, rate and time left; None for "only on a terminal".

    Returns:
        A `SweepResult`: `.dataset` has one axis for each parameter, and `repeat`. Its bits do not depend on the engine.

    Example:
        >>> import tokenfield as tkf
        >>> run = {"t1": 50.0, "tokens": {"n": 16, "d": 3}, "stop_when": "one-cluster"}
        >>> record = {"aligned": "fraction_above", "collapse": {"event": "one_cluster"}}
        >>> found = tkf.sweep({"run": run, "axes": {"beta": [1.0, 2.0]}, "repeats": 3, "record": record})
        >>> found.mean("collapse").values.round(2)
        array([6.86, 8.26])
    """
    plan = plan if isinstance(plan, Plan) and not overrides else read_plan(_data(plan), overrides)
    engine = _engine(workers, scheduler, dask_workers)
    keep_compiled_code()
    folder = None if out is None else Path(out)
    refuse_too_large(plan, None if folder is None or holds_sweep(folder) else folder)
    cells = Cells(plan)
    check_seeds(plan, cells)
    with alone_in(folder, "sweep"):
        with one_line_errors(folder):
            store = _store(plan, cells, folder, resume, overwrite, retry)
        _run(store, plan, batches(cells), engine, progress)
    return SweepResult(store.result(), folder)


def _data(plan: Any) -> Any:
    return plan.model_dump(mode="json", exclude_none=True) if isinstance(plan, Plan) else plan


def _engine(workers: int | None, scheduler: str | None, dask_workers: int | None) -> Callable:
    from .._check import count

    if sum(option is not None for option in (workers, scheduler, dask_workers)) > 1:
        raise ValueError("give one of workers, scheduler and dask_workers")
    if scheduler is not None:
        from .engines.dask import dask_cluster

        return dask_cluster(scheduler)
    if dask_workers is not None:
        from .engines.dask import dask_local

        return dask_local(count("dask_workers", dask_workers))
    if workers is None:
        return in_process
    from .engines.processes import processes

    return processes(count("workers", workers))


def _store(plan: Plan, cells: Cells, folder: Path | None, resume: bool, overwrite: bool, retry: bool) -> Store:
    if resume and overwrite:
        raise ValueError("give --resume (continue) or --overwrite (start again), not both")
    if folder is not None:
        for name in (DATASET, PLAN):
            recover(folder / name)
        refuse_foreign(folder, (DATASET, PLAN), overwrite)
    if folder is None or overwrite or not holds_sweep(folder):
        return create(plan, cells, folder)
    store, damage = open_store(plan, cells, folder, retry)
    if not resume:
        done = int((store.status == DONE).sum())
        raise ValueError(
            f"--out: {folder} holds this sweep, {done} of {len(cells)} cells done: --resume continues with it, "
            "--overwrite starts again"
        )
    for leftover in (folder / DATASET).rglob("*.partial"):  # left by a kill while Zarr was writing
        leftover.unlink(missing_ok=True)
    if damage:
        store.forget(damage)
    write_text(folder / PLAN, store.dataset.attrs["plan"])
    return store


def _run(store: Store, plan: Plan, all_batches: list[Batch], engine: Callable, progress: bool | None) -> None:
    status = store.status
    todo = [k for k, batch in enumerate(all_batches) if (status[list(batch.cells)] == PENDING).any()]
    if not todo:
        return
    with (
        SweepProgress(progress, plan.name, len(status)) as bar,
        engine(plan.model_dump_json(exclude_none=True), todo) as outcomes,
    ):
        bar.update(int((status == DONE).sum()), int((status == FAILED).sum()))
        for number, found in outcomes:
            batch = all_batches[number]
            lost = Outcome({}, np.nan, "the worker died each time this batch was run (out of memory?)")
            with one_line_errors(store.folder):
                store.put(batch.cells, found or [lost] * len(batch.cells))
            bar.update(int((store.status == DONE).sum()), int((store.status == FAILED).sum()))
