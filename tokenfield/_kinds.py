"""Registry of classes and functions by name or as "module:Name". Imports no JAX.

A class is registered by a class variable `kind`, a function by a decorator. Their parameters are those of their signature, so
nothing else has to be registered.
"""

import functools
import importlib
import inspect
import os
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from ._explained import Explained
from ._shown import cut, nearest, shown

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = __package__ + "."
PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_functions: dict[str, dict[str, dict[str, Callable[..., Any]]]] = {}  # by role, name and "module:Name"


class Named(Explained):
    """A class that TOML files, sweeps and the command line can name."""

    kind: ClassVar[str] = ""
    """Its name there. A class without one is found as "module:Class"."""
    title: ClassVar[str] = ""
    """Its name in figures and tables."""

    @classmethod
    def maker(cls) -> Callable[..., Any]:
        """Return the function that makes an object from plain data. Its parameters are the keys of a table of this kind."""
        return cls


def named(role: str, name: str) -> Callable[[F], F]:
    """Register a function under a name and a role, such as "start" (a decorator)."""

    def decorate(function: F) -> F:
        _functions.setdefault(role, {}).setdefault(name, {})[place_of(function)] = function
        return function

    return decorate


def found(base: type) -> dict[str, Any]:
    """Return the concrete classes of a family by kind: our own, and those of a user that have been imported."""
    return {kind: next(iter(places.values())) for kind, places in _family(base).items()}


def our_kinds(base: type) -> str:
    """Return the kinds of our own classes of a family as a string, for messages."""
    return ", ".join(kind for kind, each in found(base).items() if is_ours(each))


def find(base: type, name: str) -> Any:
    """Return the class of a kind, or a user's class given as "module:Class"; raise ValueError if there is none."""
    if ":" in _text(name):
        return _of_family(base, name, imported(name))
    known = _family(base)
    if name not in known:
        hint = nearest(name, known)
        raise ValueError(f"must be one of {our_kinds(base)} or your own module:Class, got {shown(name)}{hint}")
    return _only(name, known[name])


def find_function(role: str, name: str) -> Callable[..., Any]:
    """Return the function of that name and role, or a user's function given as "module:function"."""
    if ":" in _text(name):
        function = imported(name)
        if not callable(function):
            raise ValueError(f"{name} must be a function, got {shown(function)}")
        return function
    known = _functions.get(role, {})
    if name not in known:
        hint = nearest(name, known)
        ours = ", ".join(sorted(each for each, function in functions(role).items() if is_ours(function)))
        raise ValueError(f"must be one of {ours} or your own module:function, got {shown(name)}{hint}")
    return _only(name, known[name])


def functions(role: str) -> dict[str, Callable[..., Any]]:
    """Return the functions of a role by name: our own, and those of a user that have been imported."""
    return {name: next(iter(each.values())) for name, each in _functions.get(role, {}).items()}


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"must be a name, got {shown(name)}")
    return name


def _only(name: str, places: Mapping[str, Any]) -> Any:
    """Return the only object of a name; raise ValueError if there are several."""
    if len(places) > 1:
        raise ValueError(f"{shown(name)} is the name of {' and of '.join(places)}: give one of these instead")
    return next(iter(places.values()))


def name_of(each: Any, kind: str) -> str:
    """Return the name by which another process finds a class or a function: its kind if it is ours, else "module:Name"."""
    return kind if ":" in kind or is_ours(each) or not PLACE.fullmatch(place_of(each)) else place_of(each)


def place_of(each: Any) -> str:
    return f"{each.__module__}:{each.__qualname__}"


def is_ours(each: Any) -> bool:
    """Return True for a class or a function of this package."""
    return (each.__module__ + ".").startswith(PACKAGE)


def imported(place: str) -> Any:
    """Return the object "module:Name", also from the current folder; raise ValueError if it does not exist."""
    module, _, name = place.partition(":")
    if not PLACE.fullmatch(place):
        raise ValueError(f"must be module:Name, such as my_module:MyClass, got {shown(place)}")
    try:
        value: Any = import_module(module)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    for part in name.split("."):
        if part not in dir(value):
            hint = nearest(part, [each for each in vars(value) if not each.startswith("_")])
            raise ValueError(f"{place}: module {module} has no {part}{hint}")
        value = getattr(value, part)
    return value


def import_module(name: str) -> ModuleType:
    """Return a module from the current folder or from sys.path; raise ValueError if it cannot be imported."""
    try:
        with _current_folder_first():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ValueError(f"module {name} cannot be imported: {cut(str(error))}") from None
        raise ValueError(f"there is no module {name} in the current folder or on sys.path") from None
    except Exception as error:  # raised by the user's code, or an impossible module name
        raise ValueError(f"module {name} cannot be imported: {type(error).__name__}: {cut(str(error))}") from error


def source_of(place: str) -> Path | None:
    """Return the file of the module of "module:Name"; None for any other string, and for a module without a file."""
    if not PLACE.fullmatch(place):
        return None
    imported(place)
    file = getattr(sys.modules[place.partition(":")[0]], "__file__", None)
    return None if file is None else Path(file)


@functools.lru_cache(maxsize=1024)
def missing(kind: Any) -> tuple[str, ...]:
    """Return the names of abstract methods, fields and class variables that a class does not define."""
    names = [*getattr(kind, "__abstractmethods__", ())]
    names += [*getattr(kind, "__abstractvars__", ()), *getattr(kind, "__abstractclassvars__", ())]  # set by Equinox
    for each in kind.__mro__:
        annotations = inspect.get_annotations(each)
        names += [name for name, of in annotations.items() if _is_class_variable(of) and not hasattr(kind, name)]
    return tuple(sorted(set(names)))


@functools.lru_cache(maxsize=1024)
def parameters(maker: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a class or a function by name, with annotations evaluated if possible.

    If a constructor takes `**options`, the parameters of its parent's constructor are included.
    """
    try:
        signature = inspect.signature(maker, eval_str=True)
    except (NameError, TypeError):
        signature = inspect.signature(maker)
    every = signature.parameters.values()
    taken = {each.name: each for each in every if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    if isinstance(maker, type) and any(each.kind is each.VAR_KEYWORD for each in every):  # **options, for a parent
        own = next(parent for parent in maker.__mro__ if "__init__" in vars(parent))
        rest = maker.__mro__[maker.__mro__.index(own) + 1 :]
        parent = next((each for each in rest if each is not object and "__init__" in vars(each)), None)
        return {**({} if parent is None else parameters(parent)), **taken}
    return taken


def call(name: str, maker: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Call a class or a function with options by name; raise ValueError if one is unknown or missing."""
    taken = parameters(maker)
    unknown = [key for key in options if key not in taken]
    if unknown:
        raise ValueError(f"{name} takes no {unknown[0]}; it takes {', '.join(taken) or 'no options'}")
    given = dict(options)
    for key, each in taken.items():
        if key not in given and each.default is each.empty:
            if type(None) not in typing.get_args(each.annotation):
                raise ValueError(f"{name} needs {key}")
            given[key] = None
    by_place = [given.pop(key) for key, each in taken.items() if each.kind is each.POSITIONAL_ONLY and key in given]
    return maker(*by_place, **given)


def kinds_in(package: str, base: str) -> list[str]:
    """Return the kinds of our own classes like `found`, but read from files without importing them: for `--help`."""
    bases: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.joinpath(package).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for each in re.finditer(r"^class (\w+)\(([^)]*)\)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
            bases[each[1]] = re.findall(r"\w+", each[2])
            if kind := re.search(r'^    kind: ClassVar\[str\] = "(.*)"', each[3], re.MULTILINE):
                kinds[each[1]] = kind[1]

    def below(name: str) -> bool:
        return name == base or any(map(below, bases.get(name, ())))

    return sorted(kind for name, kind in kinds.items() if below(name))


def names_in(package: str, role: str) -> list[str]:
    """Do the same for functions of a role."""
    files = Path(__file__).parent.joinpath(package).glob("*.py")
    decorator = re.compile(rf'^@named\("{role}", "(.*)"\)', re.MULTILINE)
    return sorted(name for path in files for name in decorator.findall(path.read_text(encoding="utf-8")))


def _of_family(base: Any, name: str, each: Any) -> Any:
    """Return a user's class, or raise ValueError if it cannot be used."""
    if not (isinstance(each, type) and issubclass(each, base)):
        raise ValueError(f"{name} must be a class that derives from {base.__name__}, got {shown(each)}")
    if lacks := missing(each):
        parent = next(parent for parent in each.__mro__[1:] if parent.__module__.startswith(PACKAGE))
        raise ValueError(f"{name} does not define {', '.join(lacks)}, as every {parent.__name__} must")
    return each


def _family(base: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the concrete subclasses of a base that have a kind, by kind and by "module:Name"."""
    _import_all(base.__module__.rpartition(".")[0])
    return _by_kind((base, *_below(base)))


@functools.lru_cache(maxsize=64)
def _by_kind(classes: tuple[Any, ...]) -> Mapping[str, Mapping[str, Any]]:
    kinds: dict[str, dict[str, Any]] = {}
    for each in classes:
        if vars(each).get("kind") and not missing(each):
            kinds.setdefault(each.kind, {})[place_of(each)] = each
    return dict(sorted(kinds.items(), key=lambda item: (not is_ours(next(iter(item[1].values()))), item[0])))


def _below(base: Any) -> Iterator[Any]:
    for each in base.__subclasses__():
        yield each
        yield from _below(each)


@functools.cache
def _import_all(package: str) -> None:
    """Import all modules of one of our packages, so that a new file is found without being listed anywhere."""
    if package.startswith(PACKAGE):
        for each in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(each.name)


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return typing.get_origin(annotation) is ClassVar or annotation is ClassVar


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Search the current folder for modules first, as `python -m` does."""
    here = os.getcwd()
    importlib.invalidate_caches()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
