"""The findings of a probe as sentences, all computed from the numbers of the dataset."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .curves import block_curve, has_final_norm, is_steady, over_texts, rises_and_falls
from .predicted import RULES, other_norms
from .verdict_attention import radius, scale, smoothness, threshold
from .wording import decimal_text, gap_text, last_text, layers_text, plain_text, share_text, texts_name, texts_range

if TYPE_CHECKING:
    import xarray

    from .architecture import Architecture

SCALE = 4.0  # the beta at which energies of layers are compared
ALIKE = 0.02  # a difference between two changes of the cosine that is too small to report
APART = 0.05  # a difference of cosines that is large enough to report
COLLAPSED = 0.9  # the mean cosine that counts as "collapse"


class Sentence(NamedTuple):
    """A finding: its topic and its text."""

    topic: str
    text: str


def verdict(dataset: "xarray.Dataset", architecture: "Architecture") -> list[Sentence]:
    """Return where representations collapse, how fast compared with theory, and what another scale or norm would change.

    A layer counts as collapsed when the mean cosine over pairs of tokens, averaged over texts, is at least 0.9. What was not
    measured is left out.

    Args:
        dataset: the dataset of the probe, with the prediction in it.
        architecture: the architecture of the model.

    Example:
        >>> from tokenfield.probe.verdict import verdict
        >>> [sentence.text for sentence in verdict(result.dataset, result.architecture)]  # doctest: +SKIP
    """
    parts: tuple[Callable[[Any, Any], str | None], ...] = (
        collapse,
        clusters,
        null,
        theory,
        threshold,
        scale,
        norms,
        energy,
    )
    parts = (*parts, smoothness, radius)
    found = [(part.__name__, part(dataset, architecture)) for part in parts]
    return [Sentence(NAMES[name], text) for name, text in found if text]


NAMES = {
    "collapse": "collapse",
    "clusters": "clusters",
    "null": "random weights",
    "theory": "speed",
    "threshold": "attention scale",
    "scale": "log n",
    "norms": "another norm",
    "energy": "energy",
    "smoothness": "smoothness",
    "radius": "worst case",
}


def collapse(dataset: "xarray.Dataset", architecture: "Architecture") -> str:
    """Return where the mean cosine after a block reaches 0.9, or its largest value; and its value after a final norm."""
    rho, normed = block_curve(dataset), has_final_norm(dataset)
    start, end, top = rho[0], rho[-1], int(np.argmax(rho))
    collapsed = np.flatnonzero(rho >= COLLAPSED)
    ends = f"The mean cosine between tokens goes from {decimal_text(start)} at the embeddings to {decimal_text(end)}"
    ends += f" after layer {len(rho) - 1}"
    if len(collapsed) == 0:
        where = f"; its largest value is {decimal_text(rho[top])}, at layer {top}" if top != len(rho) - 1 else ""
        text = f"Representations do not collapse. {ends}{where}."
    elif end >= COLLAPSED:
        stays = int(np.flatnonzero(rho < COLLAPSED)[-1]) + 1 if (rho < COLLAPSED).any() else 0
        text = f"Representations collapse: the mean cosine is at least {COLLAPSED} from layer {stays} on. {ends}."
    else:
        text = (
            f"Representations come close and separate again. {ends}, with a mean cosine of at least {COLLAPSED} at "
            f"{layers_text(collapsed)} on the way (highest: {rho[top]:.2f} at layer {top})."
        )
    last = over_texts(dataset, "mean_cosine")[-1]
    if normed:
        text += f" After the final norm it is {decimal_text(last)}."
    plain = over_texts(dataset, "mean_cosine_no_special")
    if np.isfinite(plain).all() and abs(plain[-1] - last) > 0.02:
        text += (
            f" Without special tokens it {'is' if normed else 'ends at'} {decimal_text(plain[-1])}{' there' * normed}."
        )
    if dataset.sizes["text"] > 1:
        text += " " + texts_range(dataset["mean_cosine"].isel(layer=-1).values, texts_name(dataset))
    return text


def clusters(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Return the final clusters, the size and width of the largest, and the number of single tokens."""
    if "single_tokens" not in dataset:
        return None
    last, where = dataset.isel(layer=-1), f"after {last_text(dataset)}"
    count, single, many = float(last["clusters"].mean()), float(last["single_tokens"].mean()), dataset.sizes["text"] > 1
    if count == 0:
        return f"No two tokens have a cosine of {COLLAPSED} or more {where}."
    share = last["largest_cluster"] / last["tokens"]
    largest = (
        f"{share_text(float(share.mean()))} of the tokens" if many else f"{int(last['largest_cluster'][0])} tokens"
    )
    what = f"{plain_text(count)} cluster{'s' * (count != 1)} (largest: {largest}, with cosines down to "
    what += (
        f"{decimal_text(float(last['cluster_cosine'].min()))}), {plain_text(single)} single token{'s' * (single != 1)}"
    )
    over = f" on average over {texts_name(dataset)}" if many else ""
    return (
        f"{what}{over} {where}; a cluster consists of all tokens linked by a chain of cosines of at least {COLLAPSED}."
    )


def null(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Compare how trained and random blocks change the mean cosine, each from its own initial value."""
    if "null_mean_cosine" not in dataset:
        return None
    trained, random = block_curve(dataset), block_curve(dataset, "null_")
    if not np.isfinite(random[[0, -1]]).all():
        return None
    changes = trained[-1] - trained[0], random[-1] - random[0]
    more = changes[0] - changes[1]
    what = "bring tokens closer together than" if more > 0 else "keep tokens further apart than"
    what = "change it about as much as" if abs(more) < ALIKE else what
    return (
        f"With random weights the same architecture takes the mean cosine from {decimal_text(random[0])} to "
        f"{decimal_text(random[-1])} ({decimal_text(changes[1], sign=True)}), the trained model from {decimal_text(trained[0])} to "
        f"{decimal_text(trained[-1])} ({decimal_text(changes[0], sign=True)}): each from its own start, trained blocks {what} "
        f"random ones ({decimal_text(more, sign=True)})."
    )


def theory(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Return how many theoretical layers correspond to the model's blocks, if the model's curve is steady enough."""
    if "predicted_cosine" not in dataset:
        return None
    rho, predicted = block_curve(dataset), dataset["predicted_cosine"].values
    depth, rule = len(rho) - 1, RULES[architecture.norm].title
    text = (
        f"Theory for {rule} from the same start (tokens at equal angles, V = I, no MLP, one layer per block) reaches "
        f"{decimal_text(predicted[-1])} after {depth} layers"
    )
    soon = np.flatnonzero(predicted >= COLLAPSED)
    text += f", and {COLLAPSED} at layer {soon[0]}" if len(soon) else ""
    if rho[-1] <= rho[0]:
        text += f"; the model ends no higher than it starts ({decimal_text(rho[-1] - rho[0], sign=True)})."
    elif rho[-1] >= predicted[-1]:
        text += f"; the model ends above that, at {decimal_text(rho[-1])}."
    elif not (is_steady(rho) and (np.diff(predicted) > 0).all()):
        rises, falls = rises_and_falls(rho)
        text += f"; the model ends below that, at {decimal_text(rho[-1])}. Its curve rises by {decimal_text(rises)} and falls by "
        text += f"{decimal_text(falls)} in total, so no single speed describes it."
    else:
        layers = float(np.interp(rho[-1], predicted, np.arange(depth + 1)))
        speed = (
            "a similar speed" if layers > 0.75 * depth else f"{plain_text(layers / depth)} times the speed of theory"
        )
        text += f". The {depth} blocks of the model move tokens as far as {layers:.1f} theoretical layers: {speed}."
    apart = np.abs(rho - predicted)
    if apart[widest := int(np.argmax(apart))] > apart[-1] + APART:
        text += (
            f" On the way they differ most at layer {widest}, where the model is at {decimal_text(rho[widest])} and theory at "
            f"{decimal_text(predicted[widest])}."
        )
    flow, rotated = (float(dataset[f"predicted_cosine_{name}"][-1]) for name in ("flow", "rotated"))
    return f"{text} In continuous time theory ends at {flow:.2f}; with random rotations as values, at {rotated:.2f}."


def norms(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Return the end of the predicted curve under the other rules."""
    if "predicted_cosine" not in dataset or architecture.norm not in RULES:
        return None
    ends = other_norms(dataset, architecture.norm, architecture.causal)
    own, depth = float(dataset["predicted_cosine"][-1]), dataset.sizes["layer"] - 1
    listed = " and ".join(f"{gap_text(curve[-1])} under {title}" for title, curve in ends.items())
    return (
        f"By theory, 1−ρ after {depth} layers is {gap_text(own)} under {RULES[architecture.norm].title}, and would be {listed}, "
        "from the same start and β."
    )


def energy(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Return whether the normalized energy at a fixed beta rises through all layers, as it does along the flow.

    A final norm is not a step of the flow: the last layer is then left out.
    """
    text, last = [], -1 if has_final_norm(dataset) else None
    before = " (before the final norm)" if last else ""
    if "fixed_energy" in dataset and np.isfinite(values := over_texts(dataset.sel(scale=SCALE), "fixed_energy")).all():
        values = values[:last]
        falls = np.flatnonzero(np.diff(values) < 0) + 1
        ends = f"from {values[0]:.3g} to {values[-1]:.3g} at layer {len(values) - 1}"
        where = f"At β = {SCALE:g} in all layers the normalized energy"
        if len(falls):
            text.append(
                f"{where} goes {ends}{before}, but falls at {layers_text(falls)}: along the flow it never does."
            )
        else:
            text.append(f"{where} rises from layer to layer, {ends}{before}, as along the flow.")
    if "normalized_energy" in dataset and np.isfinite(own := over_texts(dataset, "normalized_energy")).all():
        text.append(f"At each layer's own β it goes from {own[0]:.3g} to {own[:last][-1]:.3g}.")
    return " ".join(text) or None
