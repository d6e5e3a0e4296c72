"""Every kernel under every norm: forward mode is the variational equation, and reverse mode is forward mode.

Reverse mode through a run takes five seconds to compile, and kernels times norms are 80. So forward mode is compared for all
of them, where kernels are branches of one program for each norm; reverse mode is compared for the right-hand side of all of
them, and through whole runs for each kernel and each norm. `--fuzz 2` compares it through runs of all of them.
"""

import functools
import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.attention import AbstractHead
from tokenfield.flows import segments

from . import tokens
from .compare import error
from .test_tokens import NORMS, build

# A step across a kink of ReLU has an error of its square, but its derivative one of its length: it needs short steps.
TOLERANCES = {kernel: (1e-11, 1e-13) if kernel == "relu" else (1e-8, 1e-10) for kernel in tokens.KERNELS}
WEIGHTS = np.random.default_rng(9).standard_normal(tokens.N * tokens.D)


class OneOf(AbstractHead):
    """The attention among `parts` whose number is `which`: `jax.lax.switch` runs that one only."""

    parts: tuple[tkf.attention.AbstractAttention, ...]
    which: Any
    score: Any
    value: Any
    causal: bool = eqx.field(static=True, default=False)
    normalized: ClassVar[bool] = False
    selective: ClassVar[bool] = False
    by_scores: ClassVar[bool] = True

    def of_itself(self, t, mu, unit=False):
        return jax.lax.switch(self.which, [lambda part=part: part.of_itself(t, mu, unit) for part in self.parts])

    def average(self, t, x, mu, positions, values):
        raise NotImplementedError

    def average_of_itself(self, t, mu, values, unit=False):
        """For `Rescaled`, which multiplies scores by a factor."""

        def branch(part):
            part = eqx.tree_at(lambda part: part.score.factor, part, self.score.factor)
            return lambda: part.average_of_itself(t, mu, values, unit)

        return jax.lax.switch(self.which, [branch(part) for part in self.parts])


def branches(norm):
    """Kernels of the program for this norm. `Rescaled` reads the heads of a `MultiHead`: there it cannot be a branch."""
    return [kernel for kernel in tokens.KERNELS if (kernel, norm) != ("multi_head", "rescaled")]


@functools.cache
def forward_program(norm, kernels):
    """`(p, number, rtol, atol) -> (slope, value)` in forward mode, where kernels[number] is the kernel."""

    def value(p, number, rtol, atol):
        built = [build(kernel, norm, p) for kernel in kernels]
        model, state = built[0]
        if len(kernels) > 1:
            parts, first = tuple(model.attention for model, _ in built), model.attention
            model = tkf.Transformer(OneOf(parts, number, first.score, first.value), norm=NORMS[norm])
        end = WEIGHTS @ tkf.solve(model, state, tokens.T, rtol=rtol, atol=atol).final.x.ravel()
        return end, end

    return jax.jit(jax.jacfwd(value, has_aux=True))


@functools.cache
def forward(kernel, norm):
    """One number, a mixture of all coordinates at T, and its derivatives by tokens, beta, V and weights."""
    kernels = branches(norm) if kernel in branches(norm) else [kernel]
    slope, value = forward_program(norm, tuple(kernels))(
        jnp.asarray(tokens.parameters()), kernels.index(kernel), *TOLERANCES[kernel]
    )
    return float(value), np.asarray(slope)


@pytest.mark.parametrize("kernel", tokens.KERNELS)
@pytest.mark.parametrize("norm", tokens.NORMS)
def test_forward_mode_is_the_variational_equation(kernel, norm):
    value, slope = forward(kernel, norm)
    y, exact = tokens.run(kernel, norm, tokens.parameters(), rtol=1e-10)
    assert abs(value - WEIGHTS @ y) < 1e-6
    assert error(slope, WEIGHTS @ exact) < (1e-4 if kernel == "relu" else 1e-6)


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


# Each kernel and each norm: test_tokens has softmax.
CHOSEN = list(zip(tokens.KERNELS[1:], itertools.cycle((*tokens.NORMS[1:], tokens.NORMS[0])), strict=False))


def pytest_generate_tests(metafunc):
    if "pair" in metafunc.fixturenames:
        every = [(kernel, norm) for kernel in tokens.KERNELS for norm in tokens.NORMS]
        metafunc.parametrize("pair", every if metafunc.config.getoption("--fuzz") > 1 else CHOSEN, ids="-".join)


def test_reverse_mode_through_a_run(pair):
    kernel, norm = pair
    rtol, atol = TOLERANCES[kernel]

    def number(p):
        return WEIGHTS @ tkf.solve(*build(kernel, norm, p), tokens.T, rtol=rtol, atol=atol).final.x.ravel()

    value, reverse = jax.jit(jax.value_and_grad(number))(jnp.asarray(tokens.parameters()))
    expected, slope = forward(kernel, norm)
    assert abs(value - expected) < 1e-12
    assert error(reverse, slope) < 1e-10
