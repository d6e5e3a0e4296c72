"""Arrays from files."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._check import as_path
from .._shown import shown

NAME = re.compile(r".+\.(npy|csv|txt)|.+\.npz(:\w+)?", re.DOTALL)


def is_array_file(text: str) -> bool:
    """Return True for the name of a file of arrays (.npy, .csv, .txt, .npz), or of one array in it, as "a.npz:name"."""
    return NAME.fullmatch(text) is not None


def path_of(text: str) -> Path:
    """Return the path of an array file, without the name of an array in it."""
    return Path(re.sub(r"(?<=\.npz):\w+$", "", text))


def read_matrix(name: str, path: Path) -> np.ndarray:
    """Return the matrix in a file; raise a ValueError that begins with `name` if there is none."""
    matrix = read_array(name, str(path))
    if getattr(matrix, "ndim", None) != 2 or matrix.size == 0:
        raise ValueError(f"{name}: {path} must hold a matrix, got shape {getattr(matrix, 'shape', 'unknown')}")
    return matrix


def read_vector(name: str, text: str) -> np.ndarray:
    """Return the vector in a file, which may be one row or one column."""
    array = read_array(name, text)
    if array.size == 0 or array.size != max(array.shape, default=0):
        raise ValueError(f"{name}: {text} must hold a vector, got shape {array.shape}")
    return array.reshape(-1)


def read_array(name: str, text: str) -> np.ndarray:
    """Return the array in a .npy, .npz, .csv or text file; "a.npz:b" names one of several arrays in "a.npz"."""
    path = path_of(text)
    if path.suffix != ".npz":
        return _read(name, path)
    arrays, _, key = read_arrays(name, path), *text[len(str(path)) :].partition(":")[1:]
    if key or len(arrays) != 1:
        if key not in arrays:
            hint = f"{path}:{next(iter(arrays), 'name')}"
            raise ValueError(f"{name}: {path} holds {', '.join(arrays) or 'nothing'}: give one of them, such as {hint}")
        return arrays[key]
    return next(iter(arrays.values()))


def read_arrays(name: str, path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of an .npz file by name."""
    found = _read(name, path)
    try:
        return {key: np.array(found[key]) for key in found}
    except Exception as error:  # a damaged archive raises errors of many kinds
        raise ValueError(f"{name}: {path} is not an archive of arrays of numbers: {shown(str(error))}") from None


def _read(name: str, path: Path) -> Any:
    if not as_path(name, path).is_file():
        raise ValueError(f"{name}: no such file: {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of an empty file; it is refused later
            if path.suffix == ".npz":
                archive = np.load(path, allow_pickle=False)
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise ValueError("it is not an .npz archive")
                return archive
            if path.suffix == ".npy":
                return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
            return np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
    except Exception as error:
        what = "an archive of arrays" if path.suffix == ".npz" else "a matrix of numbers"
        raise ValueError(f"{name}: {path} is not {what}: {error}") from None
