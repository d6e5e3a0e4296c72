"""The result of a probe."""

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._explained import card
from .._files import current
from ..results.old_names import with_current_names
from ..results.saved import read_saved, write_saved
from .architecture import Architecture
from .curves import has_final_norm

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMAT = "tokenfield-probe-2"
DATASET = "probe.zarr"


class ProbeResult:
    """Everything measured of a model on some texts, with the predictions of theory and the null model.

    `dataset` has the dimensions layer (0 is the embedding output, the last the output of the model), block (block l reads layer
    l), head, text, bin; names are those of `statistics.layer_statistics` and `scores.head_statistics`, with the prefix
    `null_` for random weights.

    Example:
        >>> import tokenfield as tkf
        >>> result = tkf.probe("path/to/model", ["some text"])  # doctest: +SKIP
        >>> result.plot_theory(), result.dataset["mean_cosine"].mean("text")  # doctest: +SKIP
    """

    def __init__(self, dataset: "xarray.Dataset"):
        self.dataset = dataset

    @property
    def architecture(self) -> Architecture:
        """The architecture of the model."""
        return Architecture(**json.loads(self.dataset.attrs["architecture"]))

    @property
    def notes(self) -> list[str]:
        """Notes for readers: windows, quantization, what was not measured."""
        return json.loads(self.dataset.attrs["notes"])

    @property
    def answer(self) -> str:
        """Whether tokens become alike, in a few plain sentences."""
        from .plain_verdict import plain_verdict

        return " ".join(plain_verdict(self.dataset, self.architecture)).strip()

    @property
    def more(self) -> str:
        """A sentence about what was not measured but could be; empty if nothing."""
        left = " and ".join(f"{what} (--{flag}, in Python {flag}=True)" for flag, what in self._left.items())
        return f"Not measured: {left}. --full (full=True) measures everything, in a few minutes." if left else ""

    @property
    def _left(self) -> dict[str, str]:
        """The measurements that were not made, by the flag that enables each."""
        asked = {
            "null": ("null_mean_cosine", "random weights"),
            "lipschitz": ("lipschitz_power", "Lipschitz constants"),
        }
        possible = asked.items() if self.architecture.supported else ()
        return {flag: what for flag, (name, what) in possible if name not in self.dataset}

    @property
    def verdict(self) -> list[str]:
        """The findings as text."""
        from .verdict import verdict

        return [sentence.text for sentence in verdict(self.dataset, self.architecture)]

    def summary(self) -> dict[str, Any]:
        """Return plain numbers, as `tokenfield probe --json` prints them: means over texts; None where there is no number.

        `layers` has one object for each hidden state, the embedding output first; `blocks` one for each attention block.
        """
        data = self.dataset
        normed, last = has_final_norm(data), data.sizes["layer"] - 1
        layered = [str(name) for name in data.data_vars if data[name].dims in (("layer", "text"), ("layer",))]
        per_block = [
            str(n) for n in data.data_vars if data[n].dims in (("block", "head", "text"), ("block", "text"), ("block",))
        ]
        texts = zip(data["text_excerpt"].values, data["tokens"].values, strict=True)
        return {
            "model": data.attrs["source"],
            "architecture": self.architecture.as_dict(),
            "norm": self.architecture.norm_name,
            "notes": self.notes,
            "texts": [{"excerpt": str(excerpt), "tokens": int(tokens)} for excerpt, tokens in texts],
            "layers": [
                {
                    "layer": int(layer),
                    "after_final_norm": normed and k == last,
                    **{name: _mean(data[name].values[k]) for name in layered},
                }
                for k, layer in enumerate(data["layer"].values)
            ],
            "blocks": [
                {"block": int(block), **{name: _median(data[name].values[k]) for name in per_block}}
                for k, block in enumerate(data["block"].values)
            ],
            "answer": self.answer,
            "verdict": self.verdict,
            "more": self.more,
            "config": json.loads(data.attrs["config"]),
        }

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the dataset to a Zarr (version 3) folder; read it back with `ProbeResult.load`."""
        return write_saved(self.dataset, path, FORMAT, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "ProbeResult":
        """Return the result that `save` wrote, after verifying its checksum; `path` may be the folder of a finished command."""
        folder = Path(path)
        folder = folder / DATASET if current(folder / DATASET).exists() else folder
        found = cls(with_current_names(read_saved(folder, "probe", FORMAT)))
        try:
            _ = found.architecture, found.notes, found.dataset["mean_cosine"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{folder} is not a saved probe, or it is damaged: {str(error).splitlines()[0]}"
            ) from error
        return found

    def plot_cosines(self, **options: Any) -> "Figure":
        """Draw the distribution of the cosines of all pairs at each layer; see `tokenfield.plotting.probe_cosines`."""
        from ..plotting import probe_cosines

        return probe_cosines(self.dataset, **options)

    def plot_histograms(self, **options: Any) -> "Figure | Axes":
        """Draw histograms of the cosines at a few layers; see `tokenfield.plotting.cosine_histograms`."""
        from ..plotting import cosine_histograms

        return cosine_histograms(self.dataset, **options)

    def plot_theory(self, **options: Any) -> "Figure":
        """Draw the mean cosine over layers, measured, predicted and with random weights; see `tokenfield.plotting.probe_theory`."""
        from ..plotting import probe_theory

        return probe_theory(self.dataset, **options)

    def report(self, folder: str | os.PathLike, command: str | None = None, format: str = "png") -> Path:
        """Write `report.html`, and its figures as PNG, PDF or SVG; return the path of the page."""
        from .page import write_probe_report

        return write_probe_report(self, folder, command, format)

    def _repr_html_(self) -> str:
        kind, rho = self.architecture, self.dataset["mean_cosine"].mean("text").values
        rows = {
            "model": str(self.dataset.attrs["source"]),
            "architecture": f"{kind.family}, {kind.norm_name}, {kind.depth} blocks",
            "texts": ", ".join(str(excerpt) for excerpt in self.dataset["text_excerpt"].values[:3]),
            "mean cosine": f"{rho[0]:.3f} at the embedding, {rho[-1]:.3f} at the last layer",
            "answer": self.answer,
            **({"more": self.more} if self.more else {}),
        }
        return card("Probe", rows, "result.verdict, result.plot_theory(), result.report(folder)")

    def __repr__(self) -> str:
        kind, sizes = self.architecture, self.dataset.sizes
        rho = self.dataset["mean_cosine"].mean("text").values
        return (
            f"ProbeResult({kind.family}, {kind.norm_name}, {kind.depth} blocks; {sizes['text']} text(s); "
            f"mean cosine {rho[0]:.3f} → {rho[-1]:.3f}"
            + "".join(f"; {flag}=True: {what} too" for flag, what in self._left.items())
            + ")"
        )


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _mean(values: np.ndarray) -> float | None:
    finite = np.asarray(values)[np.isfinite(values)]
    return _plain(finite.mean()) if finite.size else None


def _median(values: np.ndarray) -> float | None:
    finite = np.asarray(values)[np.isfinite(values)]
    return _plain(np.median(finite)) if finite.size else None
