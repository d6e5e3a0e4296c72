"""Datasets on disk: a Zarr (version 3) folder with a format and a checksum of all its files, replaced atomically."""

import hashlib
import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import current, present, replacing
from .._lock import alone_with
from .._shown import shown

if TYPE_CHECKING:
    import xarray

METADATA = "zarr.json"
UNSEALED = "0" * 64
CHECKSUM = re.compile(rb'(?<="checksum": ")[0-9a-f]{64}(?=")')
PATIENCE = 30.0  # seconds to wait for another process that is saving to the same path


def checksum(folder: Path, without: Collection[str] = ()) -> str:
    """Return a hash of the names and bytes of all files in a Zarr folder, except for the checksum itself.

    Args:
        folder: the folder of a Zarr group.
        without: names of arrays whose chunks are left out.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if parts[-1] != METADATA and ("c" not in parts[1:] or parts[-1].startswith(".") or parts[0] in without):
            continue  # not part of the dataset (such as files of a file manager), or excluded
        if not path.is_file():
            continue
        data = path.read_bytes()
        if len(parts) == 1:
            data, found = CHECKSUM.subn(UNSEALED.encode(), data)
            if found != 1:
                raise ValueError("it has no checksum")
        digest.update(json.dumps([parts, len(data)]).encode() + data)
    return digest.hexdigest()


def seal(folder: Path, without: Collection[str] = ()) -> None:
    """Write the checksum of a folder into it; its attribute `checksum` must exist already."""
    metadata, value = folder / METADATA, checksum(folder, without)
    with replacing(metadata) as part:
        part.write_bytes(CHECKSUM.sub(value.encode(), metadata.read_bytes()))


def attributes(folder: Path) -> dict[str, Any]:
    """Return the attributes of a Zarr group, as in its file; raise ValueError if there are none.

    If this file declares version 2, Zarr reads a version 2 group, whose filters can run code, even when asked for version 3.
    """
    try:
        metadata = json.loads((folder / METADATA).read_bytes())
        version, found = metadata["zarr_format"], metadata["attributes"]
    except FileNotFoundError:
        raise ValueError(f"it has no {METADATA}") from None
    except OSError as error:
        raise ValueError(f"{METADATA} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{METADATA} cannot be read") from None
    if not isinstance(found, dict):
        raise ValueError(f"{METADATA} has no attributes")
    if version != 3:
        raise ValueError(f"{METADATA} has Zarr version {shown(version)}: only version 3 is supported")
    return found


def with_checksums(dataset: "xarray.Dataset") -> dict[str, dict[str, Any]]:
    """Return the encoding of a dataset for Zarr that gives each file of numbers a checksum (CRC-32C)."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return {str(name): {"compressors": (ZstdCodec(), Crc32cCodec())} for name in dataset.variables}


def write_saved(dataset: "xarray.Dataset", path: str | os.PathLike, format: str, overwrite: bool) -> Path:
    """Write a dataset; an older one stays intact until the new one replaces it."""
    target = Path(path)
    with alone_with(target, "path", wait=PATIENCE):
        if present(target) and not overwrite:
            raise FileExistsError(f"{target} exists already: give another path or overwrite=True")
        with replacing(target) as part:
            marked = dataset.assign_attrs(format=format, checksum=UNSEALED)
            marked.to_zarr(part, mode="w", consolidated=False, zarr_format=3)
            seal(part)
    return target


def read_saved(path: Path, what: str, format: str) -> "xarray.Dataset":
    """Return a dataset from `write_saved`; check its checksum before decoding. `what` names it in errors, e.g. "run"."""
    while True:
        folder = current(path)
        if not folder.exists():
            raise FileNotFoundError(f"no saved {what} at {path}")
        before = os.stat(folder)
        try:
            return _checked(folder, path, what, format)
        except ValueError:
            now = current(path)
            if not now.exists() or os.path.samestat(before, os.stat(now)):
                raise  # otherwise it was replaced in the meantime


def _checked(folder: Path, path: Path, what: str, format: str) -> "xarray.Dataset":
    import xarray

    try:
        found = attributes(folder)
        known, kind = found.get("format"), format.rpartition("-")[0]
        sound = known == format and found.get("checksum") == checksum(folder)
        dataset = xarray.open_zarr(folder, consolidated=False, zarr_format=3, chunks=None).load() if sound else None
    except Exception as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is not a saved {what}, or it is damaged: {message}") from error
    if known == f"{kind}-1":
        raise ValueError(
            f"{path} was saved by an older tokenfield, without a full checksum: open it with xarray.open_zarr"
        )
    if known != format:
        raise ValueError(f"{path} is not a {what} saved by tokenfield (format {shown(known)})")
    if dataset is None:
        raise ValueError(f"{path} is damaged: its checksum does not match its contents")
    return dataset
