"""Engines that run the batches of a sweep: in this process, in other processes, or on a cluster. All give the same bits."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from ..outcome import Outcome

Engine = Callable[[str, list[int]], AbstractContextManager[Iterator[tuple[int, list[Outcome]]]]]
"""`engine(plan as JSON, numbers of batches)` is a context manager with an iterator over `(number, outcomes)` in any order.

If a batch could not be run at all, e.g. because its worker died repeatedly, its outcomes are an empty list.
"""
