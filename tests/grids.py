"""What `make test` leaves out: most cases of tests that take long. `make test-all` runs everything.

A test marked `grid` has a case for each combination, say of kernel and norm, and each case compiles a program of its own. The
cases that are run have every value of every parameter at least once. Cases marked `slow` are left out. Of a test all of
whose cases are slow the first one is run, of one marked `slow(keep=3)` three of them. The choice is the same every time.
"""

import itertools
from collections.abc import Iterable
from typing import Any


def split(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the tests to run, in their order, and those left out."""
    left_out: set[str] = set()
    for _, group in itertools.groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        cases = list(group)
        marks = [item.get_closest_marker("slow") for item in cases]
        slow = [item.nodeid for item, mark in zip(cases, marks, strict=True) if mark is not None]
        if slow:
            keep = min(marks[0].kwargs.get("keep", 1), len(slow)) if len(slow) == len(cases) > 1 else 0
            taken = {slow[k * len(slow) // keep] for k in range(keep)}
            left_out |= set(slow) - taken
        elif cases[0].get_closest_marker("grid") is not None:
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
    """Return what tells two values of a parameter apart."""
    plain = isinstance(value, str) or not isinstance(value, Iterable)
    try:
        hash(value)
    except TypeError:
        plain = False
    return (type(value), value) if plain else id(value)
