"""The findings of a probe about attention, as sentences: its scale and its smoothness."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..lipschitz.growth import fit_power_law
from ..theory.long_context import residual_layer_contraction, softmax_weights
from .curves import over_texts
from .predicted import measured_start
from .wording import decimal_text, plain_text, range_text, share_text

if TYPE_CHECKING:
    import xarray

    from .architecture import Architecture

LONGER = 16  # times more tokens, to show the effect of the log n scale


def threshold(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Compare gamma of the heads with the critical one."""
    if "gamma" not in dataset or not np.isfinite(dataset["gamma"]).any():
        return None
    gamma, critical = dataset["gamma"].median("text"), dataset["critical_gamma"].median("text")
    above, heads = int((gamma > critical).sum()), int(np.isfinite(gamma).sum())
    beta = dataset["beta"].median("text").values
    return (
        f"The effective β of the heads has a median of {plain_text(np.nanmedian(beta))} (90 % between {range_text(beta)}); "
        f"γ = β/log n exceeds the critical 1/(1−ρ) of its layer in {above} of {heads} heads. "
        f"{_by_theory(above, heads)}{_on_itself(dataset)}"
    )


def _by_theory(above: int, heads: int) -> str:
    """Return what theory predicts for heads below and above the threshold."""
    below = "average over many tokens and pull them together"
    if above in (0, heads):
        return f"By theory they {below}." if above == 0 else "By theory they focus on few tokens."
    return f"By theory heads below the threshold {below}; heads above it focus on few tokens."


def _on_itself(dataset: "xarray.Dataset") -> str:
    """Compare the attention of sharp heads to the token itself: in theory it is large, in real models it need not be."""
    start = measured_start(dataset)
    if start is None or "self_mass" not in dataset:
        return ""
    rho = np.clip(over_texts(dataset, "mean_cosine")[:-1], -1 / (start.n - 1), 1)
    theory = float(np.median(softmax_weights(rho, np.asarray(float(start.n)), start.betas).own))
    measured = float(dataset["self_mass"].median())
    if theory <= 2 * measured:
        return ""
    return (
        f" At the measured β, theory puts {share_text(theory)} of a head's weight on the token itself (median over blocks); "
        f"measured heads put {share_text(measured)} there, so this part of the theory does not describe them."
    )


def scale(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Apply one theoretical layer at each block's cosine and beta: now, with more tokens, and with a log n scale."""
    start = measured_start(dataset)
    if start is None:
        return None
    rho = np.clip(over_texts(dataset, "mean_cosine")[:-1], 0, 1 - 1e-9)
    many = LONGER * start.n
    growth = np.log(many) / np.log(start.n)
    cases = [(start.n, start.betas), (many, start.betas), (many, start.betas * growth)]
    gap = [float(np.median((1 - residual_layer_contraction(rho, n, beta)) / (1 - rho))) for n, beta in cases]
    needed = float(np.median(np.log(start.n) / (1 - rho)))
    return (
        f"At the measured cosines and β, one theoretical layer reduces 1−ρ to {share_text(gap[0])} of its value at n = {start.n} "
        f"(median over blocks), to {share_text(gap[1])} at n = {many}, and to {share_text(gap[2])} there if β grows like log n. To "
        f"be at the threshold at n = {start.n}, heads need β = log n/(1−ρ) = {needed:.3g} (median over blocks)."
    )


def smoothness(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Return the fitted powers of n of the local Lipschitz constant."""
    if "lipschitz_power" not in dataset:
        return None
    powers = dataset["lipschitz_power"].values
    powers = powers[np.isfinite(powers)]
    if not len(powers):
        return None
    lengths = dataset["length"].values
    worst = ""
    rows: Any = dataset["lipschitz_worst"].transpose("block", "length").values if "lipschitz_worst" in dataset else ()
    if laws := [fit_power_law(lengths, row).power for row in rows if np.isfinite(row).all()]:
        power = decimal_text(float(np.median(laws)))
        worst = f" For one head at its worst tokens, no longer than these, the power is {power} (median over blocks)."
    return (
        f"On these texts the local Lipschitz constant of attention grows like n^p with p between {decimal_text(powers.min())} and "
        f"{decimal_text(powers.max())} over the blocks (median {decimal_text(float(np.median(powers)))}; "
        f"n = {lengths.min()} to {lengths.max()}); "
        "¼ was reported as typical, ½ is the worst case." + worst
    )


def radius(dataset: "xarray.Dataset", architecture: "Architecture") -> str | None:
    """Return R² gamma of the lower bound, which determines up to which n the worst case is reached."""
    if "r2gamma" not in dataset or not np.isfinite(dataset["r2gamma"]).any():
        return None
    values = dataset["r2gamma"].median("text").values
    values = values[np.isfinite(values)]
    inside = float(np.mean((values >= 1e2) & (values <= 1e3)))
    return (
        f"The quantity R²γ, which decides up to which n the worst case grows, has the median "
        f"{plain_text(np.nanmedian(values))} over heads (90 % between "
        f"{range_text(values)}); {share_text(inside)} of heads lie in the range 10² to 10³ that is quoted for practice. "
        "The worst case √n holds for n well below exp(2R²γ)."
    )
