"""Every kernel under every norm: forward mode is the variational equation, and reverse mode is forward mode.

Kernels times norms are 80. The right-hand side is compared for all of them, in one program for each norm. Runs are compared
for each kernel and each norm, and with `--all` for all pairs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows import segments

from . import tokens
from .compare import error
from .test_tokens import build

# A step across a kink of ReLU has an error of its square, but its derivative one of its length: it needs short steps, and the
# same ones in both modes.
OPTIONS = {kernel: {"rtol": 1e-8, "atol": 1e-10, "max_steps": 64} for kernel in tokens.KERNELS} | {
    "relu": {"dt": tokens.T / 4000}
}
WEIGHTS = np.random.default_rng(9).standard_normal(tokens.N * tokens.D)


@functools.cache
def forward(kernel, norm):
    """One number, a mixture of all coordinates at T, and its derivatives by tokens, beta, V and weights, in forward mode."""

    def value(p):
        end = WEIGHTS @ tkf.solve(*build(kernel, norm, p), tokens.T, **OPTIONS[kernel]).final.x.ravel()
        return end, end

    slope, value = jax.jit(jax.jacfwd(value, has_aux=True))(jnp.asarray(tokens.parameters()))
    return float(value), np.asarray(slope)


@pytest.mark.grid
@pytest.mark.parametrize("kernel", tokens.KERNELS)
@pytest.mark.parametrize("norm", tokens.NORMS)
def test_forward_mode_is_the_variational_equation(kernel, norm):
    value, slope = forward(kernel, norm)
    y, exact = tokens.run(kernel, norm, tokens.parameters(), rtol=1e-10)
    assert abs(value - WEIGHTS @ y) < 1e-6
    assert error(slope, WEIGHTS @ exact) < (1e-4 if kernel == "relu" else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", tokens.NORMS)
def test_the_right_hand_side_in_reverse_mode(norm):
    """A mixture of all its entries, for every kernel and every rule in time: the same by both modes, and not 0."""

    def mixture(p, kernel, rule):
        model, state = build(kernel, norm, p)
        flow = segments(state, model)[rule].flow
        leaves = jax.tree.leaves(flow.velocity(jnp.asarray(0.3), flow.pack(state)))
        rng = np.random.default_rng(1)
        return sum((rng.standard_normal(leaf.shape) * leaf).sum() for leaf in leaves)

    rules = range(len(segments(*reversed(build("softmax", norm, jnp.asarray(tokens.parameters()))))))
    cases = [(kernel, rule) for kernel in tokens.KERNELS for rule in rules]

    @jax.jit
    def both(p):
        numbers = [functools.partial(mixture, kernel=kernel, rule=rule) for kernel, rule in cases]
        return [(jax.grad(number)(p), jax.jacfwd(number)(p)) for number in numbers]

    for case, (reverse, forward) in zip(cases, both(jnp.asarray(tokens.parameters())), strict=True):
        assert np.count_nonzero(forward) >= tokens.N * tokens.D, case
        assert error(reverse, forward) < 1e-12, case


@pytest.mark.grid
@pytest.mark.parametrize("kernel", tokens.KERNELS)
@pytest.mark.parametrize("norm", tokens.NORMS)
def test_reverse_mode_through_a_run(kernel, norm):
    def number(p):
        return WEIGHTS @ tkf.solve(*build(kernel, norm, p), tokens.T, **OPTIONS[kernel]).final.x.ravel()

    value, reverse = jax.jit(jax.value_and_grad(number))(jnp.asarray(tokens.parameters()))
    expected, slope = forward(kernel, norm)
    assert abs(value - expected) < 1e-12
    assert error(reverse, slope) < 1e-10
