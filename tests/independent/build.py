"""tokenfield's objects for a `Case`."""

from typing import Any

import numpy as np

import tokenfield as tkf

from .draws import Case, Head

KERNELS = {
    "softmax": tkf.Softmax,
    "l2": tkf.L2,
    "sinkhorn": tkf.Sinkhorn,
    "unnormalized": tkf.Unnormalized,
    "linear": tkf.Linear,
    "relu": tkf.ReLU,
    "sigmoid": tkf.Sigmoid,
    "hardmax": tkf.Hardmax,
}


def attention_head(head: Head) -> Any:
    """One head."""
    options: dict[str, Any] = {name: getattr(head, name) for name in ("beta", "A", "Q", "K", "V")}
    options = {name: value for name, value in options.items() if value is not None}
    if head.kernel == "hardmax":
        options["rule"] = head.rule
    if head.kernel == "sinkhorn":
        options["tolerance"] = 1e-12
    return KERNELS[head.kernel](**options, causal=head.causal)


def attention(case: Case) -> Any:
    """One head or several."""
    heads = [attention_head(head) for head in case.heads]
    return heads[0] if len(heads) == 1 else tkf.MultiHead(heads, case.outputs)


def norm(case: Case) -> Any:
    """The normalization rule."""
    return {
        "none": tkf.NoNorm,
        "rescaled": tkf.Rescaled,
        "post": lambda: tkf.PostLN(gain=case.gain),
        "pre": lambda: tkf.PreLN(gain=case.gain),
        "peri": lambda: tkf.PeriLN(gain=case.gain),
        "mix": lambda: tkf.MixLN(tau=case.tau),
        "ngpt": lambda: tkf.NGPT(alpha=case.alpha),
        "sqrt": tkf.SqrtScaling,
    }[case.norm]()


def model(case: Case) -> tkf.Transformer:
    """The Transformer."""
    return tkf.Transformer(attention(case), norm(case), mlp=None if case.mlp is None else tkf.MLP(**case.mlp))


def tokens(case: Case) -> tkf.Tokens:
    """The tokens."""
    return tkf.Tokens(case.x, case.w, case.positions)


def log_units(case: Case) -> tuple[float, ...]:
    """Logarithms of the units in which the heads are computed (not 0 for unnormalized attention at large beta)."""
    return tuple(float(np.asarray(getattr(attention_head(head), "log_unit", 0.0))) for head in case.heads)
