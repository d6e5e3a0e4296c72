"""What a run refuses: arguments, states that do not fit a model, models that make no sense."""

import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows.tokens import check
from tokenfield.solver.layers import Layers

SA = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())


START = tkf.uniform_sphere(24, 3, seed=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"t1": 0.0}, "t1 must be finite and > 0, got 0.0"),
        ({"t1": -1.0}, "t1 must be"),
        ({"t1": float("nan")}, "t1 must be"),
        ({"t1": 1.0, "seed": 3}, "nothing in this model is random"),
        ({"t1": 1.0, "rtol": -1e-3}, "rtol must be"),
        ({"t1": 1.0, "atol": 0.0}, "atol must be"),
        ({"t1": 1.0, "method": "rk4"}, "method must be one of euler, .*tokens coarsen, .*densities lawson, got 'rk4'"),
        ({"t1": 1.0, "method": "euler"}, "give a fixed step dt"),
        ({"t1": 1.0, "save_at": [0.0, 2.0]}, "within"),
        ({"t1": 1.0, "save_at": 1}, "save_at must be a whole number >= 2"),
        ({"t1": 1.0, "save_at": "abc"}, "save_at must be a number or an array of numbers, got 'abc'"),
        ({"t1": 1.0, "stop_when": 3}, "stop_when must be a rule"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        tkf.simulate(SA, START, **arguments)


@pytest.mark.parametrize(
    ("model", "state", "message"),
    [
        (SA, lambda: tkf.Tokens([[2.0, 0.0, 0.0]]), "token 0 has length 2"),
        (SA, lambda: tkf.Tokens([[1.0]]), "needs d >= 2"),
        (tkf.Transformer(tkf.Softmax(1.0), tkf.PreLN()), lambda: tkf.Tokens([[0.0, 0.0]]), "token 0 is zero"),
        (tkf.Transformer(tkf.Softmax(A=np.eye(2))), lambda: START, r"A must have shape \(3, 3\)"),
        (tkf.Transformer(tkf.Softmax(V=np.eye(2))), lambda: START, r"V must have shape \(dv, 3\)"),
        (tkf.Transformer(tkf.Softmax(V=np.ones((2, 3)))), lambda: START, "V must map R.3 to itself"),
        (
            tkf.Transformer(tkf.Softmax(A=lambda t: jnp.eye(2))),
            lambda: START,
            r"A must have shape \(3, 3\).*got \(2, 2\)",
        ),
        (
            tkf.Transformer(tkf.Softmax(V=lambda t: jnp.ones(3))),
            lambda: START,
            r"V must have shape \(dv, 3\).*got \(3,\)",
        ),
        (
            tkf.Transformer(tkf.Softmax(Q=lambda t: jnp.eye(2), K=np.eye(3))),
            lambda: START,
            r"Q must have shape \(k, 3\).*got \(2, 2\)",
        ),
        (
            tkf.Transformer(tkf.Softmax(Q=np.eye(3), K=lambda t: jnp.ones((2, 3)))),
            lambda: START,
            r"same number of rows, got shapes \(3, 3\) and \(2, 3\)",
        ),
        (tkf.Transformer(tkf.Softmax(beta=lambda t: jnp.ones(2))), lambda: START, "beta must be a number"),
        (tkf.Transformer(tkf.Softmax(A=lambda t: np.cos(t) * np.eye(3))), lambda: START, r"A\(t\) must use jax.numpy"),
        (tkf.Transformer(tkf.Softmax(beta=np.cos), tkf.PostLN()), lambda: START, r"beta\(t\) must use jax.numpy"),
        (
            tkf.Transformer(tkf.Softmax(beta=np.cos), tkf.PostLN()),
            lambda: tkf.Equiangular(0.1, 4),
            r"beta\(t\) must use jax.numpy",
        ),
        (tkf.Transformer(tkf.Softmax(), tkf.NGPT(alpha=np.cos)), lambda: START, r"alpha\(t\) must use jax.numpy"),
        (tkf.Transformer(tkf.Softmax(A=lambda t: "a")), lambda: START, r"A\(t\) must be a number or an array"),
        (
            tkf.Transformer(tkf.MultiHead([tkf.Softmax()], [lambda t: jnp.eye(2)])),
            lambda: START,
            r"outputs\[0\] must have shape \(3, 3\)",
        ),
        (
            tkf.Transformer(tkf.Unnormalized(A=800 * np.eye(3)), tkf.PostLN()),
            lambda: START,
            "log_unit must be given: <Ax,y> reaches 800",
        ),
        (
            tkf.Transformer(tkf.Unnormalized(800.0, Q=np.eye(3), K=np.eye(3)), tkf.PostLN()),
            lambda: START,
            "With log_unit=800, the unit of time is",
        ),
        (tkf.Softmax(1.0), lambda: START, "model must be a Transformer, got Softmax: wrap it"),
        (tkf.Transformer(tkf.Softmax(1.0), tkf.PreLN(gain=[1.0, 2.0])), lambda: START, "gain must have length 3"),
        (
            tkf.Transformer(tkf.Softmax(1.0), mlp=tkf.MLP(np.ones((2, 2)), np.ones((2, 2)))),
            lambda: START,
            r"W1 must have shape \(m, 3\)",
        ),
        (
            tkf.Transformer(tkf.MultiHead([tkf.Softmax(V=np.ones((1, 3)))], [np.ones((3, 2))])),
            lambda: START,
            r"outputs\[0\] must have shape \(3, 1\)",
        ),
        (
            SA,
            lambda: "tokens",
            "state must be one of CircleDensity, Equiangular, Gaussian, SphereDensity, Tokens, ZonalDensity",
        ),
    ],
)
def test_models_and_states_that_do_not_fit(model, state, message):
    with pytest.raises(ValueError, match=message):
        tkf.simulate(model, state(), 1.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tkf.Softmax(beta=1.0, A=np.eye(2)), "beta or A, not both"),
        (lambda: tkf.Softmax(Q=np.eye(2)), "Q and K must be given together, got only Q"),
        (lambda: tkf.Softmax(Q=np.ones((2, 3)), K=np.ones((1, 3))), "same number of rows"),
        (lambda: tkf.Softmax(beta=float("nan")), "beta must be finite"),
        (lambda: tkf.Softmax(beta="warm"), "beta must be a number"),
        (lambda: tkf.Softmax(A=[1.0, 2.0]), "A must be a matrix"),
        (lambda: tkf.Sinkhorn(causal=True), "identity"),
        (lambda: tkf.Hardmax(rule="none"), "rule must be"),
        (lambda: tkf.MultiHead([]), "non-empty list"),
        (lambda: tkf.MultiHead(tkf.Softmax()), "heads must be a list of attention heads, got Softmax"),
        (lambda: tkf.MultiHead([tkf.Softmax()], 0.5), "outputs must be a list"),
        (lambda: tkf.Transformer(tkf.Softmax(), breakpoints=1.0), "breakpoints must be a list of times, got float"),
        (lambda: tkf.Transformer(tkf.Softmax(), breakpoints=["a"]), "each of breakpoints must be a finite number"),
        (lambda: tkf.layers(3, START, 2), "model must be a Transformer, a list of them, .* got int"),
        (lambda: tkf.layers(tkf.Softmax(), START, 2), "model must be a Transformer, a list of them, .* got Softmax"),
        (lambda: tkf.layers(lambda index: index, START, 2), "model must be a Transformer, got int"),
        (lambda: tkf.MixLN(0.0), "tau must be"),
        (lambda: tkf.MLP(np.ones((2, 3)), np.ones((2, 3))), "W1 and W2 must have shapes"),
        (lambda: tkf.Transformer("softmax"), "attention must be"),
        (lambda: tkf.Transformer(tkf.Softmax(), "post"), "norm must be"),
        (lambda: tkf.layers(tkf.Transformer(tkf.Softmax()), START), "depth must be given"),
        (lambda: tkf.layers(tkf.Transformer(tkf.Softmax(), tkf.Rescaled()), START, 1), "run layers with NoNorm"),
    ],
)
def test_models_that_make_no_sense(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_large_matrices_run_in_the_unit_that_the_error_names():
    start = tkf.uniform_sphere(3, 2, seed=0)
    given = tkf.simulate(
        tkf.Transformer(tkf.Unnormalized(A=800 * np.eye(2), log_unit=800.0), tkf.PostLN()), start, 0.1, save_at=2
    )
    plain = tkf.simulate(tkf.Transformer(tkf.Unnormalized(800.0), tkf.PostLN()), start, 0.1, save_at=2)
    np.testing.assert_allclose(given.final.x, plain.final.x, atol=1e-9)
    long = tkf.Tokens(100 * np.asarray(start.x))  # Pre-LN reads directions: scores of 1, not of 10,000
    check(long, tkf.Transformer(tkf.Unnormalized(A=np.eye(2)), tkf.PreLN()))


def test_an_ensemble_takes_methods_by_name_only():
    with pytest.raises(ValueError, match="method must be the name of a method here"):
        tkf.simulate_many(SA, [START, START], 1.0, method=Layers(step=0.5))
