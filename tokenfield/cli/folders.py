"""Folders that hold one dataset and one figure."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


def open_folder(folder: Path, dataset: str, what: str, overwrite: bool) -> None:
    """Make the folder, or say why not: it is a file, it holds `what` already, it cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: {folder} is a file, not a folder")
    if (folder / dataset).exists() and not overwrite:
        raise ValueError(f"--out: {folder} holds {what}: give another folder, or --overwrite")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # before hours of work, not after
            pass
    except OSError as error:
        raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None


def write_dataset(dataset: "xarray.Dataset", path: Path) -> None:
    """As Zarr, in place of what was there."""
    dataset.to_zarr(path, mode="w", consolidated=False, zarr_format=3)


def write_figure(figure: "Figure", path: Path) -> None:
    """As an image for print."""
    figure.savefig(path, dpi=160)
