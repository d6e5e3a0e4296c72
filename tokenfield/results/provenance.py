"""Where a result comes from: versions, threads, machine-independent facts only."""

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def provenance() -> dict[str, str | int]:
    """Versions and the thread count, which fix the bits of a result."""
    return {
        "tokenfield_version": package_version("tokenfield"),
        "jax_version": package_version("jax"),
        "diffrax_version": package_version("diffrax"),
        "threads": int(os.environ.get("NPROC") or len(os.sched_getaffinity(0))),
    }
