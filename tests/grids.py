"""What `make test` leaves out: slow tests, and most combinations of parameters. `make test-all` runs everything.

A test marked `grid` has a case for each combination, say of kernel and norm, and each case compiles a program of its own. The
cases that are run have every value of every parameter at least once, and are the same every time. A test marked `slow` repeats
a claim of quicker tests for a larger or longer run.
"""

import itertools
from collections.abc import Iterable
from typing import Any


def split(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the tests to run, in their order, and those left out."""
    left_out = {item.nodeid for item in items if item.get_closest_marker("slow") is not None}
    marked = [item for item in items if item.get_closest_marker("grid") is not None]
    for _, cases in itertools.groupby(marked, key=lambda item: item.nodeid.partition("[")[0]):
        cases = list(cases)
        taken = covering([values(item) for item in cases])
        left_out |= {item.nodeid for number, item in enumerate(cases) if number not in taken}
    return [item for item in items if item.nodeid not in left_out], [item for item in items if item.nodeid in left_out]


def values(item: Any) -> set[tuple[str, Any]]:
    """Return the pairs (parameter, value) of a case. Values that have no hash are told apart by their identity."""
    return {(name, _key(value)) for name, value in item.callspec.params.items()}


def covering(cases: list[set[Any]]) -> set[int]:
    """Return the numbers of a few cases that have all values: each time the first case with the most new ones."""
    missing, taken = set().union(*cases), set[int]()
    while missing:
        number = max(range(len(cases)), key=lambda k: len(cases[k] & missing))
        taken.add(number)
        missing -= cases[number]
    return taken


def _key(value: Any) -> Any:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return id(value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
