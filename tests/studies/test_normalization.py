"""The normalization study: the same layers as `tkf.layers`, the same numbers for the same seed."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.plotting.norms import norms_figure
from tokenfield.states.near_equal import nearly_equiangular
from tokenfield.studies import normalization_study
from tokenfield.studies.normalization import RULES, layer_weights, mean_cosines, named_rules, one_layer, start
from tokenfield.theory.layer_curves import equiangular_layers
from tokenfield.theory.random_weights import random_weight_layers


@pytest.fixture(scope="module")
def study():
    return normalization_study(d=64, n=16, depth=10, seeds=16)


@pytest.mark.slow
def test_layers_are_those_of_the_library():
    """Layer by layer with the same weights, to rounding."""
    d, n, depth, beta = 8, 5, 4, 3.0
    norms = named_rules(RULES, {"tau": 2.0, "alpha": 0.6})
    rng = np.random.default_rng(0)
    weights = [tuple(rng.standard_normal((3, d, d)) / d**0.5) for _ in range(depth)]
    x = tkf.uniform_sphere(n, d, 1).x
    tokens, here = [], jnp.stack([x] * len(norms))
    for layer in range(depth):
        here = one_layer(tuple(norms.values()), here, weights[layer], jnp.asarray(beta), jnp.asarray(float(layer)))
        tokens.append(here)
    for place, norm in enumerate(norms.values()):
        models = [tkf.Transformer(tkf.Softmax(beta, Q=Q, K=K, V=V), norm) for Q, K, V in weights]
        states = tkf.layers(models, tkf.Tokens(x)).states[1:]
        for state, mine in zip(states, tokens, strict=True):
            np.testing.assert_allclose(mine[place], state.x, atol=1e-12)
            assert float(mean_cosines(mine)[place]) == pytest.approx(tkf.mean_cosine(state), abs=1e-12)


def test_study_runs_these_layers_with_these_weights():
    """Against loops over tokens; weights are drawn in single precision, and rounded differently when compiled."""
    d, n, seed = 6, 4, 3
    x = np.asarray(tkf.uniform_sphere(n, d, seed).x)
    means = []
    for layer in range(2):
        Q, K, V = (np.asarray(each, float) for each in layer_weights(jax.random.key(seed), layer, d))
        y = []
        for i in range(n):
            scores = np.array([d**0.5 * (Q @ x[i]) @ (K @ x[j]) for j in range(n)])
            weights = np.exp(scores) / np.exp(scores).sum()
            y.append(x[i] + sum(weights[j] * (V @ x[j]) for j in range(n)) / (layer + 1) ** 0.5)
        x = np.array(y) / np.linalg.norm(y, axis=1, keepdims=True)
        means.append(np.mean([x[i] @ x[j] for i in range(n) for j in range(n) if i != j]))
    study = normalization_study(d, n, 2, [seed], rules=["sqrt"], precision="float64")
    np.testing.assert_allclose(study["mean_cosine"].isel(rule=0, seed=0)[1:], means, atol=2e-6)


def test_weights_are_fresh_gaussians_of_variance_one_over_d():
    key, d = jax.random.key(0), 200
    draws = np.stack([layer_weights(key, layer, d) for layer in range(3)]).reshape(9, d, d).astype(float)
    np.testing.assert_allclose(d * draws.var(axis=(1, 2)), 1, atol=0.04)
    correlations = np.corrcoef(draws.reshape(9, -1)) - np.eye(9)
    assert np.abs(correlations).max() < 0.03
    assert (np.abs(draws) * d**0.5 < 6).all()


def test_single_precision_is_enough():
    sizes = {"d": 96, "n": 24, "depth": 8, "seeds": [1], "rules": ["pre", "sqrt"]}
    single, double = (normalization_study(**sizes, precision=each)["mean_cosine"] for each in ("float32", "float64"))
    assert 0 < np.abs(single - double).max() < 1e-5


def test_predictions_stand_beside_the_runs(study):
    config = json.loads(study.attrs["config"])
    assert config == {"d": 64, "n": 16, "depth": 10, "beta": 8.0, "rho0": 0.0, "tau": 2.5, "alpha": 1.0}
    assert study["mean_cosine"].dims == ("rule", "seed", "layer")
    assert study["mean_cosine"].shape == (6, 16, 11)
    for name, norm in named_rules(RULES, {"tau": 2.5, "alpha": 1.0}).items():
        curve = random_weight_layers(norm, 16, 8.0, 64, 10)
        np.testing.assert_array_equal(study["recursion"].sel(rule=name), curve.cosine)
        np.testing.assert_array_equal(study["deviation"].sel(rule=name), curve.deviation)
        np.testing.assert_array_equal(study["identity"].sel(rule=name), equiangular_layers(norm, 16, 8.0, 10).cosine)


def test_runs_follow_the_recursion_and_not_the_identity_curve(study):
    mean, error = study["mean_cosine"].mean("seed"), study["mean_cosine"].std("seed") / 4
    assert (np.abs(study["recursion"] - mean) < 4 * error + 0.004).all()
    assert (mean.isel(layer=-1) - study["identity"].isel(layer=-1) > 0.1).all()


def test_same_seed_same_bits_and_rules_do_not_disturb_each_other(study):
    again = normalization_study(d=64, n=16, depth=10, seeds=[3, 0], rules=["sqrt", "post"])
    np.testing.assert_array_equal(again["seed"], [3, 0])
    for rule in ("sqrt", "post"):
        for seed in (3, 0):
            np.testing.assert_allclose(
                again["mean_cosine"].sel(rule=rule, seed=seed),
                study["mean_cosine"].sel(rule=rule, seed=seed),
                atol=1e-6,
            )
    other = normalization_study(d=64, n=16, depth=10, seeds=[3, 0], rules=["sqrt", "post"])
    np.testing.assert_array_equal(again["mean_cosine"], other["mean_cosine"])


def test_start_at_a_cosine():
    study = normalization_study(d=300, n=40, depth=1, seeds=2, rho0=0.6, rules=["pre"])
    np.testing.assert_allclose(study["mean_cosine"].isel(layer=0), 0.6, atol=0.01)
    np.testing.assert_array_equal(start(40, 300, 0.6, 1).x, nearly_equiangular(0.6, 40, 300, 1).x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 1}, "d must be a whole number >= 2, got 1"),
        ({"n": 1}, "n must be a whole number >= 2, got 1"),
        ({"depth": 0}, "depth must be a whole number >= 1, got 0"),
        ({"seeds": 0}, "seeds must be a whole number >= 1, got 0"),
        ({"seeds": [1, 1]}, "seeds must be a number or different whole numbers"),
        (
            {"rules": ["post", "pst"]},
            "rules: must be one of mix, ngpt, peri, post, .*, got 'pst': did you mean 'post'",
        ),
        ({"rules": "post"}, "rules must be some of"),
        ({"rho0": 1.0}, r"rho0 must lie in \[0, 1\), got 1.0"),
        ({"beta": np.nan}, "beta must be finite"),
        ({"tau": 0.0}, "tau must be finite and > 0"),
        ({"precision": "half"}, "precision must be float32 or float64, got 'half'"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        normalization_study(**{"d": 8, "n": 4, "depth": 2, "seeds": 1, **options})


def test_figure_shows_the_numbers(study, tmp_path):
    figure = norms_figure(study)
    assert [ax.get_title(loc="left").split()[-1] for ax in figure.axes[:2]] == ["Post-LN", "Pre-LN"]
    for ax, rule in zip(figure.axes, study["rule"].values, strict=True):
        mean, recursion, identity = (line.get_ydata() for line in ax.lines)
        one = study.sel(rule=rule)
        np.testing.assert_allclose(mean, one["mean_cosine"].mean("seed"))
        np.testing.assert_allclose(recursion, one["recursion"])
        np.testing.assert_allclose(identity, one["identity"])
        band = ax.collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx(np.quantile(one["mean_cosine"], 0.95, axis=0).max())
        assert band[:, 1].min() == pytest.approx(np.quantile(one["mean_cosine"], 0.05, axis=0).min())
    figure.savefig(tmp_path / "norms.png")
    assert (tmp_path / "norms.png").stat().st_size > 10_000
    assert len(norms_figure(study.isel(rule=[0])).axes) == 1
