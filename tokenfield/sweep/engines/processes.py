"""Run batches in new local processes. They inherit the environment, except for the variables of `worker_environment`."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager

from ..._workers import begin_worker, terminate
from ..outcome import Outcome
from ..run_batch import run_batch, worker_environment

TRIES = 2  # attempts to run a batch whose worker dies


def processes(workers: int) -> Callable:
    """Return an engine with a number of processes. If one dies, its batches are run again alone: a batch that kills its worker
    every time is not run again."""

    @contextmanager
    def engine(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
        with closing(_run(plan, numbers, workers)) as outcomes:
            yield outcomes

    return engine


def _run(plan: str, numbers: list[int], workers: int) -> Generator[tuple[int, list[Outcome]], None, None]:
    left = deque(numbers)
    while left:
        lost = []
        for number, outcomes in _pool(plan, left, workers):
            if outcomes is None:
                lost.append(number)
            else:
                yield number, outcomes
        for number in sorted(lost):
            yield number, _alone(plan, number)


def _alone(plan: str, number: int) -> list[Outcome]:
    for _ in range(TRIES):
        for _, outcomes in _pool(plan, deque([number]), 1):
            if outcomes is not None:
                return outcomes
    return []


def _pool(plan: str, left: deque[int], workers: int) -> Generator[tuple[int, list[Outcome] | None], None, None]:
    """Yield the outcomes of the batches `left` as they finish, until a worker dies; then yield None for each that was running."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(left)), context, begin_worker, (worker_environment(plan),))
    running: dict[Future, int] = {}
    try:
        while left or running:
            while left and len(running) < workers:
                running[pool.submit(run_batch, plan, left[0])] = left[0]
                left.popleft()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                outcomes = future.result()
                yield running.pop(future), outcomes
    except BrokenProcessPool:
        yield from ((number, None) for number in running.values())
    except BaseException:  # an interruption
        terminate(pool)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
