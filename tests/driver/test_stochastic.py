"""Tokens with noise: exact decays, weak orders by quadrature, stationary laws, seeds."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from noisy import STILL, on_sphere, within
from scipy.special import i0e, i1, roots_genlaguerre
from scipy.stats import kstest, vonmises

import tokenfield as tkf
from tokenfield.driver import single
from tokenfield.flows import segments
from tokenfield.noise.base import AbstractNoise
from tokenfield.solver.langevin import SCHEMES, default_dt


class Given(AbstractNoise):
    """A noise whose keys are the normal numbers themselves, so that a test can integrate over them."""

    noise: AbstractNoise
    kappa: jnp.ndarray
    space = tkf.Sphere

    def __init__(self, noise):
        self.noise, self.kappa = noise, noise.kappa

    def draws(self, n, d):
        return self.noise.draws(n, d)

    def displacement(self, xi, x, h, space):
        return self.noise.displacement(xi, x, h, space)

    def kick(self, key, x, h, space):
        return self.noise.displacement(key, x, h, space)

    def rate(self, x, space):
        return self.noise.rate(x, space)

    def check(self, d):
        self.noise.check(d)


class AlongTangent(Given):
    """Keys are one number for each token on the circle: the push along the tangent there."""

    def kick(self, key, x, h, space):
        return self.noise.displacement(key[:, None] * jnp.stack([-x[:, 1], x[:, 0]], 1), x, h, space)


def step(method, model, state, h, xi):
    flow = segments(state, model)[0].flow
    t, h = jnp.zeros(()), jnp.asarray(h)
    return np.asarray(flow.unpack(SCHEMES[method].step(flow, t, t + h, h, flow.pack(state), xi)).x)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 5])
def test_brownian_motion_forgets_at_the_exact_rate(d):
    kappa, start = 2.0, tkf.uniform_sphere(64, d, seed=0)
    runs = tkf.simulate_many(
        on_sphere(tkf.SphereNoise(kappa)), start, 1.0, seeds=np.arange(100), save_at=[0, 0.24, 1], dt=0.02
    )
    x = runs.dataset["x"].values
    assert np.abs(np.linalg.norm(x, axis=-1) - 1).max() < 1e-15
    for k, t in ((1, 0.24), (2, 1.0)):
        assert within((x[:, k] * x[:, 0]).sum(-1).ravel(), np.exp(-(d - 1) * t / kappa))
    second = (d * (x[:, 2] * x[:, 0]).sum(-1) ** 2 - 1) / (d - 1)  # the harmonic of degree 2
    assert within(second.ravel(), np.exp(-2 * d / kappa))


def test_on_a_larger_sphere_the_same_noise_turns_more_slowly():
    noise, theta = tkf.SphereNoise(1.0), tkf.uniform_sphere(5, 3, seed=0).x
    model = tkf.Transformer(STILL, norm=tkf.PostLN(gain=2.0), noise=Given(noise))
    xi, R = jnp.asarray(np.random.default_rng(0).standard_normal((1, 5, 3))), 2 * np.sqrt(3)
    moved = step("euler", model, tkf.Tokens(R * theta), 0.3, xi)
    turned = theta + noise.displacement(xi[0], theta, jnp.asarray(0.3 / R**2), tkf.Sphere())
    assert np.abs(moved - R * turned).max() < 1e-14


def decay(noise, d, degree, h):
    """`E P_l(<x, X_h>)` over one kick, by quadrature over the length of the push (its direction does not matter)."""
    nodes, weights = roots_genlaguerre(60, (d - 3) / 2)
    x, xi = np.zeros((60, d)), np.zeros((60, d))
    x[:, 0], xi[:, 1], xi[:, 0] = 1, np.sqrt(2 * nodes), 7.0  # the part along x must not matter either
    c = 1 + np.asarray(noise.displacement(jnp.asarray(xi), jnp.asarray(x), jnp.asarray(h), tkf.Sphere()))[:, 0]
    value = c if degree == 1 else (d * c**2 - 1) / (d - 1)
    return weights @ value / weights.sum()


@pytest.mark.parametrize("kind", [tkf.SphereNoise, tkf.CommonNoise])
@pytest.mark.parametrize("degree", [1, 2])
def test_one_kick_is_exact_on_the_circle_and_of_third_order_beyond(kind, degree):
    kappa = 1.5
    for d in (2, 3, 5, 16):
        rate = degree * (degree + d - 2) / kappa
        steps = 0.05 / rate / 2.0 ** np.arange(4)
        exact = np.exp(-rate * steps)
        errors = np.abs([decay(kind(kappa), d, degree, h) for h in steps] - exact)
        if d == 2:
            assert errors.max() < 1e-14
        else:
            slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
            assert 2.9 < slope < 3.1


def semigroup_error(method, h, kappa=2.0, t=1.0, points=24, order=10):
    """Error of `E cos θ(t)` for `dθ = -1.5 sin θ dt + sqrt(2/kappa) dW`, with no sampling.

    One step is a matrix on trigonometric polynomials: its expectation is taken by Gauss–Hermite quadrature.
    """
    field = tkf.MLP(np.zeros((1, 2)), np.zeros((2, 1)), b2=[1.5, 0.0])
    z, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    theta = 2 * np.pi * np.arange(points) / points
    kicks = SCHEMES[method].kicks
    grids = np.meshgrid(theta, *[z] * kicks, indexing="ij")
    weight = np.prod(np.meshgrid(*[w] * kicks, indexing="ij"), axis=0).ravel()
    angle = grids[0].ravel()
    start = tkf.circle_tokens(angle)
    xi = [jnp.asarray(g.ravel()) for g in grids[1:]]
    x = step(method, on_sphere(AlongTangent(tkf.SphereNoise(kappa)), mlp=field), start, h, xi)
    after = np.arctan2(x[:, 1], x[:, 0]).reshape(points, -1)
    waves = np.arange(-points // 2 + 1, points // 2)
    values = np.exp(1j * after[..., None] * waves).transpose(0, 2, 1) @ weight  # E e^{ikθ_h} from each start
    step_matrix = np.linalg.lstsq(np.exp(1j * np.outer(theta, waves)), values, rcond=None)[0]
    L = np.diag(-(waves**2) / kappa).astype(complex)  # on coefficients: e^{ikθ} -> ikb(θ) e^{ikθ} - k²/kappa e^{ikθ}
    for i, k in enumerate(waves):  # b = -1.5 (e^{iθ} - e^{-iθ})/2i
        for shift, sign in ((1, -1.0), (-1, 1.0)):
            if 0 <= i + shift < len(waves):
                L[i + shift, i] += 1j * k * sign * 1.5 / 2j
    from scipy.linalg import expm

    f = ((waves == 1) | (waves == -1)) / 2.0
    at = np.exp(1j * waves * 2.0)
    many = np.linalg.matrix_power(step_matrix, round(t / h))
    return abs(at @ (many @ f) - at @ (expm(t * L) @ f))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("heun", 2)])
def test_weak_order_with_drift(method, order):
    steps = np.array([0.05, 0.025, 0.0125])
    errors = np.array([semigroup_error(method, h) for h in steps])
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.06
    assert errors[-1] < {"euler": 5e-3, "heun": 7e-5}[method]


@pytest.mark.slow
def test_weak_noise_gives_the_flow_to_the_order_of_the_scheme():
    V = lambda t: jnp.where(t < 0.5, 1.0, -2.0) * jnp.cos(t)  # noqa: E731
    start = tkf.uniform_sphere(6, 3, seed=4)
    parts = {"norm": tkf.PostLN(), "breakpoints": [0.5]}
    attention = tkf.Softmax(beta=2.0, V=V)
    exact = tkf.simulate(tkf.Transformer(attention, **parts), start, 1.3, save_at=2, rtol=1e-11, atol=1e-12).final.x
    model = tkf.Transformer(attention, noise=tkf.SphereNoise(1e24), **parts)
    run = lambda dt: tkf.simulate(model, start, 1.3, save_at=2, dt=dt, seed=0).final.x  # noqa: E731
    errors = [float(jnp.abs(run(dt) - exact).max()) for dt in (0.02, 0.005)]
    assert np.log(errors[0] / errors[1]) / np.log(4) == pytest.approx(2, abs=0.05)


@pytest.mark.slow
def test_noise_in_space_against_the_gaussian_flow():
    A, mean, cov, kappa = np.array([[0.5, 0.2], [-0.3, 0.4]]), [0.5, 0.0], np.array([[0.5, 0.1], [0.1, 0.3]]), 2.0
    model = tkf.Transformer(tkf.Softmax(A=A, V=-1.0), noise=tkf.EuclideanNoise(kappa))
    exact = tkf.simulate(model, tkf.Gaussian(mean, cov), 0.8, save_at=2).final
    starts = [tkf.gaussian_tokens(300, seed=k, mean=mean, cov=cov) for k in range(24)]
    x = tkf.simulate_many(model, starts, 0.8, seeds=range(24), save_at=2, dt=0.05).dataset["x"].values[:, -1]
    covs = np.stack([np.cov(each.T) for each in x])
    noiseless = tkf.simulate(tkf.Transformer(tkf.Softmax(A=A, V=-1.0)), tkf.Gaussian(mean, cov), 0.8, save_at=2).final
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert within(covs[:, i, j], float(exact.cov[i, j]))
    assert not within(covs[:, 0, 0], float(noiseless.cov[0, 0]), 20)
    for i in range(2):
        assert within(x.mean(1)[:, i], float(exact.mean[i]))


@pytest.mark.parametrize("noise", [tkf.SphereNoise(2.0), tkf.CommonNoise(2.0)])
def test_turning_tokens_and_pushes_turns_the_step(noise):
    rng = np.random.default_rng(0)
    turn = jnp.asarray(np.linalg.qr(rng.standard_normal((4, 4)))[0])
    start, model = tkf.uniform_sphere(9, 4, seed=1), on_sphere(Given(noise), tkf.Softmax(beta=3.0))
    xi = jnp.asarray(rng.standard_normal((2, *noise.draws(9, 4))))
    plain = step("heun", model, start, 0.1, xi)
    turned = step("heun", model, tkf.Tokens(start.x @ turn), 0.1, xi @ turn)
    assert np.abs(plain @ turn - turned).max() < 1e-14
    assert np.abs(plain - start.x).max() > 0.1


def finite_gibbs(kappa, n):
    """`E |mean|²` of n tokens on the circle with density `∝ exp(kappa n |mean|²/2)`, exactly.

    A Gaussian integral over u makes tokens independent: the weight of u is `e^{-n u²/(2 kappa)} I_0(u)^n`.
    """
    u = np.linspace(0, 6 * kappa, 200_001)
    log_weight = n * (-(u**2) / (2 * kappa) + np.log(i0e(u)) + u)
    weight = u * np.exp(log_weight - log_weight.max())
    return (u**2 @ weight) / weight.sum() / kappa**2 - 2 / (n * kappa)


@pytest.mark.slow
def test_noisy_kuramoto_has_the_gibbs_law_of_finitely_many_tokens():
    kappa, n = 3.0, 12
    assert finite_gibbs(kappa, 10**6) == pytest.approx(0.72415872**2, abs=1e-5)
    model = on_sphere(tkf.SphereNoise(kappa), tkf.Unnormalized(beta=0.0))
    start = tkf.uniform_sphere(n, 2, seed=0)
    runs = tkf.simulate_many(model, start, 14.0, seeds=range(500), save_at=[10.0, 12.0, 14.0], dt=0.1)
    order = (runs.dataset["x"].values.mean(2) ** 2).sum(-1).mean(1)
    assert within(order, finite_gibbs(kappa, n))
    assert order.std() / np.sqrt(500) < 0.01


@pytest.mark.slow
def test_many_noisy_tokens_have_the_stationary_law_of_the_mean_field():
    from scipy.optimize import brentq
    from scipy.special import i0

    kappa = 3.0
    r = brentq(lambda r: r - i1(kappa * r) / i0(kappa * r), 0.1, 1.0)
    assert r == pytest.approx(0.72415872, abs=1e-8)
    model = on_sphere(tkf.SphereNoise(kappa), tkf.Unnormalized(beta=0.0))
    run = tkf.simulate(model, tkf.hemisphere(4000, 2, seed=0), 20.0, seed=2, save_at=[20.0], dt=0.1)
    x = np.asarray(run.final.x)
    mean = x.mean(0)
    angles = np.arctan2(x[:, 1], x[:, 0]) - np.arctan2(mean[1], mean[0])
    angles = (angles + np.pi) % (2 * np.pi) - np.pi
    assert kstest(angles, vonmises(kappa * r).cdf).pvalue > 0.05
    assert kstest(angles, vonmises(0.8 * kappa * r).cdf).pvalue < 0.01


USA = on_sphere(tkf.SphereNoise(4.0), tkf.Unnormalized(beta=1.0))
START = tkf.uniform_sphere(32, 3, seed=0)


def test_noise_counts_in_the_time_of_the_run():
    """At beta = 40 time runs in units of e^{-40}: in plain time the same noise has kappa e^{-40}."""
    unit, start = np.exp(-40.0), tkf.uniform_sphere(8, 3, seed=0)
    scaled = on_sphere(tkf.SphereNoise(5.0), tkf.Unnormalized(40.0))
    plain = on_sphere(tkf.SphereNoise(5.0 * unit), tkf.Unnormalized(40.0, log_unit=0.0))
    one = tkf.simulate(scaled, start, 1.0, dt=0.01, seed=2, save_at=3)
    two = tkf.simulate(plain, start, unit, dt=0.01 * unit, seed=2, save_at=3)
    assert one.log_time_unit == -40.0
    np.testing.assert_allclose(one.dataset["x"], two.dataset["x"], atol=1e-9)
    assert np.abs(one.final.x - start.x).max() > 0.3


def test_seeds_and_pieces(monkeypatch):
    run = lambda seed: tkf.simulate(USA, START, 1.0, seed=seed, dt=0.01, save_at=[0.0, 0.333, 0.5])  # noqa: E731
    one, again, other = run(1), run(1), run(2)
    assert np.array_equal(one.dataset["x"], again.dataset["x"])
    assert np.abs(one.dataset["x"] - other.dataset["x"])[1:].max() > 0.1
    assert one.times.tolist() == [0.0, 0.333, 0.5, 1.0]
    monkeypatch.setattr(single, "CHUNK_SECONDS", 0.0)
    assert np.array_equal(one.dataset["x"], run(1).dataset["x"])
    assert (one.config["seed"], one.config["kappa"], one.config["dt"], one.config["method"]) == (1, 4.0, 0.01, "heun")
    assert (one.dataset.attrs["seed"], one.dataset.attrs["dt"], one.dataset.attrs["steps"]) == (1, 0.01, 34 + 17 + 50)
    assert np.abs(one.states[0].x - START.x).max() < 1e-15


def test_members_are_the_single_runs_with_their_seeds():
    starts = [tkf.uniform_sphere(32, 3, seed=k) for k in range(3)]
    models = [on_sphere(tkf.SphereNoise(kappa), tkf.Unnormalized(beta=1.0)) for kappa in (4.0, 40.0, 0.4)]
    seeds, options = np.array([5, 0, 7]), {"save_at": [0.2, 0.5], "dt": 0.01}
    runs = tkf.simulate_many(models, starts, 0.7, seeds=seeds, **options)
    for k, (model, start, seed) in enumerate(zip(models, starts, seeds, strict=True)):
        single = tkf.simulate(model, start, 0.7, seed=int(seed), **options)
        assert runs[k].times.tolist() == single.times.tolist() == [0.2, 0.5, 0.7]
        assert np.abs(runs[k].dataset["x"].values - single.dataset["x"].values).max() < 1e-12
        assert int(runs[k].dataset["seed"]) == seed
    assert runs.dataset.attrs["dt"] == 0.01
    assert json.loads(runs.dataset.attrs["config"])["seeds"] == [5, 0, 7]


@pytest.mark.parametrize("norm", [tkf.PostLN(), tkf.NoNorm()])
def test_members_take_the_steps_that_they_take_alone(norm):
    """By default the step follows from beta and kappa, and without a norm also from the tokens."""
    noise = tkf.SphereNoise if isinstance(norm, tkf.PostLN) else tkf.EuclideanNoise
    betas, kappas, seeds = (1.0, 6.0, 2.0), (4.0, 0.1, 50.0), [5, 0, 7]
    models = [
        tkf.Transformer(tkf.Softmax(beta=b), norm, noise=noise(kappa)) for b, kappa in zip(betas, kappas, strict=True)
    ]
    starts = [tkf.uniform_sphere(8, 3, seed=k) for k in range(3)]
    runs = tkf.simulate_many(models, starts, 1.0, seeds=seeds, save_at=3)
    taken = []
    for run, model, start, seed in zip(runs, models, starts, seeds, strict=True):
        single = tkf.simulate(model, start, 1.0, seed=seed, save_at=3)
        np.testing.assert_allclose(run.dataset["x"], single.dataset["x"], rtol=1e-11, atol=1e-11)
        for name in ("dt", "kappa"):
            assert run.config[name] == run.dataset.attrs[name] == single.config[name]
        taken.append(single.dataset.attrs["steps"])
    assert len(set(taken)) > 1
    assert runs.dataset.attrs["steps"] == sum(taken)


def test_members_whose_series_have_different_degrees_run_one_by_one():
    models = [on_sphere(tkf.SphereNoise(4.0), tkf.Softmax(beta=beta)) for beta in (0.5, 4.0)]
    start = tkf.uniform_sphere(400, 2, seed=0)
    runs = tkf.simulate_many(models, start, 0.1, seeds=[1, 2], save_at=2)
    for run, model, seed in zip(runs, models, (1, 2), strict=True):
        single = tkf.simulate(model, start, 0.1, seed=seed, save_at=2)
        assert run.config["reductions"] == single.config["reductions"] == ["series"]
        assert run.config["dt"] == single.config["dt"]
        np.testing.assert_array_equal(run.dataset["x"], single.dataset["x"])


def test_the_default_step_follows_the_noise_the_drift_and_the_time():
    dt = lambda model, t1: default_dt(segments(START, model)[0].flow, START, t1)  # noqa: E731
    assert dt(on_sphere(tkf.SphereNoise(0.5)), 2.0) == pytest.approx(0.05 * 0.5 / 2)
    assert dt(USA, 2.0) == pytest.approx(0.05 / (2 * np.e))
    assert dt(on_sphere(tkf.SphereNoise(4.0), tkf.Softmax(beta=9.0)), 2.0) == pytest.approx(0.05 / 10)
    assert dt(on_sphere(tkf.SphereNoise(50.0)), 2.0) == pytest.approx(0.02)
    assert tkf.simulate(USA, START, 0.5, seed=0).config["dt"] == 0.005


SPACE = tkf.Transformer(tkf.Unnormalized(beta=1.0), noise=tkf.EuclideanNoise(1.0))


def test_blow_up_is_an_error():
    with pytest.raises(tkf.SolverError, match="no longer finite after t = "):
        tkf.simulate(SPACE, tkf.gaussian_tokens(8, 2, seed=0), 5.0, seed=0, dt=0.01)
    with pytest.raises(tkf.SolverError, match="more than max_steps = 10"):
        tkf.simulate(USA, START, 1.0, seed=0, dt=0.01, max_steps=10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "seed must be given: SphereNoise makes this model random"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"seed": 0, "dt": 0.0}, "dt must be finite and > 0, got 0.0"),
        ({"seed": 0, "dt": -1.0}, "dt must be"),
        ({"seed": 0, "method": "tsit5"}, "method must be one of heun, euler for a model with noise, got 'tsit5'"),
        ({"seed": 0, "stop_when": tkf.one_cluster()}, "stop_when is not supported for a model with noise"),
        ({"seed": 0, "rtol": 1e-3}, "rtol is not supported"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        tkf.simulate(USA, START, 1.0, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tkf.SphereNoise(0.0), "kappa must be finite and > 0"),
        (lambda: tkf.CommonNoise(-1.0), "kappa must be"),
        (lambda: tkf.AnisotropicNoise(1.0, [1.0, 2.0]), "S must be a matrix"),
        (lambda: tkf.MultiplicativeNoise(1.0, 2.0), "g must be a function"),
        (lambda: tkf.MultiplicativeNoise(1.0, lambda x: 1 + x[0], "backward"), "sense must be one of ito"),
        (lambda: run(on_sphere(tkf.AnisotropicNoise(1.0, np.eye(2)))), r"S must have shape \(3, k\)"),
        (lambda: run(on_sphere(tkf.MultiplicativeNoise(1.0, lambda x: 2 * x))), "g must give a number"),
        (lambda: run(tkf.Transformer(STILL, tkf.PreLN(), noise=tkf.SphereNoise(1.0))), "needs norm=PostLN"),
        (lambda: run(tkf.Transformer(STILL, noise=tkf.SphereNoise(1.0))), "needs norm=PostLN"),
        (lambda: run(on_sphere(tkf.EuclideanNoise(1.0))), "under PostLN use SphereNoise"),
        (lambda: tkf.layers(USA, START, 3), "layers has no noise"),
        (lambda: tkf.simulate_many(USA, START, 1.0), "states must be a list"),
        (lambda: tkf.simulate_many(USA, [START], 1.0), "seeds must be given"),
        (lambda: tkf.simulate_many(USA, [START] * 2, 1.0, seeds=[1]), "one seed for each of the 2 members"),
        (lambda: tkf.simulate_many(QUIET, [START], 1.0, seeds=[1]), "seeds is for models with noise"),
        (lambda: tkf.simulate_many(QUIET, [START], 1.0, dt=0.1), "dt is for models with noise"),
        (lambda: tkf.simulate(QUIET, START, 1.0, seed=1), "nothing in this model is random"),
        (lambda: tkf.simulate(SPACE, tkf.Gaussian(None, np.eye(2)), 1.0, seed=1), "nothing in this model is random"),
    ],
)
def test_what_cannot_run_says_why(make, message):
    with pytest.raises(ValueError, match=message):
        make()


QUIET = tkf.Transformer(STILL, norm=tkf.PostLN())


def run(model):
    return tkf.simulate(model, START, 1.0, seed=0)
