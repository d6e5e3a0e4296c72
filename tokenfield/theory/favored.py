"""Text that says which stationary law noisy tokens take at a given noise."""

import math

from .noise import transition


def which_law(beta: float, d: int, attention: str, kappa: float, log_critical: float, holds: bool = True) -> str:
    """Return as text where kappa lies among the thresholds of order, and which law has the lower free energy (FORMULAS §10).

    Args:
        beta, d, attention: the model.
        kappa: inverse noise.
        log_critical: the logarithm of `critical_kappa`.
        holds: False if the theory does not apply to this model; the window of a first-order transition is then left out.
    """
    from .branches import window

    sigma = math.log(kappa) - log_critical
    if sigma > 0:
        return "above it: tokens become ordered"
    if not holds or transition(beta, d, attention) == "continuous":
        return "not above it: tokens stay spread"
    try:
        edges = window(beta, d, attention)
    except ValueError as error:
        return f"not above it; an ordered law may exist all the same, from a fold that was not found: {error}"
    fold, equal = (_number(log_critical + edge) for edge in edges)
    if sigma < edges.fold:
        return f"below the fold {fold}, the least kappa with an ordered law: tokens stay spread"
    both = f"in the first-order window from the fold {fold} to the critical kappa, where the uniform and an ordered law are stable"
    law, side, start = ("uniform", "up to", "ordered") if sigma < edges.equal else ("ordered", "from", "spread")
    favored = f"the {law} law is favored (lower free energy {side} {equal})"
    return f"{both}: {favored}, but tokens that start {start} stay so for a long time"


def _number(logarithm: float) -> str:
    return f"{math.exp(logarithm):.6g}" if abs(logarithm) < 700 else f"e^{logarithm:.8g}"
