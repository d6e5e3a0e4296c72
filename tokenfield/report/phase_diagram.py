"""The report of a phase diagram of noisy tokens."""

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..theory import critical_kappa, stationary_states
from .page import classed, figure_bytes, image, table
from .story import Comparison, Story, dataset_rows

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

CLOSE = 0.05  # allowed difference beyond the fluctuations of n tokens
ABOUT = (
    "Each run starts once from disorder and once from order. Theory gives the order parameter of each stable state in "
    "the limit of many tokens. A run agrees if both final states are near one of them: within 0.05 plus twice "
    "(n |1 − κ/κ_c|)^{-1/2}, the fluctuation of n tokens about it."
)
CAPTION = (
    "Left: order parameter of the ordered law. Above the line κ_c noise is too weak to keep tokens apart. Discs are runs of "
    "tokens: the left half started in disorder, the right half in order. A second panel, where there is one, shows the range "
    "in which both disorder and order persist."
)
SNIPPET = """import xarray

diagram = xarray.open_zarr("phase_diagram.zarr", consolidated=False)
print(diagram["critical_kappa"].to_series())"""
LINES = 11  # rows of the table of lines


def phase_diagram_story(
    diagram: "xarray.Dataset",
    runs: "xarray.Dataset | None",
    figure: "Figure",
    command: str | None = None,
    format: str = "png",
) -> Story:
    """Return the report of a phase diagram.

    Args:
        diagram: the result of `tokenfield.theory.phase_diagram`.
        runs: the result of `tokenfield.studies.noisy_order_study`, if tokens were simulated.
        figure: the figure of `tokenfield.plotting.phase_diagram_figure`.
        command: the command that made it, if it is known.
        format: format of the figure beside the page: "png", "pdf" or "svg".
    """
    beta, critical = diagram["beta"].values, diagram["critical_kappa"].values
    d, kernel = int(diagram.attrs["d"]), str(diagram.attrs["attention"])
    question = (
        f"How much noise can {kernel} attention overcome? For tokens on the sphere in dimension {d}: at which inverse "
        f"temperature β and inverse noise κ do they gather?"
    )
    seen, more = answer(beta, critical, float(diagram.attrs["beta_star"]))
    chosen = np.unique(np.linspace(0, len(beta) - 1, LINES).round().astype(int))
    columns = ("critical_kappa", "fold", "equal")
    lines = [(f"{beta[k]:.4g}", *(f"{float(diagram[name][k]):.5g}" for name in columns)) for k in chosen]
    files = {
        "phase_diagram.zarr": "the lines and the order parameter over β and κ",
        f"phase_diagram.{format}": "the figure",
    }
    files |= {} if runs is None else {"runs.zarr": "the runs of tokens"}
    return Story(
        title="Order and disorder of noisy tokens",
        question=question,
        answer=seen,
        more=more,
        comparisons=[] if runs is None else list(comparisons(runs, d, kernel)),
        about_comparisons="No tokens were simulated (--runs 0), so there is no measurement." if runs is None else ABOUT,
        evidence=[
            ("Phase diagram", image(figure_bytes(figure), f"Order over β and κ. {seen} {more}", CAPTION, wide=True)),
            (
                "The lines",
                classed(
                    "numbers",
                    table(
                        lines,
                        head=(
                            "β",
                            "κ_c, uniform law unstable above",
                            "fold, order exists above",
                            "equal free energies",
                        ),
                    ),
                ),
            ),
        ],
        files=files,
        snippet=SNIPPET,
        command=command,
        details=[("Settings and versions", table(dataset_rows(diagram.attrs)))],
    )


def answer(beta: np.ndarray, critical: np.ndarray, star: float) -> tuple[str, str]:
    """Return a sentence about where order begins, and one about whether it begins with a jump."""
    ends = f"from {critical[0]:.3g} at β = {beta[0]:g} to {critical[-1]:.3g} at β = {beta[-1]:g}"
    begins = f"Tokens align from any start if the noise is weak enough: κ above κ_c, which ranges {ends}."
    if not math.isfinite(star) or star >= beta[-1]:
        return begins, "At κ_c, order grows gradually from 0, without a jump."
    return (
        begins,
        f"Order sets in gradually up to β = {star:.4g}; above, it sets in with a jump, and just below κ_c both order and "
        "disorder persist.",
    )


def comparisons(runs: "xarray.Dataset", d: int, kernel: str) -> Iterator[Comparison]:
    """Compare every run with the stable laws at its β and κ."""
    n = json.loads(runs.attrs["config"])["n"]
    for k, beta in enumerate(runs["beta"].values):
        for kappa, (left, right) in zip(runs["kappa"].values[k], runs["order_parameter"].values[k], strict=True):
            relative_distance = max(abs(1 - float(kappa) / critical_kappa(float(beta), d, kernel)), 1e-6)
            margin = CLOSE + 2 / math.sqrt(n * relative_distance)
            laws = [
                law.m_1
                for law in stationary_states(float(beta), float(kappa), d, kernel)
                if law.stable and law.mode <= 1
            ]
            predicted_text = " or ".join(f"{m:.2f}" for m in laws) or "not computed"
            off = max(min(abs(m - end) for m in laws) for end in (left, right)) if laws else math.nan
            agrees = None if not laws else bool(off <= margin)
            measured = f"{left:.2f} from disorder, {right:.2f} from order"
            remark = "" if not laws or agrees else f"off by {off:.2f}"
            yield Comparison(f"order at β = {beta:.3g}, κ = {kappa:.3g}", predicted_text, measured, agrees, remark)
