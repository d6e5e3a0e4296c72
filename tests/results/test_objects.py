"""Objects that explain themselves: what they show, how they are changed, and what is found by tab completion."""

import importlib
import pkgutil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

MODEL = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
ROTATION = [[0.0, 1.0], [-1.0, 0.0]]
SHOWN = {
    "Softmax(beta=9.0)": tkf.Softmax(9.0),
    "Softmax(A=[[0.0, 1.0], [-1.0, 0.0]], V=-1.0, causal=True)": tkf.Softmax(A=ROTATION, V=-1.0, causal=True),
    "Softmax(A=<array 9×9>)": tkf.Softmax(A=np.eye(9)),
    "Softmax(beta=<lambda>)": tkf.Softmax(beta=lambda t: t),
    "Softmax(beta=1.0, positions=[ALiBi(slope=0.3), Window(width=0.5)])": tkf.Softmax(
        positions=[tkf.ALiBi(0.1 + 0.2), tkf.Window(0.5)]
    ),
    "Unnormalized(beta=100.0)": tkf.Unnormalized(100.0),
    "Unnormalized(beta=100.0, log_unit=3.0)": tkf.Unnormalized(100.0, log_unit=3.0),
    "Hardmax(rule='others')": tkf.Hardmax(rule="others"),
    "MultiHead([Softmax(beta=1.0), L2(beta=2.0)], outputs=[0.5, 0.5])": tkf.MultiHead(
        [tkf.Softmax(1.0), tkf.L2(2.0)], outputs=[0.5, 0.5]
    ),
    "PostLN()": tkf.PostLN(),
    "PostLN(gain=[1.0, 2.0])": tkf.PostLN(gain=[1.0, 2.0]),
    "NGPT()": tkf.NGPT(1.0),
    "MixLN(tau=1.5)": tkf.MixLN(1.5),
    "PreNorm(LayerNorm())": tkf.PreNorm(tkf.LayerNorm()),
    "Transformer(Softmax(beta=9.0), norm=PostLN())": MODEL,
    "Transformer(Softmax(beta=2.0), norm=NoNorm(), breakpoints=[1.0], noise=EuclideanNoise(kappa=4.0))": tkf.Transformer(
        tkf.Softmax(2.0), noise=tkf.EuclideanNoise(4.0), breakpoints=[1.0]
    ).replace(),
    "Transformer(Softmax(beta=1.0), norm=Projected(Torus()))": tkf.Transformer(tkf.Softmax(1.0), space=tkf.Torus()),
    "Transformer(Softmax(beta=[1.0, 2.0]), norm=PreLN(), depth=2)": tkf.by_layer(
        [tkf.Transformer(tkf.Softmax(beta), tkf.PreLN()) for beta in (1.0, 2.0)]
    ),
    "Tokens(n=256, d=3)": tkf.uniform_sphere(256, 3, seed=0),
    "Tokens(n=2, d=2, weights=[0.25, 0.75])": tkf.Tokens(np.eye(2), weights=[0.25, 0.75]),
    "Equiangular(rho=0.1, n=32)": tkf.Equiangular(0.1, 32),
    "Gaussian(mean=[0.0], cov=[[2.0]])": tkf.Gaussian(None, [[2.0]]),
    "ZonalDensity(modes=8, d=5)": tkf.ZonalDensity.uniform(8, 5),
    "OrderAbove(r=0.9)": tkf.order_above(0.9),
}  # fmt: skip


@pytest.mark.parametrize("expected", SHOWN)
def test_repr(expected):
    assert repr(SHOWN[expected]) == expected


def test_repr_without_numbers():
    """Inside jit, and where other leaves are in the place of arrays."""
    seen = []
    jax.eval_shape(lambda beta: seen.append(repr(MODEL.replace(beta=beta))), 1.0)
    assert seen == ["Transformer(Softmax(beta=<traced number>), norm=PostLN())"]
    for each in SHOWN.values():
        assert repr(eqx.partition(each, eqx.is_array)[1]).startswith(type(each).__name__)
        assert repr(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), eqx.filter(each, eqx.is_array)))


def test_html_is_escaped():
    page = tkf.Transformer(tkf.Softmax(beta=lambda t: t), norm=tkf.PostLN())._repr_html_()
    assert "&lt;lambda&gt;" in page
    assert "<lambda>" not in page
    assert "PostLN()" in page


def test_replace_makes_an_equal_model_but_for_the_change():
    changed = MODEL.replace(beta=4.0)
    assert eqx.tree_equal(changed, tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN()))
    assert float(MODEL.beta) == 9.0
    head = tkf.Softmax(Q=[[1.0, 2.0]], K=[[3.0, 4.0]], V=2.0, causal=True, positions=tkf.ALiBi(0.3), q=[1.0])
    for each in (MODEL, head, tkf.MultiHead([head, head], outputs=[None, 0.5], bias=[1.0, 2.0]), *SHOWN.values()):
        if getattr(each, "depth", None) is None:
            assert eqx.tree_equal(each.replace(), each)
    both = MODEL.replace(norm=tkf.NGPT(1.0), beta=2.0).replace(alpha=0.5)
    assert eqx.tree_equal(both, tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.NGPT(0.5)))
    assert eqx.tree_equal(MODEL.replace(space=tkf.Torus()).norm, tkf.Projected(tkf.Torus()))


def test_derived_arguments_follow():
    assert float(tkf.Unnormalized(1.0).replace(beta=50.0).log_unit) == 50.0
    assert float(tkf.Unnormalized(1.0, log_unit=2.0).replace(beta=50.0).log_unit) == 2.0
    assert float(tkf.Equiangular(0.1, 4).replace(rho=0.25).gap) == 0.75


def test_replace_can_be_differentiated():
    assert jax.grad(lambda beta: MODEL.replace(beta=beta).beta ** 2)(3.0) == 6.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MODEL.replace(betta=1.0), "replace: betta is no argument of this model: did you mean beta"),
        (lambda: tkf.PostLN().replace(alpha=1.0), "PostLN has no argument alpha"),
        (lambda: SHOWN["Transformer(Softmax(beta=[1.0, 2.0]), norm=PreLN(), depth=2)"].replace(beta=1.0), "by layer"),
        (lambda: tkf.Transformer(tkf.MultiHead([tkf.L2(1.0), tkf.L2(2.0)])).replace(beta=1.0), "use with_scale"),
        (lambda: tkf.simulate(MODEL, np.eye(3), t1=1.0), r"got ndarray: write tkf.Tokens\(x\)"),
        (lambda: tkf.solve(MODEL, jnp.eye(3), t1=1.0), r"write tkf.Tokens\(x\)"),
        (lambda: tkf.layers(MODEL, [[1.0, 0.0]], depth=1), r"got list: write tkf.Tokens\(x\)"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_beta_of_several_heads():
    with pytest.raises(AttributeError, match="this model has 2 heads"):
        _ = tkf.Transformer(tkf.MultiHead([tkf.L2(1.0), tkf.L2(2.0)])).beta
    assert float(tkf.Transformer(tkf.MultiHead([tkf.Sinkhorn(3.0)])).beta) == 3.0
    assert tkf.Softmax(A=np.eye(2)).beta is None


def test_tokens_are_an_array():
    tokens = tkf.Tokens([[1.0, 0.0], [0.6, 0.8]])
    np.testing.assert_array_equal(np.asarray(tokens), [[1.0, 0.0], [0.6, 0.8]])
    assert np.asarray(tokens, np.float32).dtype == np.float32
    copy = np.array(tokens)
    copy[0, 0] = 7.0
    assert tokens.x[0, 0] == 1.0


PACKAGES = [each.name for each in pkgutil.iter_modules(tkf.__path__) if each.ispkg and not each.name.startswith("_")]


@pytest.mark.parametrize("name", PACKAGES)
def test_tab_completion(name):
    """All public names are listed, before any is used, and all that are listed exist."""
    package = importlib.import_module(f"tokenfield.{name}")
    public = getattr(package, "__all__", [])
    assert set(public) <= set(dir(package))
    for each in dir(package):
        getattr(package, each)


def test_tab_completion_of_the_whole():
    assert {"theory", "lipschitz", "simulate", "Tokens"} <= set(dir(tkf))
    assert {"predict", "time_to_cosine"} <= set(dir(tkf.theory))
    assert {"Plan", "SweepResult"} <= set(dir(tkf.sweep))
