"""The verdict of a probe for readers without the theory."""

import json
from typing import TYPE_CHECKING

import numpy as np

from .curves import block_curve
from .groups import group_text
from .predicted import RULES
from .verdict import COLLAPSED
from .wording import decimal_text, plain_text, texts_name

if TYPE_CHECKING:
    import xarray

    from .architecture import Architecture

APART = 0.1  # a difference of cosines between model and theory that matters in practice


def plain_verdict(dataset: "xarray.Dataset", architecture: "Architecture") -> tuple[str, str]:
    """Return one sentence (do tokens become alike?) and further ones (theory, clusters)."""
    more = _theory(dataset, architecture), _groups(dataset)
    return _collapse(dataset), " ".join(part for part in more if part)


def _collapse(dataset: "xarray.Dataset") -> str:
    rho = block_curve(dataset)
    collapsed, last = np.flatnonzero(rho >= COLLAPSED), len(rho) - 1
    scale = "0 means unrelated, 1 the same direction"
    if rho[-1] >= COLLAPSED:
        first = int(np.flatnonzero(rho < COLLAPSED)[-1]) + 1 if (rho < COLLAPSED).any() else 0
        return (
            f"Yes, the tokens become alike: from layer {first} on the mean cosine between two tokens is at least {COLLAPSED} "
            f"({scale}), and it ends at {decimal_text(rho[-1])}."
        )
    if len(collapsed):
        top = int(np.argmax(rho))
        return (
            f"For a while: the tokens are nearly alike at layer {top} (mean cosine {decimal_text(rho[top])}; {scale}) and "
            f"separate again, to {decimal_text(rho[-1])} after layer {last}."
        )
    return (
        f"No, the tokens do not become alike: after layer {last} the mean cosine between two tokens is {decimal_text(rho[-1])} "
        f"({scale}); it starts at {decimal_text(rho[0])}."
    )


def _groups(dataset: "xarray.Dataset") -> str:
    if "clusters" not in dataset or "groups" not in dataset:
        return ""
    count, texts = float(dataset["clusters"].isel(layer=-1).mean()), texts_name(dataset)
    if count == 0:
        return (
            f"No two tokens of a {texts[:-1]} are nearly the same (cosine at least {COLLAPSED}) after the last layer."
        )
    over = f" on average over {texts}" if dataset.sizes["text"] > 1 else ""
    every = [group for each in dataset["groups"].values for group in json.loads(str(each))]
    example = group_text(max(every, key=lambda group: group["size"]))
    there = "There are" if count != 1 else "There is"
    return f"{there} {plain_text(count)} cluster{'s' * (count != 1)} of nearly identical tokens{over}; the largest has {example}."


def _theory(dataset: "xarray.Dataset", architecture: "Architecture") -> str:
    if "predicted_cosine" not in dataset or architecture.norm not in RULES:
        return ""
    measured, expected = block_curve(dataset)[-1], float(dataset["predicted_cosine"][-1])
    title = RULES[architecture.norm].title
    if abs(measured - expected) <= APART:
        return f"The final value is close to the {decimal_text(expected)} that theory gives for attention and {title} alone."
    less, what = ("less", "keep tokens apart") if measured < expected else ("more", "bring tokens together")
    return (
        f"The final value is {less} than the {decimal_text(expected)} that theory gives for attention and {title} alone: the "
        f"trained weights and the MLPs {what}."
    )
