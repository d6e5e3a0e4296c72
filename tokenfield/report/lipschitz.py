"""The report of how the Lipschitz constant of attention grows with the number of tokens."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lipschitz import Growth
from .page import classed, figure_png, image, table
from .story import Comparison, Story

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = (
    "Theory bounds the constant for all tokens that are no longer than the longest of the sample. A measured constant must "
    "not exceed the bound; typical tokens stay far below it. In the worst case the constant grows like n^{1/2}."
)
NO_BOUND = "Bounds are known for one head of softmax attention only, so there is no prediction for this kernel."
CAPTION = (
    "Dots: samples of tokens; circles: their geometric mean; line: the fitted power of n. Gray, where it is known: the upper "
    "bound for all tokens of this length, and the value that the worst tokens attain."
)
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
    seen = answer(found)
    what = f"{inputs['attention']} attention{', causal,' if inputs.get('causal') else ''} in dimension {inputs['d']}"
    question = (
        f"How much can {what} amplify a small change of its input, and how does that grow with the number of tokens n? "
        f"Tokens: {inputs['data'].replace('_', ' ')}."
    )
    means = np.exp(np.log(found.constants).mean(1))
    rows = [
        (f"{n}", f"{mean:.4g}", f"{row.min():.4g} to {row.max():.4g}")
        for n, mean, row in zip(found.lengths, means, found.constants, strict=True)
    ]
    numbers = classed("numbers", table(rows, head=("n", "geometric mean", "smallest to largest sample")))
    return Story(
        title="Growth of the Lipschitz constant",
        question=question,
        answer=seen,
        comparisons=list(comparisons(found)),
        about_comparisons=ABOUT if found.bounds else NO_BOUND,
        evidence=[
            ("Growth", image(figure_png(figure), f"Local Lipschitz constant against n. {seen}", CAPTION)),
            ("Numbers", numbers),
        ],
        files={"growth.zarr": "the constants by n and sample", f"growth.{format}": "the figure"},
        snippet=SNIPPET,
        command=command,
        details=[("Settings", table([(name.replace("_", " "), value) for name, value in inputs.items()]))],
    )


def answer(found: Growth) -> str:
    """Return a sentence with the fitted power, and what it means for twice as many tokens."""
    law, (low, high) = found.law, found.law.interval
    within = f" (95 % interval: {low:.2f} to {high:.2f})" if math.isfinite(low) else ""
    lengths = f"between n = {found.lengths.min()} and n = {found.lengths.max()}"
    twice = f"Twice as many tokens make attention {2**law.power:.2f} times as sensitive."
    unsure = "" if found.converged else " Some constants have not converged to the tolerance."
    return f"The local Lipschitz constant grows like n^{{{law.power:.2f}}}{within} {lengths}. {twice}{unsure}"


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
        largest = float(row.max())
        share = f"{100 * largest / bound.sharp_upper:.2g} % of the bound"
        yield Comparison(
            f"largest constant at n = {n}",
            f"≤ {bound.sharp_upper:.4g}",
            f"{largest:.4g}",
            largest <= bound.sharp_upper,
            share,
        )
