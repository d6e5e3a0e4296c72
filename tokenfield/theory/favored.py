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
    both = f"in the first-order window from the fold {fold} to kappa_c, where the uniform law and an ordered one are stable"
    if sigma < edges.equal:
        return (
            f"{both}: the uniform law is favored (lower free energy up to {equal}), but ordered tokens stay so for long"
        )
    return f"{both}: the ordered law is favored (lower free energy from {equal}), but spread tokens stay so for long"


def _number(logarithm: float) -> str:
    return f"{math.exp(logarithm):.6g}" if abs(logarithm) < 700 else f"e^{logarithm:.8g}"
