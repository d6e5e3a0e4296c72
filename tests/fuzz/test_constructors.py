"""Bad arguments of Python functions: a ValueError or TypeError in one line, from a check of ours, or a valid result."""

import datetime
import decimal
import fractions
import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import Hangs, in_time, raw, report

import tokenfield as tkf
from tokenfield import lipschitz, theory
from tokenfield.clustering import MeanShift

CALLS = 6  # of each function, with one or two bad arguments each

x = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8]])
tokens = tkf.Tokens(x)
model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
eye = np.eye(3)
KERNEL = {"beta": 2.0, "V": eye, "causal": False}
EQUAL = {"n": 8, "beta": 1.0}

NASTY = [
    None, True, 0, -1, 3, 2.5, -0.5, 10**20, 2**31, -(10**400), 10**400, 1e308, 1e-320, -1e308, 1e30, np.nan, np.inf, -np.inf, 1j,
    "", "a", "1", "x" * 5000, b"x", "[/b]", "post", "softmax",
    [], [[]], [[], []], [1, 2], [1.0, np.nan, 0], [[1, 2], [3]], [None], ["a", "b"], [[1, "b"]], (1, 2, 3), {1, 2}, {"a": 1},
    np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)),
    np.zeros(3), np.zeros((3, 3)), np.zeros((2, 2)), np.ones((1, 3)), np.ones((2, 2, 2)),
    np.full((3, 3), np.nan), 1e200 * eye, -eye, np.arange(9).reshape(3, 3), np.eye(3, dtype=complex), np.eye(3, dtype=object),
    np.array("a"), np.array(None), np.array(["a", None], dtype=object), np.eye(3, dtype=np.int8), np.eye(3, dtype=bool),
    np.eye(3, dtype=np.float16), np.float32(2), np.int64(-5), np.datetime64("2020-01-01"), jnp.eye(3), jnp.zeros(()), jnp.int32(7),
    fractions.Fraction(1, 3), decimal.Decimal("0.5"), datetime.date(2020, 1, 1), object(), int, range(3), iter([1, 2]), slice(2),
    lambda t: t, lambda: 1,
    lambda *_: None, lambda t: "a", lambda t: jnp.eye(3) * t, tokens, model, tkf.Softmax(beta=1.0), tkf.PostLN(),
]  # fmt: skip


def functions():
    """Names, functions, and arguments with which they work."""
    for kernel in (tkf.Softmax, tkf.L2, tkf.Unnormalized, tkf.Linear, tkf.ReLU, tkf.Sigmoid, tkf.Sinkhorn):
        more = {"log_unit": 1.0} if kernel is tkf.Unnormalized else {}
        more = {"tolerance": 1e-9, "max_iterations": 50} if kernel is tkf.Sinkhorn else more
        yield kernel, {**KERNEL, **more}
        yield kernel, {"Q": eye, "K": eye, "V": eye}
        if kernel is not tkf.L2:
            yield kernel, {"A": eye}
    yield tkf.Hardmax, {"A": eye, "V": eye, "rule": "self", "tie": 1e-9}
    yield tkf.MultiHead, {"heads": [tkf.Softmax(beta=1.0), tkf.Softmax(beta=2.0)], "outputs": [eye, 0.5]}
    for norm in (tkf.PostLN, tkf.PreLN, tkf.PeriLN):
        yield norm, {"gain": np.ones(3)}
    yield tkf.MixLN, {"tau": 1.0}
    yield tkf.NGPT, {"alpha": 1.0}
    yield tkf.MLP, {"W1": eye, "W2": eye, "b1": np.ones(3), "b2": np.ones(3), "activation": "tanh"}
    yield tkf.AnisotropicNoise, {"kappa": 2.0, "S": eye}
    yield tkf.MultiplicativeNoise, {"kappa": 2.0, "g": lambda x: 1 + x[0], "sense": "ito"}
    for noise in (tkf.SphereNoise, tkf.EuclideanNoise, tkf.CommonNoise):
        yield noise, {"kappa": 2.0}
    yield (
        tkf.Transformer,
        {"attention": tkf.Softmax(beta=1.0), "norm": tkf.PostLN(), "mlp": None, "noise": None, "breakpoints": [1.0]},
    )
    yield tkf.Tokens, {"x": x, "weights": [0.2, 0.3, 0.5], "positions": [0.1, 0.2, 1.0]}
    yield tkf.Gaussian, {"mean": np.zeros(3), "cov": eye}
    yield tkf.Equiangular, {"rho": 0.1, "n": 4, "radius": 1.0}
    yield tkf.CircleDensity, {"coefficients": np.array([1.0, 0.2, 0.1]) / (2 * np.pi)}
    yield tkf.SphereDensity, {"coefficients": np.array([1 / np.sqrt(4 * np.pi), 0, 0.1, 0])}
    yield tkf.ZonalDensity, {"coefficients": np.array([1.0, 0.1]), "d": 3}
    yield tkf.uniform_sphere, {"n": 4, "d": 3, "seed": 0}
    yield tkf.gaussian_tokens, {"n": 4, "d": 3, "seed": 0, "mean": np.zeros(3), "cov": eye}
    yield tkf.hemisphere, {"n": 4, "d": 3, "seed": 0, "margin": 0.1}
    yield tkf.equiangular_tokens, {"rho": 0.1, "n": 4, "d": 5, "radius": 1.0}
    yield tkf.states.nearly_equiangular, {"rho": 0.1, "n": 4, "d": 8, "seed": 0}
    yield tkf.separated_clusters, {"n": 6, "d": 3, "k": 2, "spread": 0.1, "seed": 0}
    yield tkf.circle_tokens, {"angles": [0.0, 1.0]}
    yield tkf.states.perturbed, {"tokens": tokens, "size": 1e-3, "seed": 0}
    yield tkf.one_cluster, {"tol": 1e-3, "metric": "auto"}
    yield tkf.at_most_clusters, {"k": 2, "tol": 1e-3, "metric": "auto"}
    yield tkf.order_above, {"r": 0.9}
    yield tkf.cosine_above, {"rho": 0.9}
    yield tkf.energy_settled, {"rate": 1e-6, "beta": 1.0}
    yield tkf.clusters, {"state": tokens, "tol": 1e-3, "metric": "auto"}
    yield tkf.effective_rank, {"state": tokens, "centered": False}
    yield tkf.mean_cosine, {"state": tokens}
    yield tkf.pairwise_cosines, {"state": tokens}
    yield tkf.order_parameter, {"state": tokens}
    yield tkf.mean_length, {"state": tokens}
    yield tkf.smallest_cosine, {"state": tokens}
    yield tkf.fraction_above, {"state": tokens, "threshold": 0.5}
    yield tkf.soft_cluster_count, {"state": tokens, "tol": 0.1, "metric": "cosine"}
    yield tkf.energy, {"state": tokens, "model": 1.0}
    yield tkf.normalized_energy, {"state": tokens, "model": 1.0}
    yield tkf.attention_matrix, {"state": tokens, "model": model, "t": 0.0}
    yield tkf.kde_modes, {"state": tkf.circle_tokens([0.0, 1.0]), "beta": 2.0, "geometry": "auto"}
    yield tkf.renyi_centers, {"tokens": tokens, "delta": 0.1, "strong": False}
    yield tkf.leaders, {"state": tokens, "A": eye}
    yield tkf.wasserstein, {"mu": tokens, "nu": tkf.Tokens(x[::-1].copy()), "p": 2, "metric": "euclidean"}
    yield tkf.load, {"path": "no-such-run"}
    yield tkf.simulate, {"model": model, "state": tokens, "t1": 0.5, "save_at": 3, "rtol": 1e-3, "atol": 1e-6, "stop_when": None,
                         "method": "tsit5", "dt": None, "max_steps": 100, "merge_tolerance": None, "seed": None}  # fmt: skip
    yield tkf.layers, {"model": model, "state": tokens, "depth": 2, "step": 1.0}
    yield (
        tkf.simulate_many,
        {"model": model, "states": [tokens, tokens], "t1": 0.5, "save_at": 3, "rtol": 1e-3, "max_steps": 100},
    )
    yield MeanShift().set_params, {"beta": 2.0}
    yield _mean_shift, {"beta": 2.0, "bandwidth": None, "step": 1.0, "geometry": "euclidean"}
    yield tkf.sweep.Plan, {"run": {"t1": 1.0}, "axes": {"beta": [1.0]}, "record": {"r": "mean_cosine"}, "repeats": 1, "seed": 0,
                           "batch": 2, "theory": None, "name": "a", "state": "tokens"}  # fmt: skip
    yield from of_theory()
    yield from of_lipschitz()


def _mean_shift(**options):
    return MeanShift(**options).fit(x)


def of_theory():
    yield theory.gaussian_closed_form, {"A": eye, "V": eye, "cov": eye, "t": 0.1}
    yield theory.gaussian_blowup_time, {"A": eye, "cov": eye, "V": eye}
    yield theory.gaussian_limit, {"A": eye, "V": eye, "cov": eye}
    yield theory.gaussian_rank_bound, {"A": eye}
    yield theory.initial_velocity, {**EQUAL, "norm": "post", "attention": "softmax", "rho0": 0.1, "radius": 1.0}
    yield (
        theory.time_to_cosine,
        {"rho1": 0.9, **EQUAL, "norm": "post", "rho0": 0.1, "attention": "softmax", "radius": 1.0},
    )
    yield theory.terminal_law, {**EQUAL, "norm": "post", "attention": "softmax"}
    yield theory.fit_terminal_law, {"times": [1.0, 2.0, 3.0], "gap": [0.1, 0.01, 0.001], "kind": "exponential"}
    yield theory.log_multiplier, {"k": 1, "beta": 1.0, "d": 3}
    yield theory.growth_rates, {"beta": 1.0, "d": 3, "attention": "softmax", "modes": 4}
    yield theory.first_clusters, {"beta": 9.0, "d": 3}
    yield theory.kde_modes_circle, {"beta": 4.0, "limit": False}
    yield theory.kde_modes_line, {"n": 10, "beta": 4.0}
    yield theory.kde_modes_line_limit, {"exponent": 0.5}
    yield (
        theory.pair_merge_time,
        {"rho0": 0.1, "rho1": 0.9, "beta": 2.0, "masses": (0.5, 0.5), "attention": "softmax", "log": False},
    )
    yield theory.pair_merge_time_asymptotic, {"rho0": 0.1, "beta": 20.0, "masses": (0.5, 0.5), "log": True}
    yield theory.saddle_to_saddle, {"tokens": tokens, "attention": "softmax"}
    yield theory.pair_cosine, {"s": 0.5, "rho0": 0.1, "masses": (0.5, 0.5)}
    yield theory.critical_kappa, {"beta": 1.0, "d": 3, "attention": "unnormalized", "log_unit": 0.0}
    yield theory.beta_star, {"d": 3, "attention": "unnormalized"}
    yield theory.transition, {"beta": 1.0, "d": 3, "attention": "unnormalized"}
    yield theory.layer_contraction, {"rho": 0.1, "n": 8, "beta": 1.0}
    yield theory.residual_layer_contraction, {"rho": 0.1, "n": 8, "beta": 1.0}
    yield theory.causal_contraction, {"rho": 0.1, "i": 2, "j": 5, "beta_i": 1.0, "beta_j": 1.0}
    yield theory.critical_gamma, {"rho": 0.1}
    yield theory.layer_contraction_limit, {"rho": 0.1, "gamma": 1.0}
    yield theory.iterated_contraction, {"rho": 0.1, "n": 8, "beta": 1.0, "depth": 3}
    yield theory.iterated_contraction_limit, {"rho": 0.1, "gamma": 1.0, "depth": 3}
    yield theory.orthogonal_threshold, {"depth": 3}
    yield theory.attention_scale, {"name": "log", "n": 8}
    yield theory.choose_gamma, {"rho": 0.1, "n": 8, "target": 0.2, "residual": None}
    yield theory.nearly_equiangular_threshold, {"rho": 0.1, "c": 1.0}
    yield (
        theory.equiangular_layers,
        {"norm": tkf.PostLN(), **EQUAL, "depth": 3, "rho0": 0.1, "radius": 1.0, "step": 1.0},
    )
    yield theory.softmax_moments, {"rho": 0.1, "n": 8, "variance": 1.0}
    yield theory.random_attention, {"rho": 0.1, "n": 8, "beta": 1.0, "d": 4, "equiangular": False}
    yield theory.random_weight_layers, {"norm": tkf.PostLN(), **EQUAL, "d": 4, "depth": 2, "rho0": 0.1, "noise": False}
    yield theory.random_weight_tail, {"norm": tkf.PostLN(), "step": 1.0}
    yield (
        theory.predict,
        {"n": 8, "d": 3, "beta": 1.0, "norm": "post", "attention": "softmax", "rho0": 0.1, "angle": 90.0},
    )


def of_lipschitz():
    yield lipschitz.bounds, {"A": eye, "V": eye, "R": 1.0, "n": 4}
    yield lipschitz.score_gap, {"A": eye}
    yield lipschitz.data_bounds, {"attention": tkf.Softmax(beta=1.0), "x": x, "t": 0.0}
    yield (
        lipschitz.data_model,
        {
            "kind": "clustered",
            "d": 3,
            "scale": 1.0,
            "rank": 2,
            "clusters": 2,
            "spread": 0.2,
            "correlation": 0.9,
            "freedom": 3.0,
        },
    )
    yield lipschitz.fit_power_law, {"n": [2, 4, 8], "y": [1.0, 2.0, 3.0], "confidence": 0.9}
    yield lipschitz.local, {"model": tkf.Softmax(beta=1.0), "x": x, "top_k": 1, "rtol": 1e-3, "max_products": 20}


def call(function, arguments):
    """Call with arguments by name, in their places where the function takes them so."""
    bound = inspect.signature(function).bind(**arguments)
    return function(*bound.args, **bound.kwargs)


def test_the_valid_arguments_are_valid():
    """So that the table below cannot go stale unseen."""
    for function, valid in functions():
        if function is not tkf.load:
            inspect.signature(function).bind(**valid)


@pytest.mark.filterwarnings("ignore")
def test_bad_arguments_are_refused_in_one_line_of_ours(budget, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    faults = []
    for function, valid in functions():
        for _ in range(budget(CALLS)):
            chosen = rng.choice(list(valid), rng.choice([1, 1, 2], 1)[0] if len(valid) > 1 else 1, replace=False)
            bad = {name: NASTY[rng.integers(len(NASTY))] for name in chosen}
            what = (
                f" <- {getattr(function, '__name__', function)}({', '.join(f'{k}={v!r:.80}' for k, v in bad.items())})"
            )
            try:
                with in_time():
                    call(function, {**valid, **bad})
            except (Exception, Hangs) as error:
                if fault := raw(error):
                    faults.append(fault + what)
    assert not faults, report(faults)
