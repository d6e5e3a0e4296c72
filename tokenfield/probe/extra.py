"""The libraries of the extra `tokenfield[models]`, imported when first used."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any

INSTALL = 'pip install -e ".[models]" in the folder of tokenfield'


def need(*names: str) -> Any:
    """Import these modules and return the first; if one is missing, raise an error with the install command.

    Example:
        >>> from tokenfield.probe.extra import need
        >>> torch = need("torch")
    """
    try:
        first, *_ = [import_module(name) for name in names]
        return first
    except ModuleNotFoundError as error:
        missing = (error.name or names[0]).split(".")[0]
        raise ValueError(f"the probe needs {missing}, which is not installed: {INSTALL}") from None


def out_of_memory(error: BaseException | None) -> bool:
    """Return True for the errors that Python and torch raise when memory is exhausted."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, (RuntimeError, OSError))
        and any(
            phrase in message
            for phrase in ("out of memory", "not enough memory", "cannot allocate memory", "bad_alloc")
        )
    )


@contextmanager
def enough_memory(advice: str) -> Iterator[None]:
    """Replace out-of-memory errors by one line that says what to make smaller."""
    try:
        yield
    except Exception as error:
        if out_of_memory(error):
            raise ValueError(f"out of memory {advice}") from None
        raise


@contextmanager
def one_gguf_reader() -> Iterator[None]:
    """Read GGUF files only once, without a progress bar.

    For one model `transformers` parses the file, with its whole vocabulary, three times, and builds the table of its
    tensors' names for every module. Inside this block both are cached, which halves the time.
    """
    gguf, loader = need("gguf"), need("transformers.modeling_gguf_pytorch_utils")
    before = gguf.GGUFReader, gguf.get_tensor_name_map, loader.tqdm
    read = lru_cache(maxsize=1)(gguf.GGUFReader)
    gguf.GGUFReader = lambda path, *mode: read(str(path), *mode)
    gguf.get_tensor_name_map = lru_cache(maxsize=4)(gguf.get_tensor_name_map)
    loader.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map, loader.tqdm = before


def quiet_transformers() -> Any:
    """Silence the progress bars and warnings of `transformers`, which would hide tokenfield's."""
    transformers = need("transformers", "torch")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers
