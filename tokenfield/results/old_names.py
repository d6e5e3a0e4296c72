"""Datasets of older versions, whose variables had other names."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

RENAMED = {
    "m_1": "order_parameter",
    "cosine": "mean_cosine",
    "norm_mean": "mean_length",
    "gamma_critical": "critical_gamma",
    "predicted_cosine_turned": "predicted_cosine_rotated",
    "lipschitz_exponent": "lipschitz_power",
    "lipschitz_exponent_low": "lipschitz_power_low",
    "lipschitz_exponent_high": "lipschitz_power_high",
}


def with_current_names(dataset: "xarray.Dataset") -> "xarray.Dataset":
    """Return a saved phase diagram, study or probe with the names that its variables have in this version.

    Example:
        >>> import xarray
        >>> list(with_current_names(xarray.Dataset({"norm_mean": 1.0})))
        ['mean_length']
    """
    pairs = {f"{prefix}{old}": f"{prefix}{new}" for old, new in RENAMED.items() for prefix in ("", "null_")}
    return dataset.rename({old: new for old, new in pairs.items() if old in dataset})
