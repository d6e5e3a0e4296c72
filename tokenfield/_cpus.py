"""Number of CPUs that this process may use, on every platform. Imports no JAX."""

import os


def available_cpus() -> int:
    """Return the number of CPUs that this process may use, at least 1.

    `os.process_cpu_count` needs Python 3.13, and macOS and Windows have no `os.sched_getaffinity`. There, the result is the
    number of CPUs of the machine.
    """
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
