"""What a claim is: a statement of the literature, with what is predicted and what is measured."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


OPEN = "open"


class Check(NamedTuple):
    """One number (or fact) predicted and measured.

    `predicted=OPEN` marks a number that nothing foretells: it is reported, and `holds` says that it could be measured.
    `printed=True` marks a statement tested in the form in which it was printed although that form is wrong:
    it is expected to fail, and is shown as such beside the corrected one.
    """

    what: str
    predicted: str
    measured: str
    tolerance: str
    holds: bool
    printed: bool = False


class Evidence(NamedTuple):
    """What running a claim gives: checks, and a figure where one helps.

    `skipped` says why nothing was measured, and what to run so that it can be: a real model that is not installed is no failure.
    """

    checks: tuple[Check, ...]
    figure: "Figure | None" = None
    caption: str = ""
    skipped: str = ""


class Claim(NamedTuple):
    """A claim. `measure(quick)` runs the experiment; quick keeps it to a few seconds."""

    id: str
    section: str
    title: str
    statement: str
    source: str
    measure: Callable[[bool], Evidence]


def close(
    what: str, predicted: float, measured: float, *, rtol: float = 0.0, atol: float = 0.0, printed: bool = False
) -> Check:
    """Return `|measured - predicted| <= atol + rtol |predicted|`."""
    allowed = atol + rtol * abs(predicted)
    tolerance = f"± {allowed:.2g}" if not rtol else f"± {rtol:.1g} relative" if not atol else f"± {allowed:.2g}"
    holds = bool(abs(measured - predicted) <= allowed)
    return Check(what, f"{predicted:.8g}", f"{measured:.8g}", tolerance, holds, printed)


def at_most(what: str, bound: float, measured: float, *, printed: bool = False) -> Check:
    """Return `measured <= bound`."""
    return Check(what, f"≤ {bound:.6g}", f"{measured:.6g}", "none", bool(measured <= bound), printed)


def at_least(what: str, bound: float, measured: float, *, printed: bool = False) -> Check:
    """Return `measured >= bound`."""
    return Check(what, f"≥ {bound:.6g}", f"{measured:.6g}", "none", bool(measured >= bound), printed)


def equal(what: str, predicted: object, measured: object, *, printed: bool = False) -> Check:
    """Return a check that the two are the same."""
    return Check(what, str(predicted), str(measured), "exact", bool(predicted == measured), printed)
