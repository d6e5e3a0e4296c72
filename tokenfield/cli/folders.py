"""Folders that hold one dataset and one figure."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from .._files import present, recover, refuse_foreign, replacing
from .._lock import alone_in

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


REPORT = "report.html"


@contextmanager
def open_folder(
    folder: Path | None, dataset: str, what: str, overwrite: bool, unfinished: str | None = None
) -> Iterator[None]:
    """Create a folder and lock it; raise ValueError if it is a file, already contains `what`, or cannot be written to.

    If the file `unfinished` is in the folder, the contents are not finished, and the command continues them.
    """
    if folder is None:
        yield
        return
    with alone_in(folder, "command"):
        recover(folder / dataset)
        refuse_foreign(folder, (dataset, *([unfinished] if unfinished else [])), overwrite)
        finished = present(folder / dataset) and not (unfinished and present(folder / unfinished))
        if finished and not overwrite:
            raise ValueError(f"--out: {folder} holds {what}: give another folder, or --overwrite")
        try:
            with TemporaryFile(dir=folder):  # check before hours of work, not after
                pass
        except OSError as error:
            raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None
        yield


def write_dataset(dataset: "xarray.Dataset", path: Path) -> None:
    """Write a dataset as Zarr, replacing an older one. It is written last: a folder that contains it is finished.

    Each file of numbers has a checksum, which xarray verifies when it reads them.
    """
    from ..results.saved import with_checksums

    with replacing(path) as part:
        dataset.to_zarr(part, mode="w", consolidated=False, zarr_format=3, encoding=with_checksums(dataset))


def figure_file(folder: Path, name: str, format: str) -> Path:
    """Return the file of a figure: its usual name, with the suffix of the format."""
    return (folder / name).with_suffix(f".{format}")


def say_open(path: Path | str) -> None:
    """Print the last line of a command that has written files: the one to open first."""
    print(f"open {path}")


def write_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as an image for print, in the format of the suffix."""
    from ..report.page import figure_bytes

    with replacing(path) as part:
        part.write_bytes(figure_bytes(figure, path.suffix.removeprefix("."), dpi=160))
