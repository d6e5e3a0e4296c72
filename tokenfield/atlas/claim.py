"""Claims: statements from the literature, with predicted and measured values."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


OPEN = "open"


class Check(NamedTuple):
    """One number (or fact), predicted and measured.

    `predicted=OPEN` marks a number for which there is no prediction: it is reported, and `holds` says whether it could be
    measured. `printed=True` marks a statement tested exactly as it was printed, although that form is wrong:
    it is expected to fail, and is shown next to the corrected statement.
    """

    what: str
    predicted: str
    measured: str
    tolerance: str
    holds: bool
    printed: bool = False


class Evidence(NamedTuple):
    """Result of running a claim: checks, and possibly a figure.

    `skipped` says why nothing was measured and what to run first. A real model that is not installed is not a failure.
    """

    checks: tuple[Check, ...]
    figure: "Figure | None" = None
    caption: str = ""
    skipped: str = ""


class Claim(NamedTuple):
    """A claim. `measure(quick)` runs the experiment; with `quick=True` it takes a few seconds."""

    id: str
    section: str
    title: str
    statement: str
    source: str
    measure: Callable[[bool], Evidence]


def close(
    what: str, predicted: float, measured: float, *, rtol: float = 0.0, atol: float = 0.0, printed: bool = False
) -> Check:
    """Return the check `|measured - predicted| <= atol + rtol |predicted|`."""
    allowed = atol + rtol * abs(predicted)
    tolerance = f"± {allowed:.2g}" if not rtol else f"± {rtol:.1g} relative" if not atol else f"± {allowed:.2g}"
    holds = bool(abs(measured - predicted) <= allowed)
    return Check(what, f"{predicted:.8g}", f"{measured:.8g}", tolerance, holds, printed)


def at_most(what: str, bound: float, measured: float, *, printed: bool = False) -> Check:
    """Return the check `measured <= bound`."""
    return Check(what, f"≤ {bound:.6g}", f"{measured:.6g}", "none", bool(measured <= bound), printed)


def at_least(what: str, bound: float, measured: float, *, printed: bool = False) -> Check:
    """Return the check `measured >= bound`."""
    return Check(what, f"≥ {bound:.6g}", f"{measured:.6g}", "none", bool(measured >= bound), printed)


def equal(what: str, predicted: object, measured: object, *, printed: bool = False) -> Check:
    """Return the check `measured == predicted`."""
    return Check(what, str(predicted), str(measured), "exact", bool(predicted == measured), printed)
