"""Run batches in threads of this process, one per core. Compiled code runs outside Python's lock."""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from ..._cpus import available_cpus
from ..outcome import Outcome
from ..run_batch import prepared, run_batch


@contextmanager
def in_process(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
    prepared(plan)  # once, before several threads ask for it
    pool = ThreadPoolExecutor(available_cpus(), thread_name_prefix="sweep")
    try:
        yield _finished({pool.submit(run_batch, plan, number): number for number in numbers})
    except BaseException:  # an interruption: do not wait for what the threads are computing
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(wait=True)


def _finished(futures: dict[Future, int]) -> Iterator[tuple[int, list[Outcome]]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=futures.__getitem__):
            yield futures[future], future.result()
