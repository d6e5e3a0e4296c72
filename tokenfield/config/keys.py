"""Dotted keys, such as "tokens.n", in tables of plain data."""

import tomllib
from typing import Any

from .._shown import shown


def put_key(data: dict[str, Any], key: str, value: Any, complaint: str) -> None:
    """Set a value in nested tables, which are made where they are missing.

    What stands where a table should be is an error: the `complaint`, with {table} and {found} filled in.
    """
    *tables, last = key.split(".")
    for table in tables:
        data = data.setdefault(table, {})
        if not isinstance(data, dict):
            raise ValueError(complaint.replace("{table}", table).replace("{found}", shown(data)))
    data[last] = value


def assignment(text: str) -> tuple[str, Any]:
    """ "a.b=c" as a key and a value, which is read as TOML where it can be and is text otherwise."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set: must be key=value, got {shown(text)}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except ValueError:  # no TOML, or a number of too many digits
        return key.strip(), value.strip()
