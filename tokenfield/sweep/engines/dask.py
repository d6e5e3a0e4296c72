"""A Dask cluster: one that runs already, or one on this machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..outcome import Outcome
from ..run_batch import run_batch

TIMEOUT = 15  # seconds to wait for a scheduler
GOES = 3  # workers that may die with a batch before it is given up


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ValueError("Dask is not installed: pip install 'tokenfield[dask]'") from None
    return distributed


def dask_cluster(address: str) -> Callable:
    """An engine on the cluster of the scheduler at an address such as tcp://127.0.0.1:8786."""
    distributed = _distributed()

    @contextmanager
    def engine(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
        try:
            client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"--scheduler: no Dask scheduler answers at {address}: {reason}") from None
        with client:
            if not client.scheduler_info()["workers"]:
                raise ValueError(
                    f"--scheduler: the scheduler at {address} has no workers: start some with `dask worker {address}`"
                )
            yield _run(client, plan, numbers)

    return engine


def dask_local(workers: int) -> Callable:
    """An engine on a cluster of so many single-threaded workers on this machine, on loopback."""
    distributed = _distributed()

    @contextmanager
    def engine(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield _run(client, plan, numbers)

    return engine


def _run(client: Any, plan: str, numbers: list[int]) -> Iterator[tuple[int, list[Outcome]]]:
    """Dask runs the batches of a dead worker again on another one, at most `GOES` times."""
    distributed = _distributed()
    futures = {client.submit(run_batch, plan, number, pure=False, retries=GOES - 1): number for number in numbers}
    for future in distributed.as_completed(list(futures)):
        number = futures.pop(future)
        if future.status == "finished":
            yield number, future.result()
        elif isinstance(future.exception(), distributed.KilledWorker):
            yield number, []
        else:
            raise RuntimeError(f"a worker could not run a batch: {future.exception()}")
