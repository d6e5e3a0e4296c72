"""The power of n in local Lipschitz constants, block by block."""

from typing import TYPE_CHECKING

import numpy as np

from ..lipschitz.growth import fit_power_law

if TYPE_CHECKING:
    import xarray


def with_powers(dataset: "xarray.Dataset") -> "xarray.Dataset":
    """Return a dataset with `lipschitz` (block, length, sample) and the power p of `C n^p` fitted to each block (FORMULAS §6).

    `lipschitz_power` and its 95 % confidence interval `_low` and `_high` are as in `tokenfield.lipschitz.fit_power_law`, which
    assumes the power law and independent samples, although parts of one text are not quite independent. A block whose
    constants are missing has no power.

    Example:
        >>> from tokenfield.probe.powers import with_powers
        >>> with_powers(result.dataset)["lipschitz_power"]  # doctest: +SKIP
    """
    values, lengths = dataset["lipschitz"].transpose("block", "length", "sample").values, dataset["length"].values
    found = np.full((3, len(values)), np.nan)
    for block, constants in enumerate(values):
        if np.isfinite(constants).all():
            law = fit_power_law(lengths, constants)
            found[:, block] = law.power, *law.interval
    names = ("lipschitz_power", "lipschitz_power_low", "lipschitz_power_high")
    return dataset.assign({name: ("block", row) for name, row in zip(names, found, strict=True)})
