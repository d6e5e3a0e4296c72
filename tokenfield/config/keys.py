"""Dotted keys, such as "tokens.n", in tables of plain data."""

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
