"""Tokens (FORMULAS §1, §2, §7) in complex NumPy, a batch at a time, and their derivatives by every parameter.

A vector of parameters holds the tokens z (n d), the factor beta of the scores, the value map V (d d) and the logarithms of
the weights (n). Under norms of the sphere the tokens start at z/|z|.
"""

import numpy as np

from .variational import H, jacobian, sensitivity

N, D, T, TAU, ALPHA = 5, 3, 0.5, 0.2, 0.7
_rng = np.random.default_rng(3)
A0, A1, V1 = (0.6 * _rng.standard_normal((D, D)) for _ in range(3))  # of the scores, and of the second head
Q0, K0 = (0.6 * _rng.standard_normal((2, D)) for _ in range(2))
KERNELS = (
    "softmax",
    "l2",
    "sinkhorn",
    "unnormalized",
    "linear",
    "relu",
    "sigmoid",
    "hardmax",
    "multi_head",
    "normalized",
)
ON_SPHERE = ("post", "mix", "ngpt", "sqrt")
NORMS = ("none", "rescaled", "post", "pre", "peri", "mix", "ngpt", "sqrt")


def parameters(seed=6):
    """Numbers for which no maximum of Hardmax changes hands up to T: there its flow jumps, and so do its derivatives."""
    rng = np.random.default_rng(seed)
    V = np.eye(D) + 0.3 * rng.standard_normal((D, D))
    return np.concatenate([0.5 * rng.standard_normal(N * D), [1.3], V.ravel(), 0.3 * rng.standard_normal(N)])


def split(P):
    """`(z, beta, V, w)` of a batch (b, N D + 1 + D D + N)."""
    z, beta, V, logits = np.split(P, [N * D, N * D + 1, N * D + 1 + D * D], axis=1)
    w = np.exp(logits)
    return z.reshape(-1, N, D), beta[:, 0], V.reshape(-1, D, D), w / w.sum(1, keepdims=True)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def tangent(x, a):
    return a - (x * a).sum(-1, keepdims=True) * x


def bilinear(x, A):
    """`S_ij = <A x_i, x_j>`."""
    return np.einsum("bik,lk,bjl->bij", x, A, x)


def rows(S, w):
    """`w_j e^{S_ij} / sum_l w_l e^{S_il}`."""
    k = w[:, None] * np.exp(S - S.real.max(-1, keepdims=True))
    return k / k.sum(-1, keepdims=True)


def doubly_stochastic(S, w):
    """Rows and columns scaled in turn until neither the numbers nor their derivatives move."""
    f = g = np.zeros(S.shape[:2], S.dtype)
    for _ in range(3000):
        f_new = -np.log((w[:, None] * np.exp(S + g[:, None])).sum(-1))
        g_new = -np.log((w[..., None] * np.exp(S + f_new[..., None])).sum(1))
        moved = max(np.abs((g_new - g).real).max(), np.abs((g_new - g).imag).max() / H)
        f, g = f_new, g_new
        if moved < 1e-13:
            break
    return w[:, None] * np.exp(S + f[..., None] + g[:, None])


def matrix(kernel, x, beta, w):
    """The attention matrix `P_ij = w_j k(x_i, x_j)`."""
    S = beta[:, None, None] * bilinear(x, A0)
    if kernel == "l2":
        gap = (x @ Q0.T)[:, :, None] - (x @ K0.T)[:, None]
        return rows(-beta[:, None, None] * (gap * gap).sum(-1), w)
    if kernel == "softmax":
        return rows(S, w)
    if kernel == "sinkhorn":
        return doubly_stochastic(S, w)
    if kernel == "hardmax":
        first = S.real == S.real.max(-1, keepdims=True)
        return first / first.sum(-1, keepdims=True)
    if kernel == "normalized":  # sigmoid
        k = w[:, None] / (1 + np.exp(-S))
        return k / k.sum(-1, keepdims=True)
    phi = {
        "unnormalized": np.exp,
        "linear": lambda s: s,
        "relu": lambda s: np.where(s.real > 0, s, 0),
        "sigmoid": lambda s: 1 / (1 + np.exp(-s)),
    }
    return w[:, None] * phi[kernel](S)


def attention(kernel, x, beta, V, w):
    """Gamma, (b, n, d)."""
    if kernel == "multi_head":
        second = w[:, None] / (1 + np.exp(-beta[:, None, None] * bilinear(x, A1)))
        return attention("softmax", x, beta, V, w) + second @ x @ V1.T
    return matrix(kernel, x, beta, w) @ x @ V.transpose(0, 2, 1)


def exponential(M):
    """`e^M` of a batch of small matrices by its series."""
    total = term = np.broadcast_to(np.eye(D), M.shape).astype(M.dtype)
    for k in range(1, 40):
        term = term @ M / k
        total = total + term
    return total


def velocity(kernel, norm, t, x, beta, V, w):
    if norm == "rescaled":
        C = V + V1 if kernel == "multi_head" else V
        forward, back = (exponential(s * t * C).transpose(0, 2, 1) for s in (1, -1))
        return attention(kernel, x @ forward, beta, V, w) @ back - x @ C.transpose(0, 2, 1)
    reads = unit(x) if norm in ("pre", "peri") else x
    drift = attention(kernel, reads, beta, V, w)
    return {
        "none": lambda: drift,
        "pre": lambda: drift,
        "peri": lambda: unit(drift),
        "post": lambda: tangent(x, drift),
        "ngpt": lambda: ALPHA * tangent(x, unit(drift)),
        "sqrt": lambda: tangent(x, drift) / np.sqrt(t + 1),
    }[norm]()


def run(kernel, norm, p, t1=T, rtol=1e-13):
    """Tokens at t1 as one vector (n d,), and its derivatives (n d, len(p))."""
    begin = lambda P: (unit if norm in ON_SPHERE else np.asarray)(split(P)[0]).reshape(-1, N * D)  # noqa: E731
    y, S, t0 = begin(p[None])[0], jacobian(begin, p), 0.0
    for end, rule in [(TAU, "post"), (t1, "pre")] if norm == "mix" else [(t1, norm)]:

        def f(t, Y, P, rule=rule):
            _, *numbers = split(P)
            return velocity(kernel, rule, t, Y.reshape(-1, N, D), *numbers).reshape(-1, N * D)

        y, S = sensitivity(f, t0, end, y, p, S, rtol)
        t0 = end
    return y, S
