"""Objects that explain themselves: what they show, how they are changed, and what is found by tab completion."""

import importlib
import json
import pkgutil
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import tokenfield as tkf
from tokenfield.normalization import AbstractDirectionNorm
from tokenfield.results import describe, rebuilt
from tokenfield.results.labels import labeled_run

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
        (lambda: MODEL.replace(betta=1.0), "replace: betta is not an argument of this model: did you mean beta"),
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
    folders = {each.parent.name for each in Path(tkf.__file__).parent.glob("[a-z]*/__init__.py")}
    assert folders <= set(dir(tkf))
    for name in folders:  # also before anything else has imported it
        assert tkf.__getattr__(name) is importlib.import_module(f"tokenfield.{name}")
    assert {"predict", "time_to_cosine"} <= set(dir(tkf.theory))
    assert {"Plan", "SweepResult"} <= set(dir(tkf.sweep))


MODELS = [
    *[each for each in SHOWN.values() if isinstance(each, tkf.Transformer)],
    tkf.Transformer(SHOWN["MultiHead([Softmax(beta=1.0), L2(beta=2.0)], outputs=[0.5, 0.5])"], tkf.MixLN(1.5)),
    tkf.Transformer(SHOWN["Softmax(beta=1.0, positions=[ALiBi(slope=0.3), Window(width=0.5)])"], tkf.PostLN(gain=2.0)),
    tkf.Transformer(
        tkf.Softmax(1.0, positions=[tkf.RoPE(), tkf.Sinks(2)]), tkf.PreNorm(tkf.LayerNorm()), tkf.MLP([[1.0]], [[2.0]])
    ),
    tkf.Transformer(tkf.Sinkhorn(1.0), context=tkf.Tokens(np.eye(2), space=tkf.Euclidean())),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_is_rebuilt_from_the_record_of_a_run(model):
    assert eqx.tree_equal(rebuilt(json.loads(json.dumps(describe(model)))), model)


@pytest.fixture(scope="module")
def runs():
    starts = [tkf.circle_tokens([0.0, 1.0, 2.0]), tkf.circle_tokens([0.0, 0.2, 3.0])]
    return tkf.simulate_many(MODEL, starts, 0.2, save_at=3)


def test_a_loaded_run_has_its_model_and_its_labels(tmp_path, runs):
    again = tkf.load(runs[0].save(tmp_path / "run.zarr"))
    assert eqx.tree_equal(again.model, MODEL)
    for dataset in (runs.dataset, runs[1].dataset, again.dataset):
        for variable in dataset.variables.values():
            assert variable.attrs["long_name"]
            assert variable.attrs["units"] == "1"
    assert again.dataset["x"].attrs["long_name"] == "coordinates of tokens"


def test_the_unit_of_time_is_a_unit_of_the_dataset():
    dataset = labeled_run(xarray.Dataset(coords={"time": [0.0]}, attrs={"log_time_unit": -100.0}))
    assert dataset["time"].attrs == {"long_name": "time", "units": "exp(-100)"}
    layers = labeled_run(xarray.Dataset(coords={"time": [0.0]}, attrs={"config": '{"step": 1}'}))
    assert layers["time"].attrs == {"long_name": "layer", "units": "1"}


def test_observe(runs):
    series = runs[0].observe("fraction_above", threshold=0.5)
    xarray.testing.assert_identical(series, tkf.fraction_above(runs[0], threshold=0.5))
    assert series.attrs["long_name"] == "fraction of pairs with cosine above 0.5"
    order = runs.observe("order_parameter")
    assert order.dims == ("member", "time")
    np.testing.assert_allclose(order[1, 0], np.linalg.norm(np.mean(runs[1].state(0).x, axis=0)), atol=1e-15)
    first = runs[0].observe(lambda state: state.x[0, 0])  # any function of a state
    np.testing.assert_array_equal(first, runs[0].dataset["x"][:, 0, 0])
    asked = runs.observe(lambda state, model: model.beta * state.n)
    np.testing.assert_array_equal(asked, np.full((2, 3), 27.0))
    for name, options, words in (
        ("order_paramter", {}, "did you mean 'order_parameter'"),
        ("fraction_above", {"treshold": 0.5}, "fraction_above has no parameter treshold: did you mean threshold"),
        (3, {}, "must be a name or a function of a state, got 3"),
    ):
        with pytest.raises(ValueError, match=words):
            runs[0].observe(name, **options)


def test_results_in_notebooks(runs):
    page = runs[0]._repr_html_()
    for words in (repr(MODEL), "Tokens(n=3, d=2)", "t = 0 to 0.2, 3 saved"):
        assert words in page
    assert "<td" in runs._repr_html_()
    changed = runs[0].dataset.assign_attrs(events=json.dumps([{"kind": "<b>", "time": 0.1}]))
    assert "&lt;b&gt; at t = 0.1" in tkf.Trajectory(changed)._repr_html_()


class Softmax(AbstractDirectionNorm):  # a user's own, with a name of ours
    speed = growth = layer = radius = inputs = segments = check = lambda self, *_: None


def test_a_class_with_a_name_of_ours_is_not_taken_for_it():
    record = describe(tkf.Transformer(tkf.Softmax(1.0), Softmax()))
    with pytest.raises(ValueError, match=r"model.norm is .*:Softmax, which is not a class of tokenfield"):
        rebuilt(record)


def test_a_solution_in_notebooks():
    solution = tkf.solve(MODEL, tkf.circle_tokens([0.0, 1.0, 2.0]), t1=0.5, save_at=[0.0, 0.25, 0.5])
    page = solution._repr_html_()
    for words in (
        "Tokens(n=3, d=2)",
        "t = 0 to 0.5, 3 saved",
        "finished",
        f"tsit5, {int(solution.stats['steps'])} steps",
    ):
        assert words in page
    stopped = tkf.solve(MODEL, tkf.Equiangular(0.5, 4), t1=9.0, stop_when=tkf.cosine_above(0.6))
    assert f"stopped at t = {float(stopped.event_time):.6g}" in stopped._repr_html_()
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), solution)
    assert stacked._repr_html_().startswith("<pre>Solution(")
    assert "<array" not in stacked._repr_html_()
