"""Datasets on disk: a Zarr folder with a format and a checksum, replaced in one step."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray


def checksum(dataset: "xarray.Dataset") -> str:
    """A hash of all the numbers of a dataset."""
    digest = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        digest.update(name.encode() + np.ascontiguousarray(dataset[name].values).tobytes())
    return digest.hexdigest()


Checksum = Callable[["xarray.Dataset"], str]


def write_saved(
    dataset: "xarray.Dataset", path: str | os.PathLike, format: str, overwrite: bool, checksum: Checksum = checksum
) -> Path:
    """Write a dataset; an older one stays whole until the new one is."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already: give another path or overwrite=True")
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    marked = dataset.assign_attrs(format=format, checksum=checksum(dataset))
    marked.to_zarr(part, mode="w", consolidated=False, zarr_format=3)
    if target.exists():
        shutil.rmtree(target)
    os.replace(part, target)
    return target


def read_saved(folder: Path, what: str, format: str, checksum: Checksum = checksum) -> "xarray.Dataset":
    """What `write_saved` wrote of a thing such as a "run", checked."""
    import xarray

    if not folder.exists():
        raise FileNotFoundError(f"no saved {what} at {folder}")
    try:
        dataset = xarray.open_zarr(folder, consolidated=False, chunks=None).load()
    except Exception as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{folder} is not a saved {what}, or it is damaged: {message}") from error
    if dataset.attrs.get("format") != format:
        raise ValueError(f"{folder} is not a {what} saved by tokenfield (format {dataset.attrs.get('format')!r})")
    if dataset.attrs.get("checksum") != checksum(dataset):
        raise ValueError(f"{folder} is damaged: its checksum does not match its contents")
    return dataset
