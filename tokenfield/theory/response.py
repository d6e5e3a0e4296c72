"""Causal attention and positions: how far a perturbation at one position moves the last token (FORMULAS §13).

Near the uniform measure on the circle, mode k of the tokens at position s obeys `∂_t eps(t,s) = a ∫_0^s p_s(tau) eps(t,tau) dtau`
with growth rate a and position weights `p_s(tau) = lambda e^{lambda tau} / (e^{lambda s} - 1)`, those of ALiBi with slope lambda
(`1/s` for lambda = 0). In the variable `q = (e^{lambda tau} - 1)/(e^{lambda s} - 1)`, p is uniform on [0, 1] for every lambda.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammaln, ive

from .._check import count, positive, reals
from .._shown import shown


def position_response(tau: ArrayLike, growth: float, *, s: float = 1.0, slope: float = 0.0) -> Any:
    """Return the response at position s to a perturbation at tau < s, per unit of position (FORMULAS §13).

    `eps(t,s) = eps(0,s) + ∫_0^s G eps(0,tau) dtau`, `G = p_s(tau) sqrt(c/Y) I_1(2 sqrt(c Y))`, `Y = -log q`. It diverges as
    tau -> 0: the influence of the first tokens is never lost.

    Args:
        tau: positions in (0, s).
        growth: `c = a t`, the growth rate of the mode times the time: see `growth_rates`.
        s: the position that responds.
        slope: ALiBi's slope lambda >= 0.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.position_response([0.1, 0.5, 0.9], growth=0.9, slope=1.0)
        array([1.684083  , 1.30162703, 1.38522095])
    """
    (tau,), c = reals(tau=tau), positive("growth", growth)
    s, slope = positive("s", s), positive("slope", slope, or_zero=True)
    if not ((tau > 0) & (tau < s)).all():
        raise ValueError(f"tau must lie between 0 and s = {s:g}")
    Y = _depth(tau, s, slope)
    p = slope * np.exp(slope * tau) / np.expm1(slope * s) if slope else np.full_like(tau, 1 / s)
    z = 2 * np.sqrt(c * Y)
    return p * np.sqrt(c / Y) * ive(1, z) * np.exp(z)


def _depth(tau: Any, s: float, slope: float) -> Any:
    """Return `Y = log((e^{lambda s} - 1)/(e^{lambda tau} - 1))`, and its limit `log(s/tau)` at lambda = 0."""
    return np.log(np.expm1(slope * s)) - np.log(np.expm1(slope * tau)) if slope else np.log(s / tau)


def recency_ends(slope: float, rate: float) -> float:
    """Return the time from which the last positions are no longer favored: `2 (1 - e^{-lambda}) / a` (FORMULAS §13).

    Before it the response of the last token is U-shaped: large for the first positions, and rising again toward the last.

    Args:
        slope: ALiBi's slope lambda >= 0.
        rate: the growth rate a of the mode.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.recency_ends(slope=1.0, rate=0.5)
        2.5284822353142307
    """
    return -2 * float(np.expm1(-positive("slope", slope, or_zero=True))) / positive("rate", rate)


def lost_time(tau: float, slope: float, rate: float) -> float:
    """Return the time at which position tau is lost: the last token then responds least to it (FORMULAS §13).

    The minimum of the response starts at tau = 0 and moves toward the end. It is at tau when `G' = 0` there, that is
    `sqrt(c/Y) I_2(2 sqrt(c Y)) / I_1(2 sqrt(c Y)) = 1 - e^{-lambda tau}` with c = a t. For lambda <= log 4 it reaches the end at
    `recency_ends`. For larger lambda it jumps to the end from some position, and later positions are never lost.

    Args:
        tau: a position in (0, 1).
        slope: ALiBi's slope lambda > 0.
        rate: the growth rate a of the mode.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.lost_time(0.5, slope=1.0, rate=0.5)
        1.7873667073922885
    """
    (at,), slope, rate = reals(tau=tau), positive("slope", slope), positive("rate", rate)
    if at.ndim or not 0 < at < 1:
        raise ValueError(f"tau must be one number between 0 and 1, got {shown(tau)}")
    wanted, Y = -float(np.expm1(-slope * at)), float(_depth(at, 1.0, slope))

    def excess(c: float) -> float:
        z = 2 * np.sqrt(c * Y)
        return float(np.sqrt(c / Y) * ive(2, z) / ive(1, z)) - wanted

    low, high = 2 * wanted, wanted * (2 + wanted * Y)  # by bounds on I_2/I_1 (Amos 1974)
    c = float(brentq(excess, low * (1 - 1e-9), high * (1 + 1e-9), xtol=1e-15, rtol=1e-14))
    at_end = -c * slope / np.expm1(-slope)
    if position_response(at, c, slope=slope) > at_end:
        raise ValueError(f"tau = {at:g} is never lost at slope = {slope:g}: the minimum of the response jumps past it")
    return c / rate


def layer_influence(tau: ArrayLike, depth: int, alpha: float) -> Any:
    """Return the influence of position tau on the last of infinitely many tokens after L layers of `(1-alpha) I + alpha C`.

    C is causal averaging, `C_ij = 1/i` for j <= i. For tau < 1 the influence per unit of position is
    `sum_{k>=1} binom(L,k) alpha^k (1-alpha)^{L-k} (log 1/tau)^{k-1}/(k-1)!`; the last token itself keeps `(1-alpha)^L`.

    Args:
        tau: positions in (0, 1).
        depth: the number of layers L.
        alpha: the weight of attention in a layer, in (0, 1].

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.layer_influence([0.1, 0.4, 0.9], depth=12, alpha=0.3)
        array([1.79823476, 0.36029614, 0.09023855])
    """
    (tau,), L, alpha = reals(tau=tau), count("depth", depth), _share(alpha)
    if not ((tau > 0) & (tau < 1)).all():
        raise ValueError("tau must lie between 0 and 1")
    k = np.arange(1, L + 1) if alpha < 1 else np.array([L])
    log = gammaln(L + 1) - gammaln(k + 1) - gammaln(L - k + 1) - gammaln(k) + k * np.log(alpha)
    if alpha < 1:
        log = log + (L - k) * np.log1p(-alpha)
    with np.errstate(divide="ignore"):
        return np.exp(log + (k - 1) * np.log(-np.log(tau))[..., None]).sum(-1)


def token_influence(n: int, depth: int, alpha: float, *, slope: float = 0.0) -> np.ndarray:
    """Return the influence of each of n tokens on the last after L layers of `(1-alpha) I + alpha P` (FORMULAS §13).

    P is causal attention that depends on positions only, `P_ij = w_j / (w_1 + … + w_i)` for j <= i with `w_j = e^{lambda j/n}`:
    causal averaging C for lambda = 0. This is exact for layers with beta = 0, and for every beta in the layers linearized at one
    cluster. The influences sum to 1. As n grows, n times the influence for lambda = 0 tends to `layer_influence`.

    Args:
        n: the number of tokens.
        depth: the number of layers L.
        alpha: the weight of attention in a layer, in (0, 1]: `h/(1+h)` for residual layers with step h.
        slope: ALiBi's slope lambda >= 0 for positions in [0, 1].

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.token_influence(128, depth=12, alpha=0.3, slope=2.0).argmin()
        np.int64(126)
    """
    n, L, alpha, slope = count("n", n), count("depth", depth), _share(alpha), positive("slope", slope, or_zero=True)
    w = np.exp(slope * (np.arange(1, n + 1) / n - 1))
    total, row = np.cumsum(w), np.zeros(n)
    row[-1] = 1.0
    for _ in range(L):
        row = (1 - alpha) * row + alpha * w * np.cumsum((row / total)[::-1])[::-1]
    return row


def _share(alpha: float) -> float:
    """Return alpha; raise ValueError if it is not in (0, 1]."""
    alpha = positive("alpha", alpha)
    if alpha > 1:
        raise ValueError(f"alpha must be at most 1, got {alpha:g}")
    return alpha
