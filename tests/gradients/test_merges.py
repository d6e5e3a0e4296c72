"""Coarsening replaces tokens by one: what depends on when has no derivative there, and says so."""

import jax
import numpy as np
import pytest

import tokenfield as tkf


def final(beta):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    start = tkf.circle_tokens(np.array([0.0, 0.4, 2.0, 2.3, 4.0]))
    return tkf.solve(model, start, 50.0, method="coarsen").final.x.sum()


@pytest.mark.parametrize("differentiate", [jax.grad, jax.jacfwd], ids=["reverse", "forward"])
def test_a_derivative_across_a_merge_is_refused(differentiate):
    with pytest.raises(ValueError, match="coarsen"):
        differentiate(final)(20.0)
