"""Matrices from files."""

import warnings
from pathlib import Path

import numpy as np

from .._check import as_path


def read_matrix(name: str, path: Path) -> np.ndarray:
    """The matrix in a .npy, .csv or text file; a ValueError that begins with `name` where there is none."""
    if not as_path(name, path).is_file():
        raise ValueError(f"{name}: no such file: {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of an empty file; it is refused below
            if path.suffix == ".npy":
                matrix = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
            else:
                matrix = np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
    except (ValueError, EOFError, OSError, OverflowError) as error:
        raise ValueError(f"{name}: {path} is not a matrix of numbers: {error}") from None
    if getattr(matrix, "ndim", None) != 2 or matrix.size == 0:
        raise ValueError(f"{name}: {path} must hold a matrix, got shape {getattr(matrix, 'shape', 'unknown')}")
    return matrix
