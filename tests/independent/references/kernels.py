"""Attention by its definition: the matrix `P_ij = w_j k(x_i, x_j)` and `Gamma(x_i) = sum_j P_ij V x_j` (FORMULAS §1).

All functions keep the number type they are given, also long doubles and complex numbers, so that derivatives can be taken
with an imaginary step. Comparisons look at real parts.
"""

import numpy as np
from scipy.special import erf

SAME = 1e-9  # scores and places that count as equal for hardmax


def score_matrix(head, d, dtype=float):
    """A of `<Ax, y>`."""
    if head.A is not None:
        return np.asarray(head.A, dtype)
    beta = 1.0 if head.beta is None else head.beta
    product = np.eye(d) if head.Q is None else np.asarray(head.K, dtype).T @ np.asarray(head.Q, dtype)
    return np.asarray(beta, dtype) * product.astype(dtype)


def value_matrix(head, d, dtype=float):
    """V as a matrix."""
    if head.V is None or np.ndim(head.V) == 0:
        return np.eye(d, dtype=dtype) * np.asarray(1.0 if head.V is None else head.V, dtype)
    return np.asarray(head.V, dtype)


def seen(head, n, positions):
    """(n, n) array: does token i see token j?"""
    if not head.causal:
        return np.ones((n, n), bool)
    s = np.arange(n) if positions is None else np.asarray(positions)
    return s[None, :] <= s[:, None]


def scores(head, x):
    """(n, n) scores; for L2 attention minus the squared distances."""
    if head.kernel == "l2":
        beta = 1.0 if head.beta is None else head.beta
        q = x if head.Q is None else x @ head.Q.T.astype(x.dtype)
        k = x if head.K is None else x @ head.K.T.astype(x.dtype)
        return -beta * ((q[:, None] - k[None]) ** 2).sum(-1)
    return (x @ score_matrix(head, x.shape[1], x.dtype).T) @ x.T


def normalized(s, w, visible):
    """Rows of softmax over what is seen and has weight; a token that sees no mass gets a row of zeros."""
    out = np.zeros_like(s)
    for i in range(len(s)):
        js = np.flatnonzero(visible[i] & (w > 0))
        if len(js):
            logs = s[i, js] + np.log(w[js])
            e = np.exp(logs - logs.real.max())
            out[i, js] = e / e.sum()
    return out


def coupling(s, w):
    """Sinkhorn's matrix: potentials by Newton's method on the marginals, by alternation where that does not help."""
    m = np.flatnonzero(w > 0)
    u, logw = s[np.ix_(m, m)], np.log(w[m])

    def columns(g):  # with rows exact, the columns are equations for g: sum_i w_i k_ij = 1
        f = -logsumexp(u + logw + g, 1)
        r = np.exp(u + f[:, None] + g + logw[:, None]).T
        return f, r, r.sum(1) - 1

    g, settled, tries, tolerance = np.zeros(len(m), s.dtype), 0, 0, 4e-16 * len(m) * (10 + np.abs(u).max())
    f, r, excess = columns(g)
    while settled < 3:
        slope = np.diag(1 + excess) - r @ np.exp(u + f[:, None] + g + logw)
        inverse = np.linalg.pinv(slope.real.astype(float), rcond=1e-13)
        step = -inverse @ excess.real
        if np.iscomplexobj(s):  # the derivative, apart from the rounding of the value
            step = step - 1j * (inverse @ (excess.imag + slope.imag @ step))
        done = np.abs(excess.real).max() < tolerance
        trial = columns(g + step.astype(s.dtype))
        if done or np.abs(trial[2].real).max() < np.abs(excess.real).max():
            g = g + step.astype(s.dtype)
        else:
            g = -logsumexp(u + logw[:, None] + f[:, None], 0)
        f, r, excess = columns(g)
        settled, tries = settled + done, tries + 1
        if tries > 100:
            raise TimeoutError("the coupling is too near the identity for Newton's method")
    out = np.zeros_like(s)
    rows = -logsumexp(s[:, m] + logw + g, 1)
    out[:, m] = np.exp(s[:, m] + rows[:, None] + g + logw)
    return out


def sigmoid(s):
    """`1/(1 + e^{-s})` without overflow."""
    e = np.exp(np.where(s.real < 0, s, -s))
    return np.where(s.real < 0, e, 1) / (1 + e)


def logsumexp(a, axis):
    """log sum exp along an axis, for complex numbers too."""
    top = a.real.max(axis, keepdims=True)
    return np.log(np.exp(a - top).sum(axis)) + top.squeeze(axis)


def chosen(head, s, x, w, visible):
    """Hardmax: uniform by weight on the best of what is seen and has weight."""
    out, s, x = np.zeros_like(s), s.real, x.real
    for i in range(len(s)):
        allowed = visible[i] & (w > 0)
        if head.rule == "others":
            apart = np.sqrt(((x - x[i]) ** 2).sum(1)) > SAME * (1 + np.sqrt((x[i] ** 2).sum()))
            allowed = allowed & apart if (allowed & apart).any() else allowed  # nothing elsewhere: its own place
        if allowed.any():
            best = s[i, allowed].max()
            out[i] = np.where(allowed & (s[i] >= best - SAME * (1 + abs(best))), w, 0.0)
            out[i] /= out[i].sum()
    return out


def attention_matrix(head, x, w, positions=None):
    """(n, n) matrix `P_ij = w_j k(x_i, x_j)`, over `e^{log_unit}` for unnormalized attention."""
    s, visible, w = scores(head, x), seen(head, len(x), positions), np.asarray(w).astype(x.real.dtype)
    if head.kernel in ("softmax", "l2"):
        return normalized(s, w, visible)
    if head.kernel == "sinkhorn":
        return coupling(s, w)
    if head.kernel == "hardmax":
        return chosen(head, s, x, w, visible)
    with np.errstate(over="ignore"):
        k = {
            "unnormalized": lambda: np.exp(s - head.log_unit),
            "linear": lambda: s,
            "relu": lambda: np.where(s.real > 0, s, 0),
            "sigmoid": lambda: sigmoid(s),
        }[head.kernel]()
    return np.where(visible & (w > 0), k * w, 0)


def attend(case, x, positions=None):
    """`Gamma(x_i)`, summed over heads with their output maps."""
    total = 0
    for h, head in enumerate(case.heads):
        out = attention_matrix(head, x, case.w, positions) @ (x @ value_matrix(head, x.shape[1], x.dtype).T)
        total = total + (out if case.outputs is None else out @ case.outputs[h].T.astype(x.dtype))
    return total


def feed_forward(mlp, x):
    """`W_2 sigma(W_1 x + b_1) + b_2`."""
    inner = x @ mlp["W1"].T.astype(x.dtype) + mlp["b1"]
    sigma = {
        "tanh": np.tanh,
        "relu": lambda z: np.where(z.real > 0, z, 0),
        "gelu": lambda z: z / 2 * (1 + erf(z.astype(complex if np.iscomplexobj(z) else float) / np.sqrt(2))),
        "gelu_tanh": lambda z: z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    }[mlp["activation"]]
    return sigma(inner) @ mlp["W2"].T.astype(x.dtype) + mlp["b2"]
