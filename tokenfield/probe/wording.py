"""The format of numbers in sentences."""

import re
from typing import TYPE_CHECKING

import numpy as np

from .curves import has_final_norm

if TYPE_CHECKING:
    import xarray

FEW = 20  # below this number of texts, a range that contains 90 % of them is not informative


def layers_text(numbers: np.ndarray) -> str:
    """Return numbers of layers as text: "layers 1, 2, 5"; at most six are listed."""
    shown = ", ".join(map(str, numbers[:6])) + (f" and {len(numbers) - 6} more" if len(numbers) > 6 else "")
    return f"layer{'s' * (len(numbers) > 1)} {shown}"


def last_text(dataset: "xarray.Dataset") -> str:
    """Return "layer 6", or "the final norm" if the last hidden state comes after one."""
    return "the final norm" if has_final_norm(dataset) else f"layer {dataset.sizes['layer'] - 1}"


def layer_labels(dataset: "xarray.Dataset") -> list[str]:
    """Return names of the hidden states in tables: their numbers, and for the last that it comes after the final norm."""
    numbers = [str(int(layer)) for layer in dataset["layer"].values]
    return [*numbers[:-1], f"{numbers[-1]}, after the final norm"] if has_final_norm(dataset) else numbers


def range_text(values: np.ndarray) -> str:
    """Return the range of nine values in ten as text."""
    low, high = np.nanquantile(values, [0.05, 0.95])
    return f"{plain_text(low)} and {plain_text(high)}"


def texts_range(values: np.ndarray, what: str) -> str:
    """Return "Nine texts in ten end between 0.10 and 0.20."; for a few texts, the range of all of them."""
    few = len(values) < FEW
    low, high = np.nanquantile(values, [0.0, 1.0] if few else [0.05, 0.95])
    who = f"The {len(values)} {what}" if few else f"Nine {what} in ten"
    return f"{who} end between {decimal_text(low)} and {decimal_text(high)}."


def texts_name(dataset: "xarray.Dataset") -> str:
    """Return what the entries of the dimension `text` are: whole texts, or windows of longer ones."""
    windowed = "text_number" in dataset and len(np.unique(dataset["text_number"])) < dataset.sizes["text"]
    return "windows" if windowed else "texts"


def share_text(part: float) -> str:
    """Return a fraction in percent, with two digits if it is small."""
    return f"{100 * part:.0f} %" if part >= 0.0995 or part == 0 else f"{100 * part:.2g} %"


def plain_text(value: float) -> str:
    """Return a number with two digits, without powers of ten up to a million."""
    return f"{float(f'{value:.2g}'):g}"


def decimal_text(value: float, sign: bool = False) -> str:
    """Return a number with two decimals, with a true minus sign and no −0.00; with `sign`, also with a plus sign."""
    rounded = round(float(value), 2) + 0.0
    return f"{rounded:{'+' if sign else ''}.2f}".replace("-", "−")


def stored_text(kind: str) -> str:
    """Return how weights were stored, e.g. "Q4_1, a 4-bit format"; names of GGUF formats contain the number of bits."""
    bits = re.match(r"I?Q(\d+)_", kind)
    return f"{kind}, a {bits[1]}-bit format" if bits else kind


def gap_text(rho: float) -> str:
    """Return `1 - rho` as text."""
    return f"{1 - rho:.2g}"
