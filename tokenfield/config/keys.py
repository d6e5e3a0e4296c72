"""Dotted keys, such as "tokens.n", in tables of plain data."""

import tomllib
from typing import Any

from .._shown import shown


def put_key(data: dict[str, Any], key: str, value: Any, complaint: str) -> None:
    """Set a value in nested tables, and create the tables that are missing.

    If something else is in the place of a table, raise ValueError with the message `complaint`, in which {table} and {found}
    are filled in.
    """
    *tables, last = key.split(".")
    for table in tables:
        data = data.setdefault(table, {})
        if not isinstance(data, dict):
            raise ValueError(complaint.replace("{table}", table).replace("{found}", shown(data)))
    data[last] = value


def assignment(text: str) -> tuple[str, Any]:
    """Split "a.b=c" into a key and a value. The value is parsed as TOML if possible, and is text otherwise."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set: must be key=value, got {shown(text)}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except ValueError:  # not TOML, or a number with too many digits
        return key.strip(), value.strip()
