"""Provenance of a result: versions, precision and thread count; nothing else about the machine."""

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from .._cpus import available_cpus


@cache
def package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Return the versions of the packages that compute a result."""
    return {f"{name}_version": package_version(name) for name in ("tokenfield", "jax", "diffrax")}


def provenance() -> dict[str, str | int]:
    """Return the versions, the precision and the thread count, which determine the bits of a result."""
    return {
        **versions(),
        "precision": "float64",
        "threads": int(os.environ.get("NPROC") or available_cpus()),
    }
