"""Published attention scales as functions of the context length, and the choice of a scale for a measured cosine."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._check import number, one_of, positive, reals
from .._shown import shown
from .long_context import (
    checked,
    critical_gamma,
    layer_contraction_limit,
    plain,
    residual_layer_contraction,
    sum_cosine,
)
from .long_context import layer_contraction as after_attention


class Scale(NamedTuple):
    """A published attention scale.

    Attributes:
        formula: beta in terms of n and the options.
        source: its reference.
        factor: `(n, **options) -> beta / base`.
        options: the options and their default values.
    """

    formula: str
    source: str
    factor: Callable[..., np.ndarray]
    options: dict[str, float]


SCALES = {
    "standard": Scale(
        "base",
        "Vaswani et al. 2017: scores divided by sqrt(d), independent of n (base = sqrt(d) for tokens of length sqrt(d))",
        lambda n: np.ones_like(n),
        {},
    ),
    "log": Scale(
        "base gamma log n",
        "Chiang and Cholak 2022 (ACL, 2022.acl-long.527), gamma = 1",
        lambda n, gamma: gamma * np.log(n),
        {"gamma": 1.0},
    ),
    "ssmax": Scale(
        "base s log n",
        "Scalable-Softmax: Nakanishi 2025 (arXiv 2501.19399); s is learned, 0.43 in its figure 1",
        lambda n, s: s * np.log(n),
        {"s": 0.43},
    ),
    "logn": Scale(
        "base max(1, log n / log n_train)",
        "log n attention of Qwen: Bai et al. 2023 (arXiv 2309.16609), n is the position",
        lambda n, n_train: np.maximum(1.0, np.log(n) / np.log(n_train)),
        {"n_train": 2048.0},
    ),
    "yarn": Scale(
        "base (0.1 log max(1, n / n_train) + 1)^2",
        "YaRN: Peng et al. 2023 (arXiv 2309.00071); n is the context window of the model, the same for all positions",
        lambda n, n_train: (0.1 * np.log(np.maximum(1.0, n / n_train)) + 1) ** 2,
        {"n_train": 2048.0},
    ),
    "llama4": Scale(
        "base (a log(1 + floor(n / floor)) + 1)",
        "temperature tuning of Llama 4 (its released code), n is the position; a = 0.1, floor = 8192",
        lambda n, a, floor: a * np.log1p(np.floor(n / floor)) + 1,
        {"a": 0.1, "floor": 8192.0},
    ),
}
"""The scales that `attention_scale` accepts, by name."""


def attention_scale(name: str, n: ArrayLike, *, base: float = 1.0, **options: float) -> Any:
    """Return the inverse temperature beta of a published attention scale at context length n.

    Under a causal mask, token i attends to n = i tokens: pass the positions as n. `beta / log n` is the gamma of `critical_gamma`.

    Args:
        name: a key of `SCALES`, which holds the formulas and references.
        n: number of tokens attended to, at least 1; a number or an array.
        base: beta of the same model without the scale, for unit tokens; sqrt(d) for `Q = K = I` and tokens that a
            layer norm scales to length sqrt(d).
        **options: the options of the scale: gamma, s, n_train, a, floor.

    Returns:
        beta, with the shape of n.

    Example:
        >>> from tokenfield.theory.attention_scales import attention_scale
        >>> attention_scale("logn", [1024, 4096, 32768], base=8.0, n_train=2048)
        array([ 8.        ,  8.72727273, 10.90909091])
    """
    scale = SCALES[one_of("name", name, SCALES)]
    for key, value in options.items():
        if key not in scale.options:
            allowed = ", ".join(scale.options) or "no options"
            raise ValueError(f"{name} takes {allowed}, got {key}")
        least = 1.0 if key == "n_train" else 0.0
        if not least < number(key, value) < np.inf:
            raise ValueError(f"{key} must be finite and > {least:g}, got {shown(value)}")
    (seen,) = reals(n=n)
    if not ((seen >= 1) & np.isfinite(seen)).all():
        raise ValueError(f"n must be finite and at least 1, got {shown(n)}")
    return plain(number("base", base) * scale.factor(seen, **{**scale.options, **options}))


class GammaChoice(NamedTuple):
    """An attention scale for a measured cosine.

    Attributes:
        gamma: the smallest factor of log n for which the cosine after one layer is at most the target; 0 if every factor works.
        beta: `gamma log n`.
        cosine: the cosine after one layer with this beta.
        critical: `1/(1-rho)`, the limit of gamma as n grows (attention alone).
    """

    gamma: float
    beta: float
    cosine: float
    critical: float


def choose_gamma(rho: float, n: float, target: float | None = None, residual: float | None = None) -> GammaChoice:
    """Return the smallest `gamma >= 0` such that one layer with `beta = gamma log n` maps the cosine rho to at most target.

    The solution is explicit. With `q = (target - rho)/(1 - target)`, outputs `u x_i + v sum_k x_k` have the target cosine if
    `S r (n r + 2) = q` for `r = v/u`, so `r = (q/S) / (1 + sqrt(1 + n q/S))`; attention alone has
    `r = 1/(e^g - 1)`, `g = beta (1-rho)`; with a residual of step h, `r = h E/(1 + h + (n-1-h) E)`, `E = e^{-g}`.

    Args:
        rho: the measured cosine, in [-1/(n-1), 1).
        n: number of tokens.
        target: the largest accepted cosine, in (rho, 1); by default `4 rho/(1 + 3 rho)`, the cosine at the critical
            scale for large n.
        residual: the step of a residual layer `x + h Att(x)`; None for attention alone.

    Example:
        >>> from tokenfield.theory.attention_scales import choose_gamma
        >>> choose_gamma(0.5, n=4096)
        GammaChoice(gamma=2.0001027083592438, beta=16.636386637554242, cosine=0.8, critical=2.0)
    """
    start, many, _ = (float(value) for value in checked(number("rho", rho), number("n", n), 0.0))
    residual = None if residual is None else positive("residual", residual)
    if target is None:
        if not start > 0:
            raise ValueError(f"target must be given for rho <= 0, got rho = {shown(rho)}")
        target = float(layer_contraction_limit(start, 1 / (1 - start))) if start < 1 else 1.0
    target = number("target", target)
    if not start < target < 1:
        raise ValueError(f"target must lie between rho and 1, ({start:g}, 1), got {shown(target)}")
    S = 1 + (many - 1) * start
    q = (target - start) / (1 - target)
    r = np.inf if sum_cosine(start, many) == 0 else q / S / (1 + np.sqrt(1 + many * q / S))
    if residual is None:
        gap = float(np.log1p(1 / r))
    else:
        below = residual - r * (many - 1 - residual)
        gap = max(0.0, float(np.log(below / (r * (1 + residual))))) if below > 0 else 0.0
    beta = gap / (1 - start)
    if residual is None:
        cosine = start if np.isinf(r) else after_attention(start, many, beta)
    else:
        cosine = residual_layer_contraction(start, many, beta, residual)
    return GammaChoice(beta / float(np.log(many)), beta, float(cosine), critical_gamma(start))
