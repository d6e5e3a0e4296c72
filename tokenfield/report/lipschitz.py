"""Reports of the Lipschitz constant of attention: at some tokens, and how it grows with their number."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lipschitz import Growth
from .page import Markup, classed, figure_bytes, image, paragraph, prose, table
from .story import Comparison, Story

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = (
    "Theory bounds the constant for all tokens of at most the length of the longest in the sample. A measured constant must "
    "not exceed the bound; typical tokens stay far below it. In the worst case the constant grows like n^{1/2}."
)
NO_BOUND = "Bounds are known for one head of softmax attention only, so there is no prediction for this kernel."
CAPTION = (
    "Dots: samples of tokens; circles: their geometric mean; line: the fitted power of n. Gray, where it is known: the upper "
    "bound for all tokens of at most this length, and the value that the worst tokens attain."
)
ABOUT_BOUNDS = (
    "Theory bounds the constant of these tokens, and of all tokens of at most the length of the longest of them."
)
ABOUT_WORST = (
    "Theory bounds the constant of all tokens of at most this length, and gives a value that the worst ones attain."
)
ACCURACY = 1e-6  # relative accuracy of constants by default: a bound may be attained
UPPER = {
    "sharp_data": "these tokens, bound from their attention",
    "data": "these tokens",
    "sharp_upper": "all tokens of at most this length, sharper bound",
    "upper": "all tokens of at most this length",
}
CONSTANT_SNIPPET = """import json
from pathlib import Path

found = json.loads(Path("constant.json").read_text())
print(found["constant"], found["bounds"])"""
UNIT_SNIPPET = """import json
from pathlib import Path

found = json.loads(Path("constant.json").read_text())
print(found["constant"], "times e to the power", found["log_unit"])"""
SNIPPET = """import xarray

growth = xarray.open_zarr("growth.zarr", consolidated=False)
print(growth.attrs["power"], growth["constant"].mean("sample").to_series())"""


def growth_story(
    found: Growth, inputs: Mapping[str, Any], figure: "Figure", command: str | None = None, format: str = "png"
) -> Story:
    """Return the report of a study of growth.

    Args:
        found: the result of `tokenfield.lipschitz.growth`.
        inputs: the settings of the study, by name.
        figure: the figure of `tokenfield.plotting.growth_figure`.
        command: the command that made it, if it is known.
        format: format of the figure beside the page: "png", "pdf" or "svg".
    """
    seen, more = answer(found)
    question = (
        f"How much can {_attention_text(inputs)} amplify a small change of its input, and how does that grow with the number of "
        "tokens n? "
        f"Tokens: {inputs['data'].replace('_', ' ')}."
    )
    means = np.exp(np.log(found.constants).mean(1))
    shown = lambda value: prose(factor_text(value, found.log_unit))  # noqa: E731
    rows = [
        (f"{n}", Markup(shown(mean)), Markup(f"{shown(row.min())} to {shown(row.max())}"))
        for n, mean, row in zip(found.lengths, means, found.constants, strict=True)
    ]
    numbers = classed("numbers", table(rows, head=("n", "geometric mean", "smallest to largest sample")))
    return Story(
        title="Growth of the Lipschitz constant",
        question=question,
        answer=seen,
        more=more,
        comparisons=list(comparisons(found)),
        about_comparisons=ABOUT if found.bounds else NO_BOUND,
        evidence=[
            ("Growth", image(figure_bytes(figure), f"Local Lipschitz constant against n. {seen} {more}", CAPTION)),
            ("Numbers", numbers),
        ],
        files={"growth.zarr": "the constants by n and sample", f"growth.{format}": "the figure"},
        snippet=SNIPPET,
        command=command,
        details=[("Settings", table([(name.replace("_", " "), value) for name, value in inputs.items()]))],
    )


def constant_story(numbers: Mapping[str, Any], inputs: Mapping[str, Any], command: str | None = None) -> Story:
    """Return the report of the constant at given tokens, or of the largest constant that a search found.

    Args:
        numbers: those that `tokenfield lipschitz --json` prints.
        inputs: the settings, by name.
        command: the command that made it, if it is known.
    """
    searched, what = "found" in numbers, _attention_text(inputs)
    size = f"{inputs['n']} tokens"
    log_unit = numbers["log_unit"]
    drawn = "the worst" if searched else inputs["data"].replace("_", " ")
    length = f" of length at most {inputs['R']:g}" if inputs["R"] is not None else ""
    question = f"How much can {what} amplify a small change of {size}{length} ({drawn})?"
    these = f"the worst {size} found" if searched else f"these {size}"
    factor = factor_text(numbers["constant"], log_unit)
    said = f"Attention amplifies a small change of {these} by a factor of at most {factor}."
    more = "This is their local Lipschitz constant."
    more += "" if numbers.get("converged", True) else " It has not converged to the tolerance."
    known = numbers["bounds"] or {}
    values = [(f"singular value {k + 1}", value) for k, value in enumerate(numbers.get("values", []))]
    values += [("explicit tokens of the theory", numbers["explicit_constant"])] if searched else []
    shown = lambda value: None if value is None else Markup(prose(factor_text(value, log_unit, 6)))  # noqa: E731
    rows = [(name, shown(value)) for name, value in values]
    notes = "".join(paragraph(f"About `constant.json`: {note}.", "note") for note in known.get("notes", []))
    return Story(
        title="Local Lipschitz constant of attention",
        question=question,
        answer=said,
        more=more,
        comparisons=list(_within_bounds(numbers)),
        about_comparisons=NO_BOUND if not known else ABOUT_WORST if searched else ABOUT_BOUNDS,
        evidence=[("Numbers", table(rows, head=("what", "value")) + notes)],
        files={"constant.json": "these numbers" + (" and the tokens found" if searched else "")},
        snippet=UNIT_SNIPPET if log_unit else CONSTANT_SNIPPET,
        command=command,
        details=[("Settings", table([(name.replace("_", " "), value) for name, value in inputs.items()]))],
    )


def _within_bounds(numbers: Mapping[str, Any]) -> Iterator[Comparison]:
    """Compare a constant with its bounds: worst tokens with those of the ball, others also with their own."""
    known, constant = numbers["bounds"] or {}, numbers["constant"]
    for name, title in UPPER.items():
        if known.get(name) is not None:
            yield _below(title, constant, known[name])
    if "found" in numbers and known:
        reached = True if constant >= known["lower"] * (1 - ACCURACY) else None
        remark = "" if reached else "the search may have missed the worst tokens"
        yield Comparison("worst tokens", f"≥ {known['lower']:.4g}", f"{constant:.4g}", reached, remark)


def _below(what: str, constant: float, bound: float) -> Comparison:
    """Compare a constant with an upper bound, up to the accuracy of the constant."""
    share = f"{100 * constant / bound:.3g} % of the bound" if bound else ""
    return Comparison(what, f"≤ {bound:.4g}", f"{constant:.4g}", constant <= bound * (1 + ACCURACY), share)


def factor_text(value: float, log_unit: float = 0.0, digits: int = 4) -> str:
    """Return `value e^{log_unit}` as text; in a unit other than 1, as a power of ten, without overflow.

    Example:
        >>> from tokenfield.report.lipschitz import factor_text
        >>> factor_text(12.3), factor_text(12.3, 4000.0)
        ('12.3', '1.853 × 10^1738')
    """
    if log_unit == 0 or value == 0:
        return f"{value:.{digits}g}"
    exponent = math.log10(value) + log_unit / math.log(10)
    whole = math.floor(exponent)
    mantissa, carry = f"{10 ** (exponent - whole):.{digits - 1}e}".split("e")
    return f"{float(mantissa):.{digits}g} × 10^{whole + int(carry)}"


def _attention_text(inputs: Mapping[str, Any]) -> str:
    return f"{inputs['attention']} attention{', causal,' if inputs.get('causal') else ''} in dimension {inputs['d']}"


def answer(found: Growth) -> tuple[str, str]:
    """Return a sentence with the fitted power, and sentences about what it means for twice as many tokens."""
    law, (low, high) = found.law, found.law.interval
    within = f" (95 % interval: {low:.2f} to {high:.2f})" if math.isfinite(low) else ""
    lengths = f"between n = {found.lengths.min()} and n = {found.lengths.max()}"
    twice = f"Twice as many tokens make attention {2**law.power:.2f} times as sensitive."
    unsure = "" if found.converged else " Some constants have not converged to the tolerance."
    return f"The local Lipschitz constant grows like n^{{{law.power:.2f}}}{within} {lengths}.", twice + unsure


def comparisons(found: Growth) -> Iterator[Comparison]:
    """Compare the power with that of the worst case, and the largest constant with its bound."""
    if not found.bounds:
        return
    low, high = found.law.interval
    remark = f"95 % interval {low:.2f} to {high:.2f}"
    power = found.law.power
    yield Comparison(
        "power of n",
        "≤ 0.5 (worst tokens)",
        f"{power:.3f}",
        True if power <= 0.5 else None,
        remark if math.isfinite(low) else "",
    )
    for n, row, bound in zip(found.lengths, found.constants, found.bounds, strict=True):
        yield _below(f"largest constant at n = {n}", float(row.max()), bound.sharp_upper)
