"""Time to first result in a fresh process: import, compile, run the README's lines, print.

Cold: with an empty folder for compiled programs. Warm: from the second process on, with what the first one left there. The
rivals have the same folder and rules: a Diffrax script whose user has turned JAX's cache on would gain as we do, so its warm
time is measured too.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SCRIPTS = Path(__file__).with_name("first")
ROOT = Path(__file__).parent.parent
COLD, WARM = 3, 5


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of each rival's time to ours), cold and from the second process on."""
    names = ("ours", "by_diffrax", "by_scipy")
    for kind, measure in (("cold", cold), ("second process", warm)):
        times = {name: measure(name) for name in names}
        print(f"  time to first result, {kind}: " + ", ".join(f"{name} {times[name]:.2f} s" for name in names))
        ours = times.pop("ours")
        yield f"time to first result, {kind}", {name: seconds / ours for name, seconds in times.items()}


def cold(name: str) -> float:
    """Median seconds of processes that find nothing compiled."""
    spent = []
    for _ in range(COLD):
        with tempfile.TemporaryDirectory() as folder:
            spent.append(seconds(name, Path(folder)))
    return statistics.median(spent)


def warm(name: str) -> float:
    """Median seconds of processes that follow another one."""
    with tempfile.TemporaryDirectory() as folder:
        seconds(name, Path(folder))
        return statistics.median(seconds(name, Path(folder)) for _ in range(WARM))


def seconds(name: str, folder: Path) -> float:
    """Seconds that one process takes, with the user's cache in `folder`."""
    settings = {"XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(ROOT)}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "XLA_"))}
    if name == "by_diffrax":
        kept |= {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    begun = time.perf_counter()
    subprocess.run([sys.executable, SCRIPTS / f"{name}.py"], env=kept | settings, check=True, capture_output=True)
    return time.perf_counter() - begun
