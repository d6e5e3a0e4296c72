"""A model from its record: the same classes, structure and numbers, or the part that is not recorded."""

import jax
import numpy as np
import pytest
from cases import B1, B2, KERNELS, NORMS, W1, W2, Cauchy

import tokenfield as tkf
from tokenfield.results import describe, rebuilt

SMALL = tkf.uniform_sphere(4, 3, seed=0)
HEADS = [tkf.Softmax(Q=W1, K=W1, V=W1, q=B1, k=B1), tkf.Softmax(Q=W1, K=W1, V=W1)]
MODELS = {
    **{name: tkf.Transformer(KERNELS[name].fast(), tkf.PostLN()) for name in KERNELS if name != "own"},
    **{name: tkf.Transformer(tkf.Unnormalized(40.0), norm) for name, norm in NORMS.items()},
    "gain": tkf.Transformer(tkf.Sigmoid(2.0, causal=True, normalized=True), tkf.PreLN(gain=[1.0, 2.0, 3.0])),
    "mlp": tkf.Transformer(tkf.L2(2.0), mlp=tkf.MLP(W1, W2, B1, B2, "gelu"), breakpoints=[1.0, 2.0]),
    "real": tkf.Transformer(tkf.MultiHead(HEADS, [W2, W2], B2, [B1, B1]), tkf.PreNorm(tkf.LayerNorm(2.0)), tkf.MLP(W1, W2)),
    "rules": tkf.Transformer(
        tkf.Softmax(positions=[tkf.RoPE(frequencies=[1.0]), tkf.ALiBi(0.3), tkf.Bias(np.eye(4)), tkf.Window(1.0), tkf.Sinks(2)])
    ),
    "noise": tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(), noise=tkf.SphereNoise(kappa=3.0)),
    "weights": tkf.Transformer(tkf.Unnormalized(1.0), tkf.PostLN(), fisher_rao=0.5),
    "decoder": tkf.Transformer(
        tkf.Softmax(2.0), tkf.PreLN(), context=SMALL, cross=tkf.ReLU(1.0, power=1.5), encoder=tkf.Transformer(tkf.Linear(1.0))
    ),
    "layers": tkf.by_layer([tkf.Transformer(tkf.Softmax(beta)) for beta in (1.0, 2.0)], final=tkf.RMSNorm()).repeated(2),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_same_classes_structure_and_numbers(name):
    model = MODELS[name]
    found = rebuilt(describe(model))
    assert jax.tree.structure(found) == jax.tree.structure(model)
    for mine, given in zip(jax.tree.leaves(found), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(mine, given)
        assert mine.dtype == given.dtype
    assert describe(found) == describe(model)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (tkf.Transformer(tkf.Softmax(V=lambda t: t)), "model.attention.value.V is a function, which the run does not"),
        (tkf.Transformer(tkf.Softmax(A=np.eye(33))), "model.attention.score.A is an array too large to be listed"),
        (tkf.Transformer(Cauchy(1.0)), "model.attention is cases:Cauchy, which is not a class of tokenfield"),
    ],
    ids=["function", "large", "own"],
)
def test_what_is_not_recorded_is_named(model, words):
    with pytest.raises(ValueError, match=words):
        rebuilt(describe(model))


def test_a_run_has_its_model():
    model = MODELS["gain"]
    traj = tkf.layers(model, SMALL, depth=2)
    assert describe(traj.model) == describe(model)
