"""Local processes, started afresh.

They take over the environment, above all the number of threads, on which the bits of single large runs may depend.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from ..outcome import Outcome
from ..run_batch import run_batch

TRIES = 2  # goes of a batch whose worker dies


def processes(workers: int) -> Callable:
    """An engine of so many processes. The batches of one that dies are run again, alone: a batch that kills its worker
    every time is given up."""

    @contextmanager
    def engine(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
        yield _run(plan, numbers, workers)

    return engine


def _run(plan: str, numbers: list[int], workers: int) -> Iterator[tuple[int, list[Outcome]]]:
    left = set()
    for number, outcomes in _pool(plan, numbers, workers):
        if outcomes is None:
            left.add(number)
        else:
            yield number, outcomes
    for number in sorted(left):
        for last in range(TRIES):
            _, outcomes = next(_pool(plan, [number], 1))
            if outcomes is not None or last == TRIES - 1:
                yield number, outcomes or []
                break


def _pool(plan: str, numbers: list[int], workers: int) -> Iterator[tuple[int, list[Outcome] | None]]:
    """Outcomes as they come; None for every batch that was lost when a worker died."""
    pool = ProcessPoolExecutor(min(workers, len(numbers)), multiprocessing.get_context("spawn"))
    try:
        futures: dict[Future, int] = {pool.submit(run_batch, plan, number): number for number in numbers}
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    yield futures[future], future.result()
                except BrokenProcessPool:
                    yield futures[future], None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
