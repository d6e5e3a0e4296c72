"""How values appear in messages. Imports no JAX."""

import difflib
from collections.abc import Iterable

LONGEST = 80
LONGEST_MESSAGE = 600


def shown(value: object) -> str:
    """Return `repr(value)` in one line of at most 80 characters; a longer one is cut in the middle."""
    try:
        return cut(repr(value), LONGEST)
    except Exception:  # such as an integer with more digits than Python prints
        return f"a {type(value).__name__} that cannot be printed"


def cut(text: str, longest: int = LONGEST) -> str:
    """Return the text in one line of at most `longest` characters, with … in place of its middle."""
    line = " ".join(text.split())
    head = 2 * longest // 3
    return line if len(line) <= longest else f"{line[:head]}…{line[head + 1 - longest :]}"


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to an unknown one, or "" if none is close."""
    near = _near(name, known)
    return f": did you mean {shown(near)}?" if near else ""


def did_you_mean(name: object, known: Iterable[str], what: str = "known keys") -> str:
    """Return the closest known name as a question, or all names if none is close."""
    known = list(known)
    near = _near(name, known)
    return f"did you mean {near}?" if near else f"{what}: {', '.join(known) or 'none'}"


def _near(name: object, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)), None)
