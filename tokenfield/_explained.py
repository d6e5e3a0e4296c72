"""Objects that display the arguments of their constructor, as text and in notebooks. Imports no JAX."""

import inspect
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Self

from ._shown import cut, did_you_mean

MOST_ENTRIES = 12  # larger arrays are shown by their shape
MOST_ITEMS = 4  # of a longer list, the first ones are shown
UNKNOWN = object()  # stands for an argument that the object does not store


class Explained:
    """An object that stores the arguments of its constructor, as fields of the same names or in its parts."""

    def arguments(self) -> dict[str, Any]:
        """Return arguments from which the constructor makes an equal object."""
        return {name: _value(self, name) for name in _parameters(type(self))}

    def shown_arguments(self) -> dict[str, Any]:
        """Return the arguments to show: those that differ from their defaults."""
        known = _parameters(type(self))
        return {name: value for name, value in self.arguments().items() if not _is_default(value, known.get(name))}

    def replace(self, **changes: Any) -> Self:
        """Return an object made from the same arguments, except for these.

        Inside `jit`, `vmap` and `grad` the new values may be traced.

        Example:
            >>> import tokenfield as tkf
            >>> tkf.Softmax(beta=9.0, causal=True).replace(beta=4.0)
            Softmax(beta=4.0, causal=True)
        """
        given, name = self.arguments(), type(self).__name__
        for key in changes:
            if key not in given:
                raise ValueError(f"{name} has no argument {key}: {did_you_mean(key, given, 'it has')}")
        if lost := [key for key, value in given.items() if value is UNKNOWN and key not in changes]:
            raise ValueError(f"replace: {name} does not store {lost[0]}; pass {lost[0]} as well")
        by_place = [key for key, each in _parameters(type(self)).items() if each.kind is each.POSITIONAL_ONLY]
        made = given | changes
        return type(self)(*[made.pop(key) for key in by_place], **made)

    def __repr__(self) -> str:
        known = _parameters(type(self))
        parts = [_named(name, value, known.get(name)) for name, value in self.shown_arguments().items()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return card(type(self).__name__, {name: text(value) for name, value in self.shown_arguments().items()})


def text(value: Any) -> str:
    """Return a value as short text: numbers to six digits, small arrays as lists, large ones by shape, functions by name."""
    if value is UNKNOWN:
        return "…"
    if value is None or isinstance(value, (bool, int, str, Explained)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        items = [text(item) for item in value[:MOST_ITEMS]]
        return f"[{', '.join(items)}{f', … {len(value)} in total' if len(value) > MOST_ITEMS else ''}]"
    if isinstance(value, float) or _is_array(value):
        return _array_text(value)
    name = getattr(value, "__name__", None)
    return name if callable(value) and isinstance(name, str) else cut(repr(value))


def card(title: str, rows: Mapping[str, str], note: str = "") -> str:
    """Return a heading and a table of two columns as HTML for notebooks; all text is escaped.

    It uses the colors of the page, so it is readable in dark mode.
    """
    cell = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;background:none"
    lines = "".join(
        f'<tr style="background:none"><td style="{cell};opacity:.7">{escape(name)}</td>'
        f'<td style="{cell};overflow-wrap:anywhere">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    table = f'<table style="border:none;margin:2px 0">{lines}</table>' if rows else ""
    below = f'<div style="opacity:.7">{escape(note)}</div>' if note else ""
    return f'<div style="max-width:60em"><b>{escape(title)}</b>{table}{below}</div>'


def grid(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a header row as HTML for notebooks; all text is escaped."""
    cell = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;background:none"
    head = "".join(f'<th style="{cell}">{escape(name)}</th>' for name in names)
    lines = ["".join(f'<td style="{cell}">{escape(value)}</td>' for value in row) for row in rows]
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    table = f'<table style="border:none"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto"><b>{escape(title)}</b>{table}</div>'


def _parameters(kind: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


def _value(owner: Any, name: str) -> Any:
    """Return an argument: the field of that name, of the object or of one of its internal parts, such as a score."""
    fields = vars(owner)
    if name in fields:
        return _unwrapped(fields[name])
    for part in fields.values():
        if _is_part(part) and name in vars(part):
            return vars(part)[name]
    return _unwrapped(getattr(owner, name, UNKNOWN))


def _unwrapped(value: Any) -> Any:
    """Return the field of a part that has only one field, such as the matrix of a value map."""
    if isinstance(value, (tuple, list)):
        return [_unwrapped(item) for item in value] or None
    if _is_part(value) and len(vars(value)) == 1:
        return next(iter(vars(value).values()))
    return value


def _is_part(value: Any) -> bool:
    """Return True for a module that only stores some of the arguments of another."""
    return type(value).__module__.startswith(f"{__package__}.") and not isinstance(value, Explained)


def _is_default(value: Any, parameter: inspect.Parameter | None) -> bool:
    if parameter is None or parameter.default is parameter.empty:
        return False
    default = parameter.default
    if value is None or (isinstance(value, list) and all(item is None for item in value)):
        return default is None or default == ()
    if _is_array(value):
        return isinstance(default, (int, float)) and value.ndim == 0 and text(value) == text(float(default))
    return type(value) is type(default) and bool(value == default)


def _named(name: str, value: Any, parameter: inspect.Parameter | None) -> str:
    """Return `name=value`, or only the value for a required argument that is itself an object."""
    required = parameter is not None and parameter.default is parameter.empty
    items = value if isinstance(value, list) else [value]
    bare = required and all(isinstance(item, Explained) for item in items)
    return text(value) if bare else f"{name}={text(value)}"


def _is_array(value: Any) -> bool:
    return all(name in dir(type(value)) for name in ("shape", "dtype", "ndim"))


def _array_text(value: Any) -> str:
    import numpy as np  # not at the top: `--help` needs none

    shape = np.shape(value)
    named = f"array {'×'.join(map(str, shape))}" if shape else "number"
    if np.prod(shape) > MOST_ENTRIES:
        return f"<{named}>"
    try:
        numbers = np.asarray(value)
    except Exception:  # traced by JAX: inside jit, vmap or grad there are no values to show
        return f"<traced {named}>"
    return f"<traced {named}>" if numbers.dtype == object else _list_text(numbers.tolist())


def _list_text(value: Any) -> str:
    return f"[{', '.join(map(_list_text, value))}]" if isinstance(value, list) else _number_text(value)


def _number_text(value: Any) -> str:
    return repr(float(f"{value:.6g}")) if isinstance(value, float) else repr(value)
