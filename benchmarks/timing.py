"""Fair timing of rivals in one process: they take turns, and the medians are compared."""

import statistics
import time
from collections.abc import Callable

PAUSE = 0.02  # lets the threads of the one before go to sleep


def against(ours: Callable[[], object], rivals: dict[str, Callable[[], object]], **options) -> dict[str, float]:
    """For each rival, its median time over ours. They meet us one at a time: idle threads of a third would disturb."""
    ratios = {}
    for name, call in rivals.items():
        times = medians({"ours": ours, name: call}, **options)
        ratios[name] = times[name] / times["ours"]
    return ratios


def medians(rivals: dict[str, Callable[[], object]], seconds: float = 2.0, least: int = 7) -> dict[str, float]:
    """Median seconds of a call of each rival; every timed call comes after a pause and an untimed call."""
    spent: dict[str, list[float]] = {name: [] for name in rivals}
    for call in rivals.values():
        call()
    begun = time.perf_counter()
    while min(map(len, spent.values())) < least or time.perf_counter() - begun < seconds * len(rivals):
        for name, call in rivals.items():
            time.sleep(PAUSE)
            call()
            start = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in spent.items()}
