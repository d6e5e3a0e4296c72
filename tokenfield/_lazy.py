"""Lazy imports of the names of a package, so that `import tokenfield` stays quick."""

import atexit
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

atexit.register(gc.freeze)  # skip the garbage collection at exit, which takes a tenth of a second and frees nothing


@contextmanager
def without_collection() -> Iterator[None]:
    """Switch off garbage collection during the block: an import makes many objects, and all of them stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def lazy(package: str, homes: dict[str, str]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `(__all__, __getattr__, __dir__)` of a package, given the names in each of its modules, separated by spaces."""
    home = {name: module for module, names in homes.items() for name in names.split()}
    if clash := sorted(home.keys() & homes.keys()):  # importing such a module would overwrite the name
        raise ImportError(f"{package} exports {clash[0]!r} and has a module of that name: rename the module")

    def getter(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with without_collection():
            value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(home)
    return names, getter, lambda: [*names]  # tab completion shows names that are not imported yet


def drawing() -> Any:
    """Return the package `tokenfield.plotting`, for the methods `plot` and `animate` of results.

    Plotting imports results, so results must not import plotting: it is looked up by name when a figure is requested.
    """
    return import_module("tokenfield.plotting")


def measuring() -> Any:
    """Return the module `tokenfield.observables.series`, for the method `observe` of results, which must not import it either."""
    import_module("tokenfield.observables")
    return import_module("tokenfield.observables.series")


def live_page() -> Any:
    """Return the package `tokenfield.explorer`, for the method `explore` of results: looked up by name, like `drawing`."""
    return import_module("tokenfield.explorer")


def callable_package(package: str) -> None:
    """Make a package callable as the function of its name in its module `run`: `tkf.sweep(plan)`, `tkf.sweep.Plan`."""
    name = package.rpartition(".")[2]

    class CallablePackage(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(import_module(f"{package}.run"), name)(*arguments, **options)

    sys.modules[package].__class__ = CallablePackage
