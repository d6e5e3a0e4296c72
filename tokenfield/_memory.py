"""Free memory, and errors for arrays that do not fit. Imports no JAX."""

import math
import os
from pathlib import Path


def free_memory() -> float:
    """Return the number of bytes available to programs, including reclaimable file caches if the system reports them.

    Linux reports available memory, Windows free memory, and macOS only the total memory.
    """
    for source in (_linux, _windows, _posix):
        try:
            return source()
        except (OSError, AttributeError, ValueError, StopIteration):  # not on this system
            continue
    return math.inf


def _linux() -> float:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def _windows() -> float:
    import ctypes

    class Status(ctypes.Structure):
        """MEMORYSTATUSEX."""

        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            ("free", ctypes.c_uint64),
            ("rest", ctypes.c_uint64 * 5),
        )

    status = Status(length=ctypes.sizeof(Status))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):  # type: ignore[attr-defined,unused-ignore]
        raise OSError("the system does not say how much memory is free")
    return float(status.free)


def _posix() -> float:
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
    return float(os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE"))


def bytes_text(size: float) -> str:
    """Return bytes with a unit, such as "1.5 GB"."""
    size = float(min(size, 10**300))
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def refuse_large(name: str, *shape: int, copies: int = 1) -> None:
    """Raise a ValueError that names an argument if float64 arrays of this shape do not fit in free memory.

    Args:
        name: the argument.
        shape: shape of one array.
        copies: number of such arrays in memory at once.
    """
    size = 8 * copies * math.prod(shape)
    if size > 1e8 and size > (free := free_memory()):
        numbers = " × ".join(map(str, shape))
        raise ValueError(
            f"{name}: {numbers} numbers need {bytes_text(float(size))} of memory, {bytes_text(free)} are free: make it smaller"
        )
