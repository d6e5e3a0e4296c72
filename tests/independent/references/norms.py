"""Discrete layers under each normalization rule (FORMULAS §2, §7)."""

import numpy as np

from . import kernels


def length(x):
    """(n, 1) Euclidean lengths, analytic in x."""
    return np.sqrt((x * x).sum(-1, keepdims=True))


def unit(x):
    """`x/|x|`, and 0 for 0."""
    size = length(x)
    return np.where(size.real > 0, x / np.where(size.real > 0, size, 1), 0)


def normalize(case, x):
    """The layer norm: unit length, or `g x/|x| sqrt(d)` with a gain g."""
    return unit(x) if case.gain is None else unit(x) * case.gain * np.sqrt(np.asarray(case.d, x.real.dtype))


def sublayers(case):
    """Attention, then the MLP if there is one."""
    attention = [lambda y: kernels.attend(case, y, case.positions)]
    return attention if case.mlp is None else [*attention, lambda y: kernels.feed_forward(case.mlp, y)]


def layer(case, x, t, h):
    """One layer of step h at time t."""
    for f in sublayers(case):
        norm = case.norm if case.norm != "mix" else "post" if t < case.tau else "pre"
        if norm == "none":
            x = x + h * f(x)
        elif norm == "post":
            x = normalize(case, x + h * f(x))
        elif norm == "pre":
            x = x + h * f(normalize(case, x))
        elif norm == "peri":
            x = x + h * unit(f(normalize(case, x)))
        elif norm == "ngpt":
            x = unit(x + h * case.alpha * unit(f(x)))
        elif norm == "sqrt":
            x = unit(x + h * f(x) / np.sqrt(t + 1))
    return x


def layers(case, x, depth, h):
    """A stack of layers; layer l acts at time l h."""
    for index in range(depth):
        x = layer(case, x, index * h, h)
    return x


def reads(case, x, t=0.0):
    """What attention reads under the norm."""
    pre = case.norm in ("pre", "peri") or (case.norm == "mix" and t > case.tau)
    return normalize(case, x) if pre else x
