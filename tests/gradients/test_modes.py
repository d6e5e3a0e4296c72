"""Every kernel under every norm: reverse mode is forward mode, and both are the variational equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

from . import tokens
from .compare import error
from .test_tokens import build

# A step across a kink of ReLU has an error of its square, but its derivative one of its length: it needs short steps.
OPTIONS = {
    kernel: {"rtol": 1e-11, "atol": 1e-13} if kernel == "relu" else {"rtol": 1e-8, "atol": 1e-10}
    for kernel in tokens.KERNELS
}
WEIGHTS = np.random.default_rng(9).standard_normal(tokens.N * tokens.D)


@pytest.mark.parametrize("norm", tokens.NORMS)
@pytest.mark.parametrize("kernel", tokens.KERNELS)
def test_reverse_is_forward(kernel, norm):
    """The gradient of one number, a mixture of all coordinates at T, by tokens, beta, V and weights."""
    p = tokens.parameters()

    def number(p):
        return WEIGHTS @ tkf.solve(*build(kernel, norm, p), tokens.T, **OPTIONS[kernel]).final.x.ravel()

    both = jax.jit(lambda p: (jax.value_and_grad(number)(p), jax.jacfwd(number)(p)))
    (value, reverse), forward = both(jnp.asarray(p))
    assert error(reverse, forward) < 1e-10
    y, slope = tokens.run(kernel, norm, p, rtol=1e-10)
    assert abs(value - WEIGHTS @ y) < 1e-6
    assert error(forward, WEIGHTS @ slope) < (1e-4 if kernel == "relu" else 1e-6)
