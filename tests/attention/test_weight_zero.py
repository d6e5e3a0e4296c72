"""Gradients of runs in which tokens of weight 0 are far from all others, at every beta."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

RNG = np.random.default_rng(0)
W = jnp.array([0.0, 0.0, 0.2, 0.2, 0.2, 0.2, 0.2])


def start(d):
    """Two neighbors of weight 0 at one pole, the others around the other pole."""
    pole = np.eye(d)[-1]
    x = np.concatenate([-pole + 0.02 * np.eye(d)[:2], pole + 0.2 * RNG.normal(size=(5, d))])
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


@pytest.mark.parametrize("d", [3, 9])
@pytest.mark.parametrize("beta", [100.0, 300.0, 400.0, 2000.0])
def test_gradients_are_those_of_the_logarithmic_form(beta, d):
    """The reference takes `softmax(beta <x_i, x_j> + log w_j)` of tokens with weight only."""
    x, u, step = start(d), jnp.asarray(RNG.normal(size=(7, d))), 0.1
    seen = W > 0

    def ours(beta, x, w):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        run = tkf.solve(model, tkf.Tokens(x, w), step, method="euler", dt=step)
        return jnp.vdot(u, run.final.x)

    def reference(beta, x):
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        scores = jnp.where(seen, beta * x @ x.T + jnp.log(jnp.where(seen, W, 1.0)), -jnp.inf)
        A = jax.nn.softmax(scores, axis=1) @ x
        y = x + step * (A - (A * x).sum(1, keepdims=True) * x)
        return jnp.vdot(u, y / jnp.linalg.norm(y, axis=1, keepdims=True))

    assert float(ours(beta, x, W)) == pytest.approx(float(reference(beta, x)), rel=1e-12)
    found, expected = jax.grad(ours, (0, 1, 2))(beta, x, W), jax.grad(reference, (0, 1))(beta, x)
    for ours_, theirs in zip(found[:2], expected, strict=True):
        np.testing.assert_allclose(ours_, theirs, rtol=0, atol=1e-9 * max(float(jnp.abs(theirs).max()), 1e-6))
    assert not np.isnan(found[2]).any()


def test_the_softmax_of_a_member_does_not_depend_on_the_others_of_its_batch():
    starts = [tkf.uniform_sphere(8, 3, seed=k) for k in range(2)]

    def first(other):
        models = [tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN()) for beta in (9.0, other)]
        return tkf.simulate_many(models, starts, 20.0)[0].dataset["x"].values

    np.testing.assert_array_equal(first(5.0), first(200.0))
