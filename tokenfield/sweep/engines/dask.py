"""Run batches on a Dask cluster: an existing one, or a local one on this machine."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..outcome import Outcome
from ..run_batch import run_batch, worker_environment
from .scheduler_address import require_scheduler, split_address

TIMEOUT = 10  # seconds to wait for a scheduler
LOOK, PATIENCE = 2, 30  # seconds without a result before checking for workers; seconds without workers before giving up
GO_ON = "finished cells are saved, and --resume continues"


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ValueError('Dask is not installed: pip install -e ".[dask]" in the folder of tokenfield') from None
    return distributed


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's tracebacks when a worker or the scheduler ends: this engine handles it and reports it in one line."""
    every = logging.Logger.manager.loggerDict.items()
    spoken = [log for name, log in every if name.startswith("distributed") and isinstance(log, logging.Logger)]
    spoken = [log for log in spoken if not log.disabled]
    for log in spoken:
        log.disabled = True
    try:
        yield
    finally:
        for log in spoken:
            log.disabled = False


def dask_cluster(address: str) -> Callable:
    """Return an engine for the scheduler at an address such as tcp://127.0.0.1:8786, which must answer now."""
    split_address(address)
    distributed = _distributed()
    with _client(distributed, address):
        pass

    @contextmanager
    def engine(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
        with _client(distributed, address) as client:
            yield _run(client, plan, numbers)

    return engine


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Any]:
    """Return a client of the scheduler at an address; raise ValueError if it has no workers."""
    require_scheduler(address)
    with _quiet():
        try:
            client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"--scheduler: no Dask scheduler answers at {address}: {reason}") from None
        with client:
            if not client.scheduler_info()["workers"]:
                raise ValueError(
                    f"--scheduler: the scheduler at {address} has no workers: start some with `dask worker {address}`"
                )
            yield client


def dask_local(workers: int) -> Callable:
    """Return an engine with a number of single-threaded Dask workers on this machine, on loopback."""
    distributed = _distributed()

    @contextmanager
    def engine(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
        with (
            _quiet(),
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs=50,
                env=worker_environment(plan),
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield _run(client, plan, numbers)

    return engine


def _run(client: Any, plan: str, numbers: list[int]) -> Iterator[tuple[int, list[Outcome]]]:
    """Yield the outcomes of all batches. Dask runs the batches of a dead worker again on another one, a few times. A batch that
    it has given up is run once more alone: another batch may have killed its workers."""
    lost = []
    for number, outcomes in _submitted(client, plan, numbers):
        if outcomes:
            yield number, outcomes
        else:
            lost.append(number)
    for number in sorted(lost):
        yield from _submitted(client, plan, [number])


def _submitted(client: Any, plan: str, numbers: list[int]) -> Iterator[tuple[int, list[Outcome]]]:
    distributed = _distributed()
    futures = {client.submit(run_batch, plan, number, pure=False): number for number in numbers}
    completed = distributed.as_completed(list(futures), loop=client.loop)
    while futures:
        _wait(client, completed)
        future = next(completed)
        number = futures.pop(future)
        if future.status == "finished":
            yield number, _fetched(client, future)
        elif future.status != "error":
            raise ValueError(f"--scheduler: the scheduler is gone; {GO_ON}")
        elif isinstance(future.exception(), distributed.KilledWorker):
            yield number, []
        else:
            raise RuntimeError(f"a worker could not run a batch: {future.exception()}")


def _fetched(client: Any, future: Any) -> list[Outcome]:
    """Return the result of a worker. If the worker dies before it sends the result, the batch is run again elsewhere."""
    patience = _Patience(client)
    while True:
        try:
            return future.result(timeout=LOOK)
        except TimeoutError:
            patience.look()
        except _distributed().client.FutureCancelledError:
            raise ValueError(f"--scheduler: the scheduler is gone; {GO_ON}") from None


def _wait(client: Any, completed: Any) -> None:
    """Wait until a batch has finished."""
    patience = _Patience(client)
    while not completed.has_ready():
        with completed.thread_condition:
            completed.thread_condition.wait(0.1)
        if time.monotonic() > patience.looked + LOOK:
            patience.look()


class _Patience:
    """A time limit within which a cluster without workers must get new ones."""

    def __init__(self, client: Any):
        self.client = client
        self.seen = self.looked = time.monotonic()

    def look(self) -> None:
        self.looked = time.monotonic()
        if self.client.status != "running" or self.client.scheduler_info()["workers"]:
            self.seen = self.looked
        elif self.looked > self.seen + PATIENCE:
            raise ValueError(f"--scheduler: there have been no workers for {PATIENCE} s; {GO_ON}")
