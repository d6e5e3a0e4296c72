"""The two estimates behind well-posedness: the size and the slope of the attention map."""

import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ..claim import Check, Claim, Evidence, at_least, at_most, close

N, D = 8, 3
KERNELS = {
    "softmax": lambda A, V: tkf.Softmax(A=A, V=V),
    "L2": lambda A, V: tkf.L2(Q=A, K=jnp.eye(D), V=V),
    "sigmoid": lambda A, V: tkf.Sigmoid(A=A, V=V),
    "Sinkhorn": lambda A, V: tkf.Sinkhorn(A=A, V=V),
    "unnormalized": lambda A, V: tkf.Unnormalized(A=A, V=V),
    "linear": lambda A, V: tkf.Linear(A=A, V=V),
    "ReLU": lambda A, V: tkf.ReLU(A=A, V=V),
}


def at_probe(kernel: str, A, V, x, w, probe):
    """Γ_mu(probe): the probe is a token of weight 0, which moves with the measure but does not count in it."""
    points, weights = jnp.concatenate([x, probe[None]]), jnp.append(w, 0.0)
    return KERNELS[kernel](A, V)(jnp.zeros(()), points, weights, jnp.ones(N + 1))[-1]


def at_tokens(kernel: str, A, V, x, w, probe):
    """The largest Γ_mu(x_i): Sinkhorn attention is defined on the support only."""
    out = KERNELS[kernel](A, V)(jnp.zeros(()), x, w, jnp.ones(N))
    return out[jnp.argmax(jnp.linalg.norm(out, axis=-1))]
