"""One batch after another, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..outcome import Outcome
from ..run_batch import run_batch


@contextmanager
def serial(plan: str, numbers: list[int]) -> Iterator[Iterator[tuple[int, list[Outcome]]]]:
    yield ((number, run_batch(plan, number)) for number in numbers)
