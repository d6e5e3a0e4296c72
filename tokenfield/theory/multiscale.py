"""The phases of attention at large beta, for general A and V: alignment, clustering or collapse, drift, pairing."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._check import number, positive
from .._shown import shown
from .leading_directions import alignment, as_pair

SAME = 1e-9  # relative tolerance for matrices that must agree


class Phase(NamedTuple):
    """One phase of the dynamics.

    Attributes:
        name: "alignment", "clustering", "collapse", "drift" or "pairing".
        dimension: dimension of the space that contains the tokens when the phase ends; 1 is a line, with two opposite points.
        log_time: logarithm of the time scale.
        grows: how the time scale grows with the size of A: "1", "log β", "β" or "e^β".
    """

    name: str
    dimension: int
    log_time: float
    grows: str


def collapse_time(width0: float, width1: float, beta: float, c: float = 1.0, v: float = 1.0) -> float:
    """Return the time in which a Gaussian bump of tokens shrinks from standard deviation width0 to width1, in one direction.

    The bump is at u with `Au = beta u`, `Vu = v u` (softmax, Post-LN). In the tangent direction A and V have eigenvalues `a_2` and
    `v_2`; `c = v_2 a_2/beta`. For a token at eps, the bump times `e^{<Ax,y>}` is a Gaussian of mean `a_2 w² eps/(1 + beta w²)`.
    So with `s = beta w²`, `w'/w = c s/(1 + s) - v`, and

    `t = [log(s_0/s_1) + c/(v-c) log((v + (v-c)s_0)/(v + (v-c)s_1))] / (2v)`; `[log(s_0/s_1) + s_0 - s_1] / (2v)` for c = v.

    While `s >> 1` the bump shrinks at the rate of alignment, `v - c`. If that is 0, the variance falls by `2v/beta` per unit of
    time, as under the backward heat equation. When `s << 1` the bump collapses at the rate v.

    Args:
        width0, width1: standard deviations, width0 >= width1 > 0, small compared with 1.
        beta: eigenvalue of A at u, > 0.
        c: `v_2 a_2/beta`, at most v; 1 for isotropic attention.
        v: eigenvalue of V at u, > 0.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.collapse_time(0.1, 0.01, beta=400.0)
        4.282585092994046
        >>> tkf.theory.collapse_time(0.1, 0.01, beta=400.0, c=0.5)
        2.8419899236800103
    """
    w0, w1, beta = positive("width0", width0), positive("width1", width1), positive("beta", beta)
    v, c = positive("v", v), number("c", c)
    if w1 > w0:
        raise ValueError(f"width1 must be at most width0 = {w0:g} (bumps shrink), got {w1:g}")
    if c > v:
        raise ValueError(f"c must be at most v = {v:g} (other directions lead, and the bump spreads), got {shown(c)}")
    s0, s1, rate = beta * w0**2, beta * w1**2, v - c
    x = rate * (s0 - s1) / (v + rate * s1)
    slow = c * (s0 - s1) / (v + rate * s1) * (math.log1p(x) / x if x > 0 else 1.0)
    return (2 * math.log(w0 / w1) + slow) / (2 * v)


def multiscale_phases(A: ArrayLike, V: ArrayLike | None = None, cosine: float = 0.0) -> tuple[Phase, ...]:
    """Return the phases that spread tokens go through at large A, in order, with their time scales (softmax, Post-LN).

    1. *Alignment* with the leading space E of VA, in a time `1/rate` independent of beta (see `alignment`). Absent if E = R^d.
    2. If E has two dimensions or more and `A = beta`, `V = v` on it: *clustering* on the sphere of E, by the backward heat
       equation, in `beta/(2v)`. If E is a line: *collapse* into two points, in `log(beta)/(2 rate)` (see `collapse_time`).
    3. A cluster x moves by `x' = P_x V x`: *drift* to the leading direction of V, in `1/(gap of V)`, unless it is there.
    4. *Pairing*: clusters at a cosine rho merge in `e^{beta(1-rho)}`. Absent if V has a single leading direction: two opposite
       points are then stationary.

    Args:
        A: (d, d) score matrix.
        V: (d, d) value matrix, a number, or None for the identity.
        cosine: cosine of the two closest clusters, for pairing in two dimensions or more; on a line it is -1.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.theory.multiscale_phases([[90.0, 0.0, 0.0], [0.0, 90.0, 0.0], [0.0, 0.0, 45.0]], cosine=0.5)
        >>> [(phase.name, round(phase.log_time, 2), phase.grows) for phase in found]
        [('alignment', 0.69, '1'), ('clustering', 3.81, 'β'), ('pairing', 45.0, 'e^β')]
    """
    A, V = as_pair(A, V)
    rho = number("cosine", cosine, -1.0, 1.0)
    first, d = alignment(A, V), len(A)
    E = first.basis
    m = E.shape[1]
    beta, v = float(np.trace(E.T @ A @ E)) / m, float(np.trace(E.T @ V @ E)) / m
    if not beta > 1 or not first.eigenvalue > 0:
        raise ValueError(
            "A must be above 1, and VA positive, on the leading space of VA, as phases separate only for large A; got "
            f"{beta:.3g} and {first.eigenvalue:.3g}"
        )
    found = [] if m == d else [Phase("alignment", m, -math.log(first.rate), "1")]
    if m == 1:
        found.append(Phase("collapse", 1, math.log(math.log(beta) / (2 * first.rate)), "log β"))
    else:
        for name, matrix, value in (("A", A, beta), ("V", V, v)):
            if np.abs(matrix @ E - value * E).max() > SAME * np.abs(matrix).max():
                raise ValueError(
                    f"{name} must be a number on the leading space of VA, which has {m} dimensions: use simulate instead"
                )
        found.append(Phase("clustering", m, math.log(beta / (2 * v)), "β"))
    values, vectors = np.linalg.eig(V)
    leads = values.real >= values.real.max() - SAME * np.abs(values).max()
    leading = vectors[:, leads]
    held = np.abs(E - leading @ np.linalg.lstsq(leading, E + 0j, rcond=None)[0]).max() < 1e-7
    if leads.sum() > 1 and (not held or np.abs(values[leads].imag).max() > SAME * np.abs(values).max()):
        raise ValueError(
            "V must have a single leading direction, or be a number on a leading space that contains that of VA: use simulate "
            "instead"
        )
    if not held:
        found.append(Phase("drift", 1, -math.log(float(values.real.max() - values.real[~leads].max())), "1"))
    elif leads.sum() > 1:
        found.append(Phase("pairing", 1, beta * (2.0 if m == 1 else 1 - rho), "e^β"))
    return tuple(found)
