"""Parsing and validation of the page's messages."""

import json
import math
from typing import Any, NoReturn

from .._shown import shown
from .run import Pace

LARGEST = 4_000_000  # maximum number of characters
KINDS = "start", "play", "pause", "step", "set", "tokens"
SLOWEST, FASTEST = 1e-9, 1e9


def parse(text: str) -> dict[str, Any]:
    """Return a message; raise ValueError with a one-line text if it is invalid."""
    if len(text) > LARGEST:
        raise ValueError(f"message: at most {LARGEST} characters, got {len(text)}")
    try:
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError(f"message: must be JSON, got {shown(text)}") from None
    if not isinstance(message, dict) or message.get("type") not in KINDS:
        raise ValueError(f"message.type must be one of {', '.join(KINDS)}, got {shown(message)}")
    return message


def table(message: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a table of a message."""
    value = message.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be a table, got {shown(value)}")
    return value


def pace(message: dict[str, Any], before: Pace) -> Pace:
    """Return the pace of a message "play"; keys that it omits are unchanged."""
    speed, log = message.get("speed", before.speed), message.get("log", before.log)
    if (
        isinstance(speed, bool)
        or not isinstance(speed, int | float)
        or not SLOWEST <= abs(speed) <= FASTEST
        or speed < 0
    ):
        raise ValueError(f"speed must be a number in [{SLOWEST:g}, {FASTEST:g}], got {shown(speed)}")
    if not isinstance(log, bool):
        raise ValueError(f"log must be true or false, got {shown(log)}")
    return Pace(float(speed), log)


def finite(value: Any) -> Any:
    """Return plain data for JSON, with None in place of NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


class Gone(Exception):
    """The page has disconnected."""
