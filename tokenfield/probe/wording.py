"""How numbers are written in sentences."""

import numpy as np


def layers_text(numbers: np.ndarray) -> str:
    """ "layers 1, 2, 5", at most six of them."""
    shown = ", ".join(map(str, numbers[:6])) + (f" and {len(numbers) - 6} more" if len(numbers) > 6 else "")
    return f"layer{'s' * (len(numbers) > 1)} {shown}"


def range_text(values: np.ndarray) -> str:
    """Where nine values in ten lie."""
    low, high = np.nanquantile(values, [0.05, 0.95])
    return f"{plain_text(low)} and {plain_text(high)}"


def share_text(part: float) -> str:
    """Per cent, with two digits where it is small."""
    return f"{100 * part:.0f} %" if part >= 0.0995 or part == 0 else f"{100 * part:.2g} %"


def plain_text(value: float) -> str:
    """Two digits, without powers of ten up to a million."""
    return f"{float(f'{value:.2g}'):g}"


def gap_text(rho: float) -> str:
    """`1 - rho`."""
    return f"{1 - rho:.2g}"
