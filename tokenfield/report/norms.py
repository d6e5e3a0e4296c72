"""The report of a comparison of normalization rules."""

import json
import math
from typing import TYPE_CHECKING

import numpy as np

from .page import figure_bytes, image, table
from .run_sentences import decimals
from .story import Comparison, Story, dataset_rows

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

COLLAPSED = 0.9
ABOUT = (
    "The random-weight recursion predicts the mean cosine after each layer from n, d and β alone, in the limit of many "
    "dimensions. A run agrees if it is within 0.02 and three standard errors."
)
CAPTION = (
    "Mean cosine between tokens after each layer. Line: mean over seeds; band: 90 % of seeds. Dashed: the random-weight "
    "recursion. Dotted: equiangular tokens with Q = K = V = I, which is a different model and need not agree."
)
SNIPPET = """import xarray

study = xarray.open_zarr("norms.zarr", consolidated=False)
print(study["mean_cosine"].isel(layer=-1).mean("seed").to_series())"""


def norms_story(study: "xarray.Dataset", figure: "Figure", command: str | None = None, format: str = "png") -> Story:
    """Return the report of a study of normalization rules.

    Args:
        study: the result of `tokenfield.studies.normalization_study`.
        figure: the figure of `tokenfield.plotting.norms_figure`.
        command: the command that made it, if it is known.
        format: format of the figure beside the page: "png", "pdf" or "svg".
    """
    config = json.loads(study.attrs["config"])
    depth, last = config["depth"], study.isel(layer=-1)
    titles = [str(title) for title in study["title"].values]
    means = last["mean_cosine"].mean("seed").values
    size = f"{config['n']} tokens in dimension {config['d']}"
    question = (
        f"Do {size} collapse to one direction in a Transformer of {depth} layers with random weights, and which "
        "normalization rule keeps them apart?"
    )
    seen, more = answer(titles, means, depth)
    rows = [comparison(title, last.sel(rule=rule)) for title, rule in zip(titles, study["rule"].values, strict=True)]
    identity = [(title, each) for title, each in zip(titles, last["identity"].values.tolist(), strict=True)]
    return Story(
        title="Normalization rules side by side",
        question=question,
        answer=seen,
        more=more,
        comparisons=rows,
        about_comparisons=ABOUT,
        evidence=[
            (
                "Layer by layer",
                image(figure_bytes(figure), f"Mean cosine by layer. {seen} {more}".strip(), CAPTION, wide=True),
            )
        ],
        files={
            "norms.zarr": "mean cosine by rule, seed and layer, with the predictions",
            f"norms.{format}": "the figure",
        },
        snippet=SNIPPET,
        command=command,
        details=[
            (
                "Prediction with Q = K = V = I, for comparison",
                table(identity, head=("rule", f"cosine after {depth} layers")),
            ),
            ("Settings and versions", table(dataset_rows(study.attrs))),
        ],
    )


def answer(titles: list[str], means: np.ndarray, depth: int) -> tuple[str, str]:
    """Return a sentence about the rules that collapse tokens, and one about the most and the least ("" for one rule)."""
    order = np.argsort(means)
    least, most = order[0], order[-1]
    many = [titles[k] for k in order[::-1] if means[k] >= COLLAPSED]
    if len(titles) == 1:
        return f"After {depth} layers the mean cosine between tokens is {decimals(means[0])} under {titles[0]}.", ""
    collapsed = f"Tokens collapse (mean cosine at least {COLLAPSED}) under {', '.join(many)}."
    return (
        collapsed if many else f"No rule collapses the tokens within {depth} layers.",
        f"After {depth} layers the mean cosine is highest under {titles[most]} ({decimals(means[most])}) and "
        f"lowest under {titles[least]} ({decimals(means[least])}).",
    )


def comparison(title: str, last: "xarray.Dataset") -> Comparison:
    """Compare the recursion with the seeds, for one rule after the last layer."""
    values, predicted = last["mean_cosine"].values, float(last["recursion"])
    mean = float(values.mean())
    low, high = np.quantile(values, [0.05, 0.95])
    remark = f"90 % of seeds between {low:.3f} and {high:.3f}"
    if not math.isfinite(predicted):
        return Comparison(title, "no formula", f"{mean:.3f}", None, remark)
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    agrees: bool = abs(mean - predicted) <= 0.02 + 3 * error
    return Comparison(title, f"{predicted:.3f}", f"{mean:.3f}", agrees, remark)
