"""The names that a flag takes, for its help: read from the files of the package, without importing JAX."""

from .._kinds import kinds_in, names_in


def one_of(package: str, base: str) -> str:
    """Return the kinds of a family of classes as text."""
    return f"{', '.join(kinds_in(package, base))}, or your own module:Class"


def one_start() -> str:
    """Return the names of the starts as text."""
    return f"{', '.join(sorted([*names_in('states', 'start'), *names_in('config', 'start')]))}, or your own module:function"
