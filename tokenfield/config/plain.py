"""Check plain data for the parameters of a class against their annotations, and convert it to arguments."""

import functools
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import jax
import jaxtyping
import numpy as np
from pydantic import BeforeValidator, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from .._kinds import PLACE, Named, call, find, found, imported, name_of, parameters
from .._shown import did_you_mean, shown
from ..attention import AbstractAttention, Softmax
from .array_file import is_array_file, read_array, read_vector

Table = dict[str, Any]
ARRAYS = (np.ndarray, jax.Array, jaxtyping.AbstractArray)


class Accepted(NamedTuple):
    """What is accepted for a parameter: plain data of some types, and references to an array, a function or an object."""

    plain: tuple[Any, ...]
    array: bool = False
    function: bool = False
    family: type | None = None
    families: type | None = None
    """A family of which a list can be given."""


def accepted(annotation: Any) -> Accepted:
    """Return what is accepted for a parameter with this annotation; if there is no specific annotation, anything."""
    return _accepted(annotation if isinstance(annotation, Hashable) else Any)


@functools.cache
def _accepted(annotation: Any) -> Accepted:
    of_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = [each for each in (typing.get_args(annotation) if of_union else (annotation,)) if each is not type(None)]
    if complex in members:  # numpy.typing.ArrayLike
        return Accepted((float, list[Any]), array=True)
    plain: list[Any] = []
    array = function = False
    family = families = None
    for each in members:
        origin, inner = typing.get_origin(each), typing.get_args(each)
        if each in (float, int, bool, str) or origin is Literal:
            plain.append(each)
        elif each is Callable or origin is Callable:
            function = True
        elif isinstance(each, type) and issubclass(each, Named):
            family = each
        elif origin in (Sequence, list, tuple) and inner and inner[0] is not np.ndarray:
            item = accepted(inner[0])
            families = item.family or families
            if not item.family:
                plain.append(list[typing.Union[item.plain]])  # type: ignore[misc]  # noqa: UP007
                array = array or float in item.plain or item.array
        elif isinstance(each, type) and issubclass(each, ARRAYS):
            array = array or float not in members
        elif origin is None and each is not np.number:
            plain.append(Any)
    if array and not (plain or function or family or families):
        plain = [float, list[Any]]
    if Any in plain or not (plain or function or family or families):
        return Accepted((Any,), array=True, function=True)
    return Accepted(tuple(plain), array, function, family, families)


def check_table(family: type, data: Any, kind: str | None = None) -> Table:
    """Return the table of an object of a family with checked values, and its kind in a form that any process can import.

    A key of another class of the family is kept: the error is raised when the object is built.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"must be a table such as {{kind = {shown(usual_kind(family))}}}, got {shown(data)}")
    kind = data.get("kind", kind or usual_kind(family))
    try:
        each = find(family, kind)
    except ValueError as error:
        refuse_key("kind", kind, str(error))
    options = {key: value for key, value in data.items() if key != "kind"}
    makers = [other.maker() for other in found(family).values()]  # type: ignore[attr-defined]
    return {"kind": name_of(each, kind), **check_options(each.maker(), options, makers)}


def check_options(maker: Callable[..., Any], options: Table, others: Iterable[Callable[..., Any]] = ()) -> Table:
    """Return values for parameters of a class or a function, checked against its own annotations or those of `others`."""
    own, known = parameters(maker), dict[str, Any]()
    for other in (*others, maker):
        known.update(parameters(other))
    for key, value in options.items():
        if key not in known:
            refuse_key(key, value, did_you_mean(key, own), "unknown_key")
    checked = {}
    for key, value in options.items():
        try:
            checked[key] = _adapter(accepted(known[key].annotation)).validate_python(value)
        except ValidationError as error:
            raise ValidationError.from_exception_data("table", [_below(key, each) for each in error.errors()]) from None
    return checked


def _below(key: str, error: Any) -> InitErrorDetails:
    """Return an error of a value as an error of the table that contains it."""
    kind = PydanticCustomError(error["type"], "{message}", {"message": error["msg"].removeprefix("Value error, ")})
    return InitErrorDetails(type=kind, loc=(key, *error["loc"]), input=error["input"])


def refuse_key(key: str, value: Any, message: str, kind: str = "value_error") -> NoReturn:
    """Raise a ValidationError about one key of a table."""
    error = PydanticCustomError(kind, "{message}", {"message": message})  # type: ignore[arg-type]
    raise ValidationError.from_exception_data("table", [InitErrorDetails(type=error, loc=(key,), input=value)])


def usual_kind(family: type) -> str:
    """Return the default kind of a family."""
    return Softmax.kind if issubclass(family, AbstractAttention) else next(iter(found(family)))


def make(family: type, table: Mapping[str, Any]) -> Any:
    """Return the object that a checked table describes."""
    maker = find(family, table["kind"]).maker()
    return call(table["kind"], maker, arguments(maker, {key: table[key] for key in table if key != "kind"}))


def arguments(maker: Callable[..., Any], options: Mapping[str, Any]) -> Table:
    """Return checked values, with names of files and functions and tables replaced by arrays, functions and objects."""
    taken = parameters(maker)
    every = {key: accepted(taken[key].annotation) for key in options if key in taken}
    return {key: _argument(key, value, every[key]) if key in every else value for key, value in options.items()}


def _argument(key: str, value: Any, what: Accepted) -> Any:
    if what.family is not None and isinstance(value, Mapping):
        return make(what.family, value)
    if what.families is not None and isinstance(value, list):
        return [make(what.families, each) for each in value]
    if not isinstance(value, str) or str in what.plain:
        return value
    if what.array and is_array_file(value):
        only_vector = list[float] in what.plain and list[list[float]] not in what.plain
        return read_vector(key, value) if only_vector else read_array(key, value)
    return imported(value) if what.function and PLACE.fullmatch(value) else value


@functools.cache
def _adapter(what: Accepted) -> TypeAdapter:
    return TypeAdapter(_type(what))


def _type(what: Accepted) -> Any:
    """Return the pydantic type of what is accepted."""
    if what.family is not None or what.families is not None:
        return Annotated[Any, BeforeValidator(functools.partial(_tables, what))]
    plain: Any = typing.Union[what.plain] if what.plain else None  # noqa: UP007
    if not (what.array or what.function):
        return plain
    return Annotated[Any, BeforeValidator(functools.partial(_reference, what, plain and TypeAdapter(plain)))]


def _tables(what: Accepted, value: Any) -> Any:
    if what.families is None or (what.family is not None and isinstance(value, Mapping)):
        return check_table(what.family, value)  # type: ignore[arg-type]
    one = Annotated[Any, BeforeValidator(functools.partial(check_table, what.families))]
    return TypeAdapter(list[one]).validate_python(value)  # type: ignore[valid-type]


def _reference(what: Accepted, plain: TypeAdapter | None, value: Any) -> Any:
    """Return plain data, or the name of a file or a function that refers to it."""
    if isinstance(value, str) and str not in what.plain:
        if what.array and is_array_file(value):
            return value
        if what.function and ":" in value and Any not in what.plain:
            function = imported(value)
            if not callable(function):
                raise ValueError(f"{value} must be a function, got {shown(function)}")
            return value
    if plain is None:
        raise ValueError(f"must be a function, given as module:function, got {shown(value)}")
    return plain.validate_python(value)
