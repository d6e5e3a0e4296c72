"""Layers with fresh random weights: a recursion for the mean cosine, and laws that differ from V = I."""

import numpy as np

import tokenfield as tkf
from tokenfield.studies import normalization_study

from ..claim import Claim, Evidence, at_most, close

RULES = ("post", "pre", "mix", "peri", "ngpt", "sqrt")


def slope(norm, n: int, d: int, depth: int) -> float:
    """Return the exponent of `1 - rho` as a power of the layer index, over the second half of a deep stack (recursion)."""
    curve = tkf.theory.random_weight_layers(norm, n, d**0.5, d, depth, noise=False)
    layer = np.arange(depth + 1)[depth // 2 :]
    return float(np.polyfit(np.log(layer), np.log(1 - curve.cosine[depth // 2 :]), 1)[0])


def measure(quick: bool) -> Evidence:
    from tokenfield.plotting.norms import norms_figure

    sizes = {"d": 128, "n": 32, "depth": 24, "seeds": 32} if quick else {"d": 512, "n": 128, "depth": 64, "seeds": 24}
    study = normalization_study(**sizes, progress=False)
    mean = study["mean_cosine"].mean("seed")
    checks = []
    for rule in RULES:
        found, predicted = mean.sel(rule=rule).values, study["recursion"].sel(rule=rule).values
        away = np.abs(found - predicted).max()
        checks.append(at_most(f"{rule}: largest distance of the mean cosine from the recursion", 0.03, away))
        still = study["identity"].sel(rule=rule).values.max()
        checks.append(at_most(f"{rule}: the curve for Q = K = V = I stays below", 1e-3, still))
    depth = 400 if quick else 1600
    for name, norm in (("pre", tkf.PreLN()), ("peri", tkf.PeriLN())):
        found = slope(norm, sizes["n"], sizes["d"], depth)
        checks.append(close(f"{name}: exponent of 1-ρ over layers {depth // 2} to {depth}", -1.0, found, atol=0.06))
        checks.append(
            close(f"{name}: the law t^-2 of V = I, applied to random weights", -2.0, found, atol=0.5, printed=True)
        )
    return Evidence(tuple(checks), norms_figure(study), CAPTION)


CAPTION = (
    "Mean cosine through layers with fresh Gaussian Q, K, V: mean over seeds and 90 % band, the random-weight recursion "
    "(dashed), and the equiangular curve with Q = K = V = I (dotted), which does not describe this case."
)

CLAIM = Claim(
    id="random_weights",
    section="Equiangular model",
    title="Random weights follow their own recursion, not the V = I curve",
    statement="Through layers with fresh Gaussian Q, K, V and β = √d the mean cosine follows "
    "ρ ← (ρ + c² E[p_i G p_j])/(1 + c² E[p_i G p_i]), with c = 1 for Post-LN, 1/r for Pre-LN, 1/(r|A|) for Peri-LN. Under "
    "Pre- and Peri-LN 1-ρ falls approximately like 1/t, not like t^{-2} as with V = I. The equiangular curve with V = I "
    "stays near 0 here.",
    source="Rigollet, The mean-field dynamics of Transformers, §6.2 and Figure 4, which shows random weights next to the laws "
    "of V = I; the recursion is derived here",
    measure=measure,
)
