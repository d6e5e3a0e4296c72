"""Layers with fresh random weights: a recursion for the mean cosine under each normalization rule (FORMULAS §7).

Q, K and V have independent entries N(0, 1/d), new in every layer. Scores are then jointly Gaussian with
`Cov(s_ij, s_lk) = (beta^2/d) <x_i,x_l> <x_j,x_k>`. For unit tokens at cosine rho, the part of a row of scores that the
softmax depends on has variance `sigma^2 = (beta^2/d)(1-rho)`, and rows have correlation rho. V maps mixtures to independent
directions with the same inner products, so adding `c V sum_j p_ij x_j` to every token gives

`rho+ = (rho + c^2 C) / (1 + c^2 B)`,  `B = E p_i G p_i`,  `C = E p_i G p_l`,  G the Gram matrix,

with `B = rho + (1-rho) E sum_j p_ij^2` and C likewise for two rows: see `softmax_moments`. It is exact as d grows. The
effects of order 1/d, and the spread over seeds, are in `random_weight_noise`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._check import count, flag, number, positive
from .._shown import shown
from ..normalization import AbstractSphereNorm
from .layer_curves import NOT_A_RULE, checked_start, current, relative_step
from .long_context import MOST_LAYERS
from .random_weight_noise import Spread
from .row_moments import softmax_moments

LEAST_NOISY_DIMENSION = 32  # below it, an expansion in 1/d is not useful


class RandomAttention(NamedTuple):
    """Moments of the outputs of attention with random weights, `A_i = V sum_j p_ij x_j`.

    Attributes:
        own: `B = E |A_i|^2`.
        cross: `C = E <A_i, A_l>`.
        cosine: `E <A_i, A_l> / (|A_i||A_l|)`.
    """

    own: float
    cross: float
    cosine: float


def random_attention(rho: float, n: int, beta: float, d: int, equiangular: bool = False) -> RandomAttention:
    """Return the moments B, C and the cosine of the outputs of attention with random Q, K, V on tokens at cosine rho.

    `B = rho + (1-rho) (b + pull sigma^2/d)`,  `b = E|p|^2`,
    `C = rho + (1-rho) (c + (rho (1 - 2b - c) - 2c) sigma^2/d)`,  `c = E<p,p'>`.

    The terms in `sigma^2/d` are those of random tokens, whose cosines fluctuate by `(1-rho)/sqrt(d)`: tokens near each
    other have correlated scores, and the derivative of a Gaussian mean with respect to a covariance is the mean of a second
    derivative (`pull`; its counterpart in C is taken to first order in 1/n). Near rho = 0, where b is
    `e^{sigma^2}/n`, their relative size is of order n/d. The cosine is `(C/B)(1 + spread f^2)`, f the fluctuating part of B,
    `(1-rho) E|p|^2 / B`. For equal angles it is exact at rho = 0, and within 0.2 % elsewhere for n >= 32 and beta^2 <= d
    (tests). For random tokens near rho = 0 its relative error is about -5/d (measured for d = 128 and 512).

    Args:
        rho: cosine of the tokens, in [-1/(n-1), 1].
        n: number of tokens.
        beta: inverse temperature.
        d: dimension of the tokens.
        equiangular: True for tokens at exactly equal angles, without the terms in `sigma^2/d`.

    Example:
        >>> from tokenfield.theory.random_weights import random_attention
        >>> random_attention(0.2, n=128, beta=512**0.5, d=512)
        RandomAttention(own=0.21464806078967372, cross=0.20751830587154824, cosine=0.9668926648102307)
    """
    n, d = count("n", n, 2), count("d", d)
    rho = number("rho", rho)
    if not -1 / (n - 1) <= rho <= 1:
        raise ValueError(f"rho must lie in [-1/(n-1), 1] = [{-1 / (n - 1):.6g}, 1], got {shown(rho)}")
    return RandomAttention(*(float(value) for value in _moments(float(rho), n, beta, d, equiangular)(float(rho))))


def _moments(rho: float, n: int, beta: float, d: int, equiangular: bool) -> Callable[[Any], tuple[Any, Any, Any]]:
    """Return a function of a cosine R near rho that gives B, C and the cosine of outputs, with the softmax at rho."""
    variance = number("beta", beta) ** 2 / d * (1 - rho)
    moments = softmax_moments(rho, n, variance)
    near = 0.0 if flag("equiangular", equiangular) else variance / d
    own = moments.own + near * moments.pull
    cross = moments.cross + near * (rho * (1 - 2 * moments.own - moments.cross) - 2 * moments.cross)
    share = (1 - rho) * moments.own / (rho + (1 - rho) * own)
    lengths = 1 + moments.spread * share**2

    def at(R):
        B, C = R + (1 - R) * own, R + (1 - R) * cross
        return B, C, C / B * lengths

    return at


class RandomWeightCurve(NamedTuple):
    """Moments of tokens through layers with random weights.

    Attributes:
        cosine: (depth + 1,) mean cosines, the first before any layer, averaged over seeds.
        deviation: (depth + 1,) standard deviation of the mean cosine over seeds.
        radius: (depth + 1,) root mean square lengths of a token.
    """

    cosine: np.ndarray
    deviation: np.ndarray
    radius: np.ndarray


def random_weight_layers(
    norm: AbstractSphereNorm,
    n: int,
    beta: float,
    d: int,
    depth: int,
    rho0: float = 0.0,
    radius: float = 1.0,
    step: float = 1.0,
    noise: bool = True,
    equiangular: bool = False,
) -> RandomWeightCurve:
    """Return the mean cosine and length of tokens after each layer with fresh random weights (FORMULAS §7).

    `rho+ = (rho + c^2 C)/(1 + c^2 B)`, and `r+^2 = r^2 (1 + c^2 B)` under Pre-LN and Peri-LN, with

    | rule | c |
    |---|---|
    | Post-LN, Mix-LN before tau | h |
    | Pre-LN, Mix-LN from tau on | h/r |
    | Peri-LN | h/(r sqrt(B)) |
    | nGPT | h alpha/sqrt(B) |
    | sqrt-scaling | h/sqrt(t+1) |

    If outputs are normalized, `C/B` is the mean cosine of outputs, `RandomAttention.cosine`. With `noise`, means over
    seeds are accurate to order 1/d (a correction of 2 % after ten layers of Post-LN at d = 256), and their standard deviation
    over seeds is predicted.

    Args:
        norm: the rule, e.g. `PostLN()`.
        n, beta, d: number of tokens, inverse temperature, dimension; `beta = sqrt(d)` in the survey's Figure 4.
        depth: number of layers.
        rho0: mean cosine at the start.
        radius: length at the start; 1 except under Pre-LN and Peri-LN.
        step: the step h of a layer.
        noise: include the effects of order 1/d, which needs d >= 32; False gives the plain recursion for d -> infinity.
        equiangular: True for tokens at exactly equal angles, see `random_attention`. With `noise=False` this is the
            recursion of FORMULAS §7.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.theory.random_weights import random_weight_layers
        >>> random_weight_layers(tkf.PeriLN(), n=128, beta=512**0.5, d=512, depth=8).cosine
        array([0.        , 0.18404623, 0.44293327, 0.58067083, 0.66407657,
               0.71986996, 0.75979255, 0.78976663, 0.81309659])
    """
    n, d, depth, step = count("n", n, 2), count("d", d), count("depth", depth, 1, MOST_LAYERS), positive("step", step)
    rho0, radius = checked_start(norm, n, rho0, radius)
    if flag("noise", noise) and d < LEAST_NOISY_DIMENSION:
        raise ValueError(f"d must be at least {LEAST_NOISY_DIMENSION} with noise, got {d}: use noise=False")
    spreads = [Spread.start(rho0, radius, n, d, noise)]
    for layer in range(depth):
        here, t = spreads[-1], layer * step
        rule = current(norm, t)
        R, L = here.points()
        c2 = relative_step(rule, t, np.sqrt(L), step) ** 2
        own, cross, cosine = _moments(float(here.mean[0]), n, beta, d, equiangular)(R)
        if rule.scale_free:
            own, cross = np.ones_like(R), cosine
        spreads.append(here.after(c2, own, cross, n, d, noise, rule.scale_free, rule.radial))
    means, variances = np.array([s.mean for s in spreads]), np.array([s.covariance[0, 0] for s in spreads])
    return RandomWeightCurve(means[:, 0], np.sqrt(np.maximum(variances, 0)), np.sqrt(means[:, 1]))


class RandomWeightTail(NamedTuple):
    """The law by which `1 - rho` tends to 0 with the layer number l.

    Attributes:
        text: the law as text.
        kind: "exponential" (`e^{-rate l}`) or "power" (`l^{-rate}`).
        rate: its rate.
    """

    text: str
    kind: str
    rate: float


def random_weight_tail(norm: AbstractSphereNorm, step: float = 1.0) -> RandomWeightTail:
    """Return the law by which `1 - rho` tends to 0 through layers with fresh random weights, from the recursion.

    As rho tends to 1, B tends to 1 and `B - C` to 0 like `(1-rho)^3`. So `1-rho` is divided by `1 + c^2` in each layer:
    by `1 + h^2` under Post-LN and `1 + (h alpha)^2` under nGPT. Under Pre-LN
    `r+^2 (1-rho+) = r^2 (1-rho) + h^2 (B - C)` has a limit, as it has under Peri-LN with `(B - C)/B` for `B - C`, while r^2
    grows like `h^2 l`: `1 - rho` decays like 1/l. Under sqrt-scaling the product of `1 + h^2/(1 + h l)` grows like `l^h`. The
    flow with V = I has other laws (FORMULAS §7, last column).

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.theory.random_weights import random_weight_tail
        >>> random_weight_tail(tkf.PreLN())
        RandomWeightTail(text='l^-1', kind='power', rate=1.0)
    """
    step = positive("step", step)
    if not isinstance(norm, AbstractSphereNorm):
        raise ValueError(f"norm {NOT_A_RULE}, got {shown(norm)}")
    return RandomWeightTail(*norm.random_weight_law(step))
