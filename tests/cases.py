"""Every kernel and every norm, in the fast form and in the naive one, for the contract tests."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import naive
import numpy as np

import tokenfield as tkf
from tokenfield.attention import AbstractPairwise
from tokenfield.flows import segments

PREDICTED = [
    "initial_velocity",
    "terminal_law",
    "terminal_rate",
    "time_to_collapse",
    "first_clusters",
    "pair_lifetime",
    "critical_kappa",
    "beta_star",
    "transition",
    "critical_gamma",
    "gamma",
    "lipschitz_sharp_upper",
    "lipschitz_lower",
    "lipschitz_mean_field",
]  # the keys of `tokenfield predict`, in order

D = 3
_rng = np.random.default_rng(7)
A = _rng.standard_normal((D, D))
V = _rng.standard_normal((D, D))
Q = _rng.standard_normal((2, D))
K = _rng.standard_normal((2, D))
W1, B1 = _rng.standard_normal((4, D)), _rng.standard_normal(4)
W2, B2 = _rng.standard_normal((D, 4)), _rng.standard_normal(D)


def same(M):
    return M


class Cauchy(AbstractPairwise):
    """A kernel of a user's own."""

    def phi(self, s):
        return 1 / (1 + s**2)


class Kernel(NamedTuple):
    """A kernel: the attention, and the same as a naive function `(x, w, causal, s) -> Gamma`.

    `fast(score=f)` has `f(A)` in place of each matrix A of the scores: a function of time, say.
    """

    fast: object
    naive: object


def score_kernel(kind, name, **options):
    """The general (A, V) form of a kernel that is defined by scores."""

    def build(causal=False, score=same):
        return getattr(tkf, kind)(A=score(A), V=V, causal=causal, **options)

    def reference(x, w, causal=False, s=None):
        return getattr(naive, name)(x, w, A, V, causal=causal, s=s, **options)

    return Kernel(build, reference)


KERNELS = {
    "softmax": score_kernel("Softmax", "softmax"),
    "unnormalized": score_kernel("Unnormalized", "unnormalized"),
    "linear": score_kernel("Linear", "linear"),
    "relu": score_kernel("ReLU", "relu"),
    "sigmoid": score_kernel("Sigmoid", "sigmoid"),
    "squared-relu": score_kernel("ReLU", "relu", power=2, normalized=True),
    "own": Kernel(
        lambda causal=False, score=same: Cauchy(A=score(A), V=V, causal=causal, normalized=True),
        lambda x, w, causal=False, s=None: naive.cauchy(x, w, A, V, causal=causal, s=s),
    ),
    "hardmax-self": score_kernel("Hardmax", "hardmax", rule="self"),
    "hardmax-others": score_kernel("Hardmax", "hardmax", rule="others"),
    "l2": Kernel(
        lambda causal=False, score=same: tkf.L2(Q=score(Q), K=score(K), V=V, causal=causal),
        lambda x, w, causal=False, s=None: naive.l2(x, w, Q, K, V, causal=causal, s=s),
    ),
    "sinkhorn": Kernel(
        lambda causal=False, score=same: tkf.Sinkhorn(A=score(A), V=V, tolerance=1e-13),
        lambda x, w, causal=False, s=None: naive.sinkhorn(x, w, A, V),
    ),
    "sinkhorn-symmetric": Kernel(
        lambda causal=False, score=same: tkf.Sinkhorn(A=score(A + A.T), V=V, tolerance=1e-13),
        lambda x, w, causal=False, s=None: naive.sinkhorn(x, w, A + A.T, V),
    ),
    "multi-head": Kernel(
        lambda causal=False, score=same: tkf.MultiHead(
            [tkf.Softmax(Q=score(Q), K=score(K), V=Q, causal=causal), tkf.Sigmoid(A=score(A), V=K, causal=causal)],
            [K.T, Q.T],
        ),
        lambda x, w, causal=False, s=None: naive.multi_head(
            [naive.softmax(x, w, K.T @ Q, Q, causal=causal, s=s), naive.sigmoid(x, w, A, K, causal=causal, s=s)],
            [K.T, Q.T],
        ),
    ),
}
CAUSAL = [name for name in KERNELS if "sinkhorn" not in name]

BETA = 1.7
ISOTROPIC = {
    "softmax": (lambda: tkf.Softmax(beta=BETA), lambda x, w: naive.softmax(x, w, BETA * np.eye(D), np.eye(D))),
    "unnormalized": (
        lambda: tkf.Unnormalized(beta=BETA),
        lambda x, w: naive.unnormalized(x, w, BETA * np.eye(D), np.eye(D)),
    ),
    "linear": (lambda: tkf.Linear(beta=BETA), lambda x, w: naive.linear(x, w, BETA * np.eye(D), np.eye(D))),
    "relu": (lambda: tkf.ReLU(beta=BETA), lambda x, w: naive.relu(x, w, BETA * np.eye(D), np.eye(D))),
    "sigmoid": (lambda: tkf.Sigmoid(beta=BETA), lambda x, w: naive.sigmoid(x, w, BETA * np.eye(D), np.eye(D))),
    "normalized-sigmoid": (
        lambda: tkf.Sigmoid(beta=BETA, normalized=True),
        lambda x, w: naive.sigmoid(x, w, BETA * np.eye(D), np.eye(D), normalized=True),
    ),
    "relu-power": (
        lambda: tkf.ReLU(beta=BETA, power=1.5),
        lambda x, w: naive.relu(x, w, BETA * np.eye(D), np.eye(D), power=1.5),
    ),
    "squared-relu": (
        lambda: tkf.ReLU(beta=BETA, power=2, normalized=True),
        lambda x, w: naive.relu(x, w, BETA * np.eye(D), np.eye(D), power=2, normalized=True),
    ),
    "own": (lambda: Cauchy(BETA, normalized=True), lambda x, w: naive.cauchy(x, w, BETA * np.eye(D), np.eye(D))),
    "hardmax": (
        lambda: tkf.Hardmax(rule="others"),
        lambda x, w: naive.hardmax(x, w, np.eye(D), np.eye(D), rule="others"),
    ),
    "l2": (
        lambda: tkf.L2(beta=BETA),
        lambda x, w: naive.l2(x, w, math.sqrt(BETA) * np.eye(D), math.sqrt(BETA) * np.eye(D), np.eye(D)),
    ),
    "sinkhorn": (
        lambda: tkf.Sinkhorn(beta=BETA, tolerance=1e-13),
        lambda x, w: naive.sinkhorn(x, w, BETA * np.eye(D), np.eye(D)),
    ),
}

TAU, ALPHA = 1.5, 0.7
NORMS = {
    "none": tkf.NoNorm(),
    "post": tkf.PostLN(),
    "pre": tkf.PreLN(),
    "peri": tkf.PeriLN(),
    "mix": tkf.MixLN(TAU),
    "ngpt": tkf.NGPT(ALPHA),
    "sqrt": tkf.SqrtScaling(),
}
PARAMETERS = {"mix": {"tau": TAU}, "ngpt": {"alpha": ALPHA}}
RULES = NORMS | {"rescaled": tkf.Rescaled()}  # a change of variables rather than a norm: it has no layers
FREE = ("none", "pre", "peri", "rescaled")  # rules under which tokens may have any length
PAIRS = [(k, rule) for k in KERNELS for rule in RULES]


def tokens(n=7, d=D, seed=1, unit=True, weighted=True):
    """Generic weighted tokens with lengths 1, or between 1/2 and 2."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if not unit:
        x *= rng.uniform(0.5, 2.0, (n, 1))
    w = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    return tkf.Tokens(x, w / w.sum())


def gamma(attention, state, t=0.0, unit=False):
    return np.asarray(attention.of_itself(jnp.asarray(t), state, unit))


def velocity(model, state, t=0.0):
    """dx/dt of the fast flow at time t, as an (n, d) array."""
    import jax

    flow = next(segment.flow for segment in segments(state, model) if t <= segment.until)
    y = flow.pack(state)
    return np.asarray(jax.jvp(flow.unpack, (y,), (flow.velocity(jnp.asarray(t), y),))[1].x)
