"""The derivative of hardmax attention: each output depends on the one token that is attended to."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..attention import Hardmax, Measure
from ..attention.parameters import ValueMap
from .derivative import AbstractDerivative


class ChoiceDerivative(AbstractDerivative):
    """`D e_i = W V e_{j(i)}`, j(i) the token that i attends to. Built by `choice_derivative`."""

    head: Hardmax
    output: ValueMap
    t: Float[Array, ""]
    x: Float[Array, "n d"]
    chosen: Int[Array, " n"]

    def apply(self, e):
        return self.output(self.t, self.head.value(self.t, e[self.chosen]))

    def transpose(self, u):
        return jax.linear_transpose(self.apply, self.x)(u)[0]


def choice_derivative(
    head: Hardmax, output: ValueMap, t: Float[Array, ""], x: Array, w: Array, positions: Array
) -> ChoiceDerivative:
    """Return the derivative; raise ValueError if scores tie, as there is none then."""
    number = jnp.arange(float(len(x)))
    mean, square = np.asarray(
        head.average_of_itself(t, Measure(x, w, positions), jnp.stack([number, number**2], axis=1))
    ).T
    shared = np.flatnonzero(square - mean**2 > 0.1 * np.asarray(w).min())
    if shared.size:
        raise ValueError(
            f"x: Hardmax has no derivative where scores tie, and token {int(shared[0])} attends equally to several tokens; "
            "if they coincide, replace them by one token of their total weight"
        )
    return ChoiceDerivative(head, output, t, x, jnp.asarray(mean.round().astype(int)))
