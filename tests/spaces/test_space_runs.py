"""Tokens that move in each space, against plain integrations, closed forms and symmetries."""

import re
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import tokenfield as tkf
from tokenfield.lipschitz import lyapunov
from tokenfield.spaces import AbstractSpace

SPACES = {
    "euclidean": (tkf.Euclidean(), 3),
    "sphere": (tkf.Sphere(), 3),
    "torus": (tkf.Torus(), 4),
    "hyperbolic": (tkf.Hyperbolic(), 3),
}
TIGHT = {"rtol": 1e-10, "atol": 1e-12, "progress": False}
N, BETA, T = 5, 1.5, 1.0


def naive(name, x0, t1, weights, causal=False):
    """The tokens at time t1: softmax of `beta <x, y>`, means, and the projection written out token by token."""

    def velocity(t, flat):
        x, out = flat.reshape(x0.shape), np.zeros(x0.shape)
        for i in range(len(x)):
            seen = range(i + 1) if causal else range(len(x))
            a = np.array([weights[j] * np.exp(BETA * inner(name, x[i], x[j])) for j in seen])
            v = sum(share * x[j] for share, j in zip(a / a.sum(), seen, strict=True))
            match name:
                case "sphere":
                    v = v - (v @ x[i]) / (x[i] @ x[i]) * x[i]
                case "torus":
                    for k in range(0, len(v), 2):
                        part = x[i, k : k + 2]
                        v[k : k + 2] -= (v[k : k + 2] @ part) / (part @ part) * part
                case "hyperbolic":
                    v = v - inner(name, v, x[i]) / inner(name, x[i], x[i]) * x[i]
            out[i] = v
        return out.ravel()

    return solve_ivp(velocity, (0, t1), x0.ravel(), rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1].reshape(x0.shape)


def inner(name, x, y):
    return x @ y - (2 * x[0] * y[0] if name == "hyperbolic" else 0)


def start(name, n=N, seed=0):
    space, d = SPACES[name]
    tokens = tkf.tokens_in(space, n, d, seed=seed)
    weights = np.random.default_rng(seed).dirichlet(np.full(n, 5.0))
    return space, tkf.Tokens(tokens.x, weights, space=space)


@pytest.mark.grid
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_what_a_naive_integration_gives(name, causal):
    space, tokens = start(name)
    model = tkf.Transformer(tkf.Softmax(beta=BETA, causal=causal), norm=tkf.Projected(space))
    run = tkf.simulate(model, tokens, T, **TIGHT)
    exact = naive(name, np.asarray(tokens.x), T, np.asarray(tokens.weights), causal)
    np.testing.assert_allclose(run.final.x, exact, rtol=0, atol=1e-8)
    assert type(run.final.space) is type(space)


def test_a_start_that_is_known_inside_jit_is_checked():
    space, tokens = start("hyperbolic")
    end = lambda beta, x: tkf.solve(tkf.Transformer(tkf.Softmax(beta), space=space), tkf.Tokens(x), 0.5).final.x  # noqa: E731
    found = jax.jit(lambda beta: end(beta, tokens.x))(BETA)
    np.testing.assert_allclose(found, end(BETA, tokens.x), rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match="from the space"):
        jax.jit(lambda beta: end(beta, 2 * np.asarray(tokens.x)))(BETA)


def test_a_space_is_the_norm_that_keeps_tokens_there():
    assert isinstance(tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Sphere()).norm, tkf.PostLN)
    assert isinstance(tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Euclidean()).norm, tkf.NoNorm)
    assert isinstance(tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Torus()).norm, tkf.Projected)


@pytest.mark.parametrize(("name", "norm"), [("sphere", tkf.PostLN()), ("euclidean", tkf.NoNorm())])
def test_layers_of_a_projected_model_are_those_of_its_norm(name, norm):
    space, tokens = start(name)
    known, found = (
        tkf.layers(tkf.Transformer(tkf.Softmax(beta=BETA), norm=each), tokens, depth=3, step=0.4)
        for each in (norm, tkf.Projected(space))
    )
    np.testing.assert_allclose(found.dataset["x"], known.dataset["x"], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
def test_layers_tend_to_the_flow_at_first_order_and_stay_in_the_space(name):
    space, tokens = start(name)
    model = tkf.Transformer(tkf.Softmax(beta=BETA), space=space)
    exact = naive(name, np.asarray(tokens.x), 0.8, np.asarray(tokens.weights))
    runs = [tkf.layers(model, tokens, depth=depth, step=0.8 / depth) for depth in (16, 32)]
    errors = [np.abs(np.asarray(run.final.x) - exact).max() for run in runs]
    assert 1.7 < errors[0] / errors[1] < 2.3
    space.check_points(runs[0].final.x)
    assert type(runs[0].final.space) is type(space)


def test_beta_zero_on_the_torus_is_kuramoto_in_each_angle():
    space, tokens = start("torus", 6)
    model = tkf.Transformer(tkf.Softmax(beta=0.0), space=space)
    w = np.asarray(tokens.weights)

    def kuramoto(t, angles):
        return np.array([sum(w * np.sin(angles - angles[i])) for i in range(len(angles))])

    end = np.asarray(space.chart(tkf.simulate(model, tokens, 2.0, **TIGHT).final.x))
    for k, angles in enumerate(np.asarray(space.chart(tokens.x)).T):
        exact = solve_ivp(kuramoto, (0, 2.0), angles, rtol=1e-11, atol=1e-12).y[:, -1]
        np.testing.assert_allclose(np.exp(1j * end[:, k]), np.exp(1j * exact), rtol=0, atol=1e-8)


def test_two_tokens_of_hyperbolic_space_meet_as_the_quadrature_says():
    """`r' = -2 a sinh r`, with a the share of the other token: `a = 1/(1 + e^{beta (cosh r - 1)})`."""
    r0, r1 = 1.5, 0.4
    time = quad(lambda r: (1 + np.exp(BETA * (np.cosh(r) - 1))) / (2 * np.sinh(r)), r1, r0, epsabs=1e-13)[0]
    x = [[1.0, 0.0, 0.0], [np.cosh(r0), 0.6 * np.sinh(r0), 0.8 * np.sinh(r0)]]
    model = tkf.Transformer(tkf.Softmax(beta=BETA), space=tkf.Hyperbolic())
    run = tkf.simulate(model, tkf.Tokens(x, space=tkf.Hyperbolic()), time, **TIGHT)
    assert abs(tkf.mean_distance(run.final) - r1) < 1e-9


def boost(rapidity, angle):
    c, s = np.cosh(rapidity), np.sinh(rapidity)
    turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    return turn @ np.array([[c, s, 0], [s, c, 0], [0, 0, 1]])


def isometry(name):
    turn = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])  # noqa: E731
    if name == "torus":
        return np.block([[turn(0.7), np.zeros((2, 2))], [np.zeros((2, 2)), turn(-1.9)]])
    return boost(0.8, 0.5)


@pytest.mark.grid
@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
@pytest.mark.parametrize("kernel", [tkf.Softmax, tkf.Unnormalized, tkf.Sigmoid])
def test_isometries_of_the_space_commute_with_the_flow(name, kernel):
    space, tokens = start(name)
    L = isometry(name)
    moved = tkf.Tokens(np.asarray(tokens.x) @ L.T, tokens.weights, space=space)
    solve = jax.jit(lambda x: tkf.solve(model, x, 0.5, rtol=1e-10, atol=1e-12).final.x)
    model = tkf.Transformer(kernel(beta=0.5), space=space)
    np.testing.assert_allclose(solve(moved), solve(tokens) @ L.T, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
def test_gradients_are_difference_quotients_and_reverse_is_forward(name):
    space, tokens = start(name)

    def spread(beta):
        final = tkf.solve(tkf.Transformer(tkf.Softmax(beta=beta), space=space), tokens, T, rtol=1e-10, atol=1e-12).final
        return tkf.mean_distance(final)

    h = 1e-4
    quotient = (spread(BETA + h) - spread(BETA - h)) / (2 * h)
    reverse = jax.grad(spread)(BETA)
    assert abs(reverse - quotient) < 1e-7
    assert abs(reverse - jax.jvp(spread, (BETA,), (1.0,))[1]) < 1e-10


def within(values, exact, count=4.0):
    return abs(np.mean(values) - exact) < count * np.std(values) / len(values) ** 0.5


@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
def test_brownian_motion_has_its_exact_moments(name):
    """On the torus `E cos k(θ(t) - θ(0)) = e^{-k² t/kappa}`; in hyperbolic space of dimension m `E cosh r = e^{m t/kappa}` and
    `E cosh² r = 1/(m+1) + m/(m+1) e^{2(m+1) t/kappa}`."""
    space, d = SPACES[name]
    tokens, kappa, t = tkf.tokens_in(space, 20_000, d, seed=0), 4.0, 0.6
    nothing = tkf.Tokens(tokens.x[:1], space=space)
    model = tkf.Transformer(tkf.Linear(beta=0.0, V=0.0), space=space, noise=tkf.BrownianNoise(kappa), context=nothing)
    run = tkf.simulate(model, tokens, t, dt=0.05, save_at=[0, t], seed=1, progress=False)
    if name == "torus":
        turned = np.asarray(space.chart(run.final.x)) - np.asarray(space.chart(tokens.x))
        for k in (1, 2):
            assert within(np.cos(k * turned).ravel(), np.exp(-(k**2) * t / kappa))
        assert within(np.cos(turned[:, 0] + turned[:, 1]), np.exp(-2 * t / kappa))  # independent angles
    else:
        cosh, m = np.cosh(space.distance(tokens.x, run.final.x)), d - 1
        assert within(cosh, np.exp(m * t / kappa))
        assert within(cosh**2, 1 / (m + 1) + m / (m + 1) * np.exp(2 * (m + 1) * t / kappa))
        assert not within(cosh, np.exp(m * t / kappa * 1.1))


@pytest.mark.parametrize(("name", "noise"), [("sphere", tkf.SphereNoise), ("euclidean", tkf.EuclideanNoise)])
def test_brownian_noise_is_the_noise_of_the_space(name, noise):
    _, tokens = start(name)
    model = lambda noise: tkf.Transformer(tkf.Softmax(beta=1.0), space=SPACES[name][0], noise=noise)  # noqa: E731
    own, general = (
        tkf.simulate(model(each), tokens, 0.2, seed=3, progress=False).final.x
        for each in (noise(4.0), tkf.BrownianNoise(4.0))
    )
    np.testing.assert_array_equal(own, general)


@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
def test_clusters_and_the_stop_rule_use_distances_of_the_space(name):
    """Tokens gather to one cluster; the stop is where `clusters` counts one, before and after an isometry."""
    space, d = SPACES[name]
    x = np.asarray(space.exp(jnp.zeros((6, d)) + tkf.tokens_in(space, 1, d, seed=2).x, jnp.zeros((6, d))))
    v = 0.5 * space.tangent(x, np.random.default_rng(0).standard_normal(x.shape))
    tokens = tkf.Tokens(space.exp(x, v), space=space)
    run = tkf.simulate(
        tkf.Transformer(tkf.Softmax(beta=1.0), space=space), tokens, 50.0, stop_when=tkf.one_cluster(), progress=False
    )
    assert [event.kind for event in run.events] == ["one_cluster"]
    end = np.asarray(run.final.x)
    widest = max(float(np.sqrt(space.inner(a - b, a - b))) for a in end for b in end)
    assert abs(widest - 1e-3) < 1e-6
    for L in (np.eye(d), isometry(name)):
        assert tkf.clusters(tkf.Tokens(end @ L.T, space=space), tol=1.001e-3).count == 1
        assert len(tkf.clusters(tkf.Tokens(end @ L.T, space=space), tol=0.999e-3).sizes) > 1


@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
def test_wasserstein_distances_are_geodesic(name):
    space, d = SPACES[name]
    mu, nu = (tkf.tokens_in(space, 4, d, seed=seed) for seed in (0, 1))
    cost = np.array([[float(space.distance(a, b)) ** 2 for b in nu.x] for a in mu.x])
    best = min(np.mean([cost[i, p[i]] for i in range(4)]) for p in permutations(range(4)))
    assert abs(tkf.wasserstein(mu, nu) - best**0.5) < 1e-12
    with pytest.raises(ValueError, match="mu and nu must live in the same space"):
        tkf.wasserstein(mu, tkf.Tokens(nu.x, space=tkf.Sphere()))


def test_attention_matrices_use_the_inner_product_of_the_space():
    space, tokens = start("hyperbolic")
    model = tkf.Transformer(tkf.Softmax(beta=BETA), space=space)
    x, w = np.asarray(tokens.x), np.asarray(tokens.weights)
    scores = np.array([[inner("hyperbolic", a, b) for b in x] for a in x])
    exact = w * np.exp(BETA * scores)
    np.testing.assert_allclose(
        tkf.attention_matrix(tokens, model), exact / exact.sum(1, keepdims=True), rtol=0, atol=1e-14
    )
    for observable in (tkf.energy, tkf.normalized_energy):
        with pytest.raises(ValueError, match="not in Hyperbolic"):
            observable(tokens, model)


def test_cross_attention_in_hyperbolic_space_to_the_own_tokens_is_self_attention():
    space, tokens = start("hyperbolic")
    own = tkf.Transformer(tkf.Softmax(beta=BETA), space=space)
    cross = tkf.Transformer(tkf.Softmax(beta=BETA), space=space, context=tokens)
    step = lambda model: tkf.layers(model, tokens, depth=1, step=0.3).final.x  # noqa: E731
    np.testing.assert_allclose(step(cross), step(own), rtol=0, atol=1e-14)


def test_lyapunov_exponents_on_the_torus_are_those_of_one_cluster():
    """At one cluster with beta = 0 every angle obeys `δ_i' = mean(δ) - δ_i`: exponents 0 (each angle once) and -1."""
    tokens = tkf.Tokens(np.tile([1.0, 0.0, 0.0, 1.0], (3, 1)), space=tkf.Torus())
    found = lyapunov(tkf.Transformer(tkf.Softmax(beta=0.0), space=tkf.Torus()), tokens, t1=1.0)
    np.testing.assert_allclose(found.values, [0, 0, -1, -1, -1, -1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["torus", "hyperbolic"])
def test_saved_runs_know_their_space(name, tmp_path):
    space, tokens = start(name)
    model = tkf.Transformer(tkf.Softmax(beta=1.0), space=space)
    run = tkf.simulate(model, tokens, 0.5, save_at=3, progress=False)
    loaded = tkf.load(run.save(tmp_path / "run"))
    assert type(loaded.space) is type(loaded.final.space) is type(space)
    assert tkf.mean_distance(loaded.final) == tkf.mean_distance(run.final)
    assert tkf.mean_distance(run).dims == ("time",)


class Flat(AbstractSpace):
    """R^d once more, without Brownian motion."""

    kind = "flat"
    title = "flat space"

    def signs(self, d):
        return np.ones(d)

    def project(self, x):
        return x

    def tangent(self, x, v):
        return v

    def retract(self, x, v):
        return x + v

    exp = retract

    def log(self, x, y):
        return y - x

    def distance(self, x, y):
        return jnp.abs(x - y).sum(-1)

    def sample(self, xi):
        return xi

    def chart(self, x):
        return x

    def check(self, d):
        pass


def refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        call()
    assert "\n" not in str(error.value)


def test_what_does_not_fit_the_space_is_refused():
    torus, hyperbolic = start("torus")[1], start("hyperbolic")[1]
    on_torus = tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Torus())

    def run(model, state):
        seed = None if model.noise is None else 0
        return lambda: tkf.simulate(model, state, 1.0, seed=seed, progress=False)

    noisy = tkf.Transformer(tkf.Softmax(beta=1.0), space=Flat(), noise=tkf.BrownianNoise(4.0))
    refused(run(noisy, tkf.Tokens(np.eye(3))), "BrownianNoise needs a space with a Brownian motion, and Flat has none")
    wrong = tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Torus(), noise=tkf.SphereNoise(4.0))
    refused(run(wrong, torus), "SphereNoise moves tokens on the sphere and needs norm=PostLN(), got Projected")
    pre = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PreLN(), noise=tkf.BrownianNoise(4.0))
    refused(run(pre, tkf.uniform_sphere(4, 3)), "BrownianNoise needs tokens that stay in their space")
    refused(run(on_torus, hyperbolic), "Torus needs an even d")
    refused(
        run(on_torus, tkf.Tokens(torus.x, space=tkf.Sphere())),
        "the tokens live in Sphere, but the model moves tokens in Torus",
    )
    refused(run(on_torus, tkf.Tokens(torus.x.at[0].multiply(1.1))), "Torus: token 0 is at a distance of")
    refused(
        lambda: tkf.layers(on_torus, tkf.Tokens(torus.x.at[0].multiply(1.1)), depth=1),
        "Torus: token 0 is at a distance of",
    )
    by_distance = tkf.Transformer(tkf.L2(beta=1.0), space=tkf.Hyperbolic())
    refused(run(by_distance, hyperbolic), "attention: L2 compares tokens by distances of R^d")
    refused(
        lambda: lyapunov(tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Hyperbolic()), hyperbolic, 1.0),
        "tangent vectors of Hyperbolic",
    )
    for state in (tkf.Equiangular(0.0, n=4), tkf.Gaussian([0.0, 0.0], np.eye(2)), tkf.CircleDensity.uniform(8)):
        refused(run(on_torus, state), f"{type(state).__name__} has no closed equation under this model")
