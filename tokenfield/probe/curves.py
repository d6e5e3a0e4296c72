"""Curves over layers that the verdict uses."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

SAME = 1e-4  # relative difference of lengths, or difference of cosines, below which a final norm does nothing
FALL_FRACTION = 0.1  # a curve that falls by at most this fraction of its rise is described by one pace


def over_texts(dataset: "xarray.Dataset", name: str) -> np.ndarray:
    """Return the mean over texts, layer by layer."""
    return dataset[name].mean("text").values


def has_final_norm(dataset: "xarray.Dataset") -> bool:
    """Return True if the last hidden state is not the output of the last block: a norm follows, as in most Pre-LN models."""
    if "stream_norm" not in dataset or not np.isfinite(dataset["stream_norm"]).all():
        return False
    lengths, cosines = dataset["mean_length"].isel(layer=-1), dataset["mean_cosine"].isel(layer=-1)
    ratio, apart = dataset["stream_norm"] / lengths, dataset["stream_cosine"] - cosines
    return bool((np.abs(ratio - 1) > SAME).any() or (np.abs(apart) > SAME).any())


def block_curve(dataset: "xarray.Dataset", prefix: str = "") -> np.ndarray:
    """Return the mean cosine of the embeddings and after each block, the last before a final norm (`null_` for random weights)."""
    rho = over_texts(dataset, f"{prefix}mean_cosine").copy()
    if has_final_norm(dataset) and f"{prefix}stream_cosine" in dataset:
        rho[-1] = float(dataset[f"{prefix}stream_cosine"].mean())
    return rho


def rises_and_falls(rho: np.ndarray) -> tuple[float, float]:
    """Return the total rise and the total fall of a curve."""
    steps = np.diff(rho)
    return float(steps[steps > 0].sum()), float(-steps[steps < 0].sum())


def is_steady(rho: np.ndarray) -> bool:
    """Return True if a curve falls by at most a tenth of its rise, so that one number can describe its pace."""
    rises, falls = rises_and_falls(rho)
    return falls <= FALL_FRACTION * rises
