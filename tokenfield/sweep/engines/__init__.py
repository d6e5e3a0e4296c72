"""Ways to run the batches of a sweep: in this process, in others, on a cluster. None of them changes a bit."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from ..outcome import Outcome

Engine = Callable[[str, list[int]], AbstractContextManager[Iterator[tuple[int, list[Outcome]]]]]
"""`engine(plan as JSON, numbers of batches)` gives, as a context, an iterator over `(number, outcomes)` in any order.

Where a batch could not be run at all, such as when its worker died time and again, its outcomes are an empty list.
"""
