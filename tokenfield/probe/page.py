"""The report of a probed model."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import replacing, write_text
from ..report.page import classed, figure_bytes, folded, image, paragraph, table
from ..report.story import Comparison, Story
from .curves import block_curve, has_final_norm
from .groups import group_text
from .plain_verdict import APART, plain_verdict
from .predicted import RULES
from .verdict import verdict
from .wording import layer_labels, stored_text, texts_name

if TYPE_CHECKING:
    import xarray

    from ..plotting.style import Sheet
    from .architecture import Architecture
    from .result import ProbeResult

CAPTIONS = {
    "theory": "Mean cosine over pairs of tokens; the band goes from the 5 % to the 95 % quantile over texts. Theory starts from "
    "the measured cosine at the embeddings and uses the number of tokens and each block's median β; it has no fitted "
    "constant. It assumes tokens at equal angles, V = I, no MLP, and one layer of the detected norm rule per block. The flow is "
    "the same in continuous time. With a random rotation V, attention adds a vector orthogonal to the tokens. Random "
    "weights: the same architecture before training.",
    "cosines": "Each column is the histogram of the cosines of all pairs of tokens (without padding) over all texts at one "
    "layer; white means no pairs.",
    "histograms": "The same at a few layers, histograms overlaid, as in Figure 1 of the survey: cosines move toward 1 "
    "if tokens become alike. A single high peak is cut off.",
    "layers": "Means over texts, with a band from their 5 % to their 95 % quantile. The energy of a layer is at "
    "that layer's own β, so it may also change because β changes. A cluster consists of all tokens that are linked by a chain of "
    "cosines of at least 0.9; its smallest cosine measures its width.",
    "heads": "Each dot is a head (median over texts), lines are medians over the heads of a block. According to "
    "theory, a head above the critical line focuses on few tokens as n grows; a head below it averages over many.",
    "smoothness": "Local Lipschitz constants of attention layers with their real weights, biases, heads, mask and positions, at "
    "random parts of the texts with n tokens. The bound is the largest one for the tokens of a sample; worst tokens are those of "
    "the sharpest head of each block (geometric mean over the blocks shown), no longer than the real ones, without biases and "
    "positions.",
}
SPECIAL = " Panel a includes special tokens such as [CLS]; panel b shows only pairs with a special token."
FINAL_NORM = " The last layer is measured after the model's final norm."
SHOWN_NOTES = 3
SHOWN_TEXTS = 6
ABOUT = (
    "Theory includes attention and the norm only, with tokens at equal angles, values V = I and no fitted constant. It shows what "
    "attention would do alone; a trained model may well differ."
)
SNIPPET = """from tokenfield.probe import ProbeResult

result = ProbeResult.load("probe.zarr")
print(result.answer)
print(result.dataset["mean_cosine"].mean("text").values)"""
TITLES = {
    "theory": "Collapse: measured and predicted",
    "cosines": "All pairs of tokens",
    "histograms": "All pairs at a few layers",
    "layers": "Layer by layer",
    "heads": "Heads",
    "smoothness": "Smoothness",
}
COLUMNS = {
    "mean_cosine": "mean cosine",
    "mean_cosine_no_special": "mean cosine without special tokens",
    "null_mean_cosine": "mean cosine with random weights",
    "predicted_cosine": "predicted mean cosine",
    "std_cosine": "std of cosines",
    "effective_rank": "effective rank",
    "clusters": "clusters",
    "largest_cluster": "tokens in the largest cluster",
    "cluster_cosine": "smallest cosine in it",
    "single_tokens": "single tokens",
    "normalized_energy": "normalized energy",
    "mean_length": "mean length",
}


def write_probe_report(
    result: "ProbeResult", folder: str | os.PathLike, command: str | None = None, format: str = "png"
) -> Path:
    """Write `report.html`, one file that needs no network, and its figures beside it.

    Args:
        result: the result of `tkf.probe`.
        folder: where to write; created if needed.
        command: the command that made the result, if it is known.
        format: format of the figures beside the page: "png", "pdf" or "svg". Those in the page are PNG.

    Returns:
        The path of the page.

    Example:
        >>> from tokenfield.probe.page import write_probe_report
        >>> write_probe_report(result, "out")  # doctest: +SKIP
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for name, sheet in figures(result.dataset).items():
        pictures[name] = figure_bytes(sheet)
        with replacing(target / f"{name}.{format}") as part:
            if format == "png":
                part.write_bytes(pictures[name])
            else:
                sheet.savefig(part, format=format)
    path = target / "report.html"
    write_text(path, probe_page(result, pictures, command, format))
    return path


def figures(dataset: "xarray.Dataset") -> "dict[str, Sheet]":
    """Return the figures for which the dataset has numbers, by name."""
    from .. import plotting

    made = {"theory": plotting.probe_theory(dataset), "cosines": plotting.probe_cosines(dataset)}
    made["histograms"] = plotting.cosine_histograms(dataset)  # type: ignore[assignment]  # a Sheet: no axes are given
    made["layers"] = plotting.probe_layers(dataset)
    if "gamma" in dataset and np.isfinite(dataset["gamma"]).any():
        made["heads"] = plotting.probe_heads(dataset)
    if "lipschitz_power" in dataset and np.isfinite(dataset["lipschitz_power"]).any():
        made["smoothness"] = plotting.probe_smoothness(dataset)
    return made


def probe_page(
    result: "ProbeResult", pictures: dict[str, bytes], command: str | None = None, format: str = "png"
) -> str:
    """Return the page as HTML."""
    dataset, architecture = result.dataset, result.architecture
    name = Path(str(dataset.attrs.get("source", dataset.attrs.get("model", "a model")))).name
    answer, further = plain_verdict(dataset, architecture)
    verdict_parts = [
        lead(dataset, architecture),
        *remarks(result.notes),
        *([more] if (more := getattr(result, "more", "")) else []),
    ]
    findings_text = "".join(map(paragraph, verdict_parts)) + folded("Every finding, with its numbers", findings(result))
    evidence = [("Findings", findings_text)]
    if named := group_rows(dataset):
        about = "The largest clusters of tokens after the last layer, linked by chains of cosines of at least 0.9."
        evidence.append(("Tokens that cluster", paragraph(about, "note") + table(named, head=("text", "clusters"))))
    for key, title in TITLES.items():
        if key in pictures:
            described = f"{title}, as a figure. {answer} {further}".strip()
            evidence.append((title, image(pictures[key], described, caption(key, dataset), wide=True)))
    evidence.append(("All layers in numbers", layer_table(dataset)))
    if "smoothness" in pictures:
        evidence.append(("Powers of n, block by block", smoothness_table(dataset)))
    files = {"probe.zarr": "everything that was measured, as a Zarr dataset"}
    files |= {f"{key}.{format}": f"figure: {TITLES[key]}" for key in pictures}
    story = Story(
        title=f"Token representations in {name}",
        question=f"Do the tokens of {name} become alike from layer to layer, and does theory predict it?",
        answer=answer,
        more=further,
        comparisons=list(comparisons(dataset, architecture)),
        about_comparisons=ABOUT,
        evidence=evidence,
        files=files,
        snippet=SNIPPET,
        command=command,
        details=[
            ("Texts", classed("texts", table(text_rows(dataset), head=("text", "tokens")))),
            ("Architecture", table(architecture_rows(architecture))),
            ("Versions and settings", table(provenance_rows(dataset))),
        ],
    )
    return story.html()


def findings(result: "ProbeResult") -> str:
    """Return the detailed verdict."""
    return table((sentence.topic, sentence.text) for sentence in verdict(result.dataset, result.architecture))


def group_rows(dataset: "xarray.Dataset") -> list[tuple[str, str]]:
    """Return the groups of the first texts, as text."""
    if "groups" not in dataset:
        return []
    rows = []
    for excerpt, groups in zip(dataset["text_excerpt"].values, dataset["groups"].values, strict=True):
        found = [group_text(group) for group in json.loads(str(groups))]
        rows.append((str(excerpt), "; ".join(found) or "none: no two tokens are nearly the same"))
    return rows[:SHOWN_TEXTS]


def comparisons(dataset: "xarray.Dataset", architecture: "Architecture") -> Iterator[Comparison]:
    """Compare the final mean cosine with theory and with random weights."""
    measured = float(block_curve(dataset)[-1])
    if "predicted_cosine" in dataset and architecture.norm in RULES:
        expected = float(dataset["predicted_cosine"][-1])
        off = measured - expected
        what = f"mean cosine after {dataset.sizes['layer'] - 1} layers of {RULES[architecture.norm].title}"
        remark = f"{abs(off):.2f} {'above' if off > 0 else 'below'} theory"
        yield Comparison(what, f"{expected:.2f}", f"{measured:.2f}", abs(off) <= APART, remark)
    if "null_mean_cosine" in dataset and np.isfinite(random := block_curve(dataset, "null_")[-1]):
        remark = "the same architecture before training; not a prediction for the trained one"
        yield Comparison("the same with random weights", f"{random:.2f}", f"{measured:.2f}", None, remark)


def caption(key: str, dataset: "xarray.Dataset") -> str:
    """Return the caption of a figure."""
    normed = key != "heads" and key != "smoothness" and has_final_norm(dataset)
    special = key == "cosines" and "special_histogram" in dataset and float(dataset["special_histogram"].sum()) > 0
    return CAPTIONS[key] + (SPECIAL if special else "") + (FINAL_NORM if normed else "")


def remarks(notes: list[str]) -> list[str]:
    """Return notes as sentences; only the first few of many notes about single texts."""
    single = [note for note in notes if re.match(r"text \d+ has", note)]
    shown = [note for note in notes if note not in single[SHOWN_NOTES:]]
    if len(single) > SHOWN_NOTES:
        shown.append(f"{len(single) - SHOWN_NOTES} more texts were cut in the same way")
    return [_capital(note) + ("" if note.endswith(".") else ".") for note in shown]


def _capital(note: str) -> str:
    """Capitalize the first letter, except for a file name."""
    first = note.split(" ")[0]
    return note if re.search(r"[._/]", first) else note[:1].upper() + note[1:]


def lead(dataset: "xarray.Dataset", architecture: "Architecture") -> str:
    """Return the model in one line."""
    tokens = dataset["tokens"].values
    heads = f"of {architecture.heads} heads"
    blocks = f"with {architecture.depth} blocks {heads}"
    if architecture.shared_block:
        blocks = f"one shared block {heads}, run {architecture.depth} times"
    stored = f", weights stored in {stored_text(architecture.quantized)}" if architecture.quantized else ""
    known = architecture.norm != "unknown"
    mask = ("causal, " if architecture.causal else "bidirectional, ") if known else ""
    rule = f"{architecture.norm_name} (from its config)" if known else "norm rule not known"
    count, sizes = len(tokens), f"{tokens.min()} to {tokens.max()}" if np.ptp(tokens) else f"{tokens[0]}"
    measured = f"{count} text{'s' * (count != 1)} of {sizes} tokens"
    if texts_name(dataset) == "windows":
        whole = len(np.unique(dataset["text_number"]))
        measured = f"{count} windows of {sizes} tokens in {whole} text{'s' * (whole != 1)}"
    return f"{architecture.family}, {mask}{blocks}, width {architecture.width}, {rule}{stored}; measured on {measured}."


def layer_table(dataset: "xarray.Dataset") -> str:
    """Return one row for each hidden state: means over texts."""
    names = [name for name in COLUMNS if name in dataset and np.isfinite(dataset[name]).any()]
    columns = {name: dataset[name].mean("text") if "text" in dataset[name].dims else dataset[name] for name in names}
    rows = []
    for place, layer in enumerate(layer_labels(dataset)):
        cells = [float(columns[name][place]) for name in names]
        rows.append((layer, *(None if np.isnan(cell) else f"{cell:.3g}".replace("-", "−") for cell in cells)))
    return classed("numbers", table(rows, head=("layer", *(COLUMNS[name] for name in names))))


def smoothness_table(dataset: "xarray.Dataset") -> str:
    """Return the fitted powers, block by block."""
    rows = [
        (int(block), f"{power:.3f}", f"{low:.3f} to {high:.3f}")
        for block, power, low, high in zip(
            dataset["block"].values,
            *(dataset[f"lipschitz_power{part}"].values for part in ("", "_low", "_high")),
            strict=True,
        )
        if np.isfinite(power)
    ]
    return table(rows, head=("block", "power of n", "95 %"))


def text_rows(dataset: "xarray.Dataset") -> list[tuple[str, int]]:
    """Return the beginning of each text, and its length."""
    return [(str(x), int(n)) for x, n in zip(dataset["text_excerpt"].values, dataset["tokens"].values, strict=True)]


def architecture_rows(architecture: "Architecture") -> list[tuple[str, object]]:
    """Return the detected architecture."""
    rows: list[tuple[str, object]] = [(name.replace("_", " "), value) for name, value in architecture.as_dict().items()]
    return [(name, value) for name, value in rows if name != "reason" or value]


def provenance_rows(dataset: "xarray.Dataset") -> list[tuple[str, object]]:
    """Return the attributes of the dataset that are plain, short values."""
    hidden = {"notes", "architecture", "config"}
    plain: dict[str, Any] = {str(k): v for k, v in dataset.attrs.items() if k not in hidden and not _long(v)}
    return [
        (name.replace("_", " "), value.item() if isinstance(value, np.generic) else value)
        for name, value in plain.items()
    ]


def _long(value: Any) -> bool:
    return len(str(value)) > 200
