"""The MLP against a naive loop, for every activation by its name."""

import math

import jax.numpy as jnp
import naive
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.config.parts import MLPPart

ACTIVATIONS = {
    "tanh": math.tanh,
    "relu": lambda z: max(z, 0.0),
    "gelu": lambda z: z / 2 * (1 + math.erf(z / math.sqrt(2))),
    "gelu_tanh": lambda z: z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_what_their_names_say(name):
    rng = np.random.default_rng(5)
    W1, W2, b1, b2, x = (rng.standard_normal(shape) for shape in ((4, 3), (3, 4), 4, 3, (6, 3)))
    made = tkf.MLP(W1, W2, b1, b2, activation=name)
    np.testing.assert_allclose(
        made(jnp.asarray(x)), naive.mlp(x, W1, b1, W2, b2, ACTIVATIONS[name]), rtol=1e-13, atol=1e-15
    )
    assert MLPPart(W1=W1.tolist(), W2=W2.tolist(), activation=name).make().activation == name


def test_an_unknown_activation_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match="activation must be one of tanh, relu, gelu, gelu_tanh, silu, got 'gelu_new'"):
        tkf.MLP([[1.0]], [[1.0]], activation="gelu_new")
