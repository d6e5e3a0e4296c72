"""Local Lipschitz constants of a model's attention layers on real text, against the number of tokens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._check import count
from ..driver.progress import Progress
from .extract import attention_record, head_weights
from .layer_constant import layer_constant
from .loading import Loaded
from .powers import with_powers
from .store import Store
from .texts import Window
from .worst_case import sharpest_head, worst_case

if TYPE_CHECKING:
    import xarray

LENGTHS = (8, 16, 32, 64, 128)
LONGEST = 1024  # because (H, n, n) numbers are stored
SAMPLES = 4


def cut(loaded: Loaded, parts: Sequence[Window], n: int, rng: np.random.Generator) -> Window:
    """Return n consecutive tokens of a random text that is long enough, from a random position, with special tokens around them."""
    prefix, suffix = loaded.tokenizer.prefix, loaded.tokenizer.suffix
    inner = n - len(prefix) - len(suffix)
    long = [part for part in parts if (~part.special).sum() >= inner]
    part = long[rng.integers(len(long))]
    pieces = part.ids[~part.special]
    start = int(rng.integers(len(pieces) - inner + 1))
    ids = np.array([*prefix, *pieces[start : start + inner], *suffix])
    special = np.ones(n, bool)
    special[len(prefix) : n - len(suffix)] = False
    return Window(ids, special, part.excerpt)


def measure_smoothness(
    loaded: Loaded,
    parts: Sequence[Window],
    lengths: Sequence[int] | None = None,
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    store: Store | None = None,
    progress: bool | None = None,
    blocks: Sequence[int] | None = None,
) -> tuple["xarray.Dataset", list[str]]:
    """Return `|D_X f|` of each attention layer at parts of real texts with n tokens, and the fitted power of n (FORMULAS §6).

    A sample is n consecutive tokens of a random text, which the model reads as a separate text; the layers are
    differentiated at its hidden states. All blocks use the same samples. A shared block has one set of weights, and a
    constant for each iteration.

    Args:
        loaded: a model whose attention is supported.
        parts: the texts.
        lengths: numbers of tokens, at least two different ones [8 … 128, as far as the texts are that long].
        samples: number of samples for each length.
        seed: seed of the choice of samples.
        store: storage for finished samples, so that a killed run can be continued.
        progress: show a progress bar.
        blocks: measure only these blocks [all].

    Returns:
        `lipschitz` (block, length, sample); `lipschitz_upper` (block, length), the largest bound from the tokens of a sample;
        `lipschitz_worst` (block, length), see `worst_constants`; `lipschitz_power` (block) with its interval; and notes.

    Example:
        >>> from tokenfield.probe.smoothness import measure_smoothness
        >>> measure_smoothness(loaded, parts, (8, 32))[0]["lipschitz_power"]  # doctest: +SKIP
    """
    import xarray

    sizes, notes = usable_lengths(loaded, parts, lengths)
    if len(sizes) < 2:
        return xarray.Dataset(), [*notes, "texts are too short for the growth of Lipschitz constants: give longer ones"]
    samples, depth = count("samples", samples), loaded.architecture.depth
    chosen = list(range(depth)) if blocks is None else [count("blocks", b, 0) for b in blocks]
    store = Store(None, "lipschitz", "") if store is None else store
    constants, upper = np.full((2, depth, len(sizes), samples), np.nan)
    radius = np.zeros(depth)
    certain = True
    with Progress(progress, "Lipschitz constants", len(sizes) * samples, "samples") as bar:
        for number in range(len(sizes) * samples):
            place = number // samples, number % samples
            stored = store.read(number)
            if stored is None:
                rng = np.random.default_rng([seed, number])
                read = attention_record(loaded, cut(loaded, parts, sizes[place[0]], rng), chosen).inputs
                stored = {name: np.full(depth, np.nan) for name in ("constant", "upper", "converged", "radius")}
                for block in chosen:
                    found = layer_constant(head_weights(loaded, block), read[block])
                    stored["constant"][block], stored["upper"][block] = found.constant, found.upper
                    stored["converged"][block] = found.converged
                    stored["radius"][block] = np.linalg.norm(read[block], axis=1).max()
                store.write(number, stored)
            constants[(slice(None), *place)], upper[(slice(None), *place)] = stored["constant"], stored["upper"]
            radius = np.fmax(radius, stored["radius"])
            certain &= bool(stored["converged"][chosen].all())
            bar.update(number + 1)
    if not certain:
        notes.append("some Lipschitz constants did not converge to 1e-3: they are lower bounds")
    axes = ("block", "length", "sample")
    worst = worst_constants(loaded, chosen, radius, sizes)
    data = {
        "lipschitz": (axes, constants),
        "lipschitz_upper": (axes[:2], upper.max(-1)),
        "lipschitz_worst": (axes[:2], worst),
    }
    return with_powers(xarray.Dataset(data, coords={"block": np.arange(depth), "length": sizes})), notes


def worst_constants(loaded: Loaded, blocks: Sequence[int], radius: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return (depth, lengths) constants of the sharpest head of each block at its worst tokens.

    The tokens are no longer than those of the samples. The constants grow like √n, see `worst_case`.
    """
    found = np.full((loaded.architecture.depth, len(lengths)), np.nan)
    for block in blocks:
        weights = head_weights(loaded, block)
        found[block] = worst_case(weights, sharpest_head(weights), float(radius[block]), lengths, rtol=1e-3).constants
    return found


def usable_lengths(
    loaded: Loaded, parts: Sequence[Window], lengths: Sequence[int] | None
) -> tuple[list[int], list[str]]:
    """Return the lengths for which there are texts, and notes about the others."""
    around = len(loaded.tokenizer.prefix) + len(loaded.tokenizer.suffix)
    longest = max(int((~part.special).sum()) for part in parts) + around
    wanted = LENGTHS if lengths is None else sorted({count("lengths", n, max(2, around + 1)) for n in lengths})
    sizes = [n for n in wanted if n <= min(longest, LONGEST)]
    if lengths is None or len(sizes) == len(wanted):
        return sizes, []
    left = ", ".join(str(n) for n in wanted if n not in sizes)
    why = f"the longest text has {longest} tokens, the limit is {LONGEST}"
    return sizes, [f"lengths {left} left out of the growth of Lipschitz constants: {why}"]
