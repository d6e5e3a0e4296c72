"""Distances between Gaussians, densities on the circle and zonal densities, against closed forms and linear programs."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import tokenfield as tkf
from tokenfield.observables.transport import _distances, _linear_program


def test_gaussians_against_the_closed_form():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    a, b = np.array([2.0, 0.5, 0.0]), np.array([1.0, 3.0, 0.2])
    mu, nu = tkf.Gaussian([1.0, 0.0, 2.0], turn * a @ turn.T), tkf.Gaussian([0.0, 0.5, 2.0], turn * b @ turn.T)
    exact = math.sqrt(1.25 + ((np.sqrt(a) - np.sqrt(b)) ** 2).sum())
    assert tkf.wasserstein(mu, nu) == pytest.approx(exact, rel=1e-12)
    assert tkf.wasserstein(mu, mu) < 1e-14


def test_gaussians_that_do_not_commute():
    """`W_2² = |m|² + tr(S + T - 2 (S^{1/2} T S^{1/2})^{1/2})`."""
    rng = np.random.default_rng(1)
    S, T = (factor @ factor.T for factor in rng.standard_normal((2, 3, 3)))
    values, axes = np.linalg.eigh(S)
    half = axes * np.sqrt(values) @ axes.T
    cross = np.sqrt(np.linalg.eigvalsh(half @ T @ half)).sum()
    exact = math.sqrt(np.trace(S) + np.trace(T) - 2 * cross)
    assert tkf.wasserstein(tkf.Gaussian(None, S), tkf.Gaussian(None, T)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_tokens_on_the_circle_against_a_linear_program(p):
    rng = np.random.default_rng(2)
    mu, nu = (tkf.Tokens(tkf.circle_tokens(rng.uniform(0, 7, n)).x, rng.dirichlet(np.ones(n))) for n in (9, 13))
    cost = _distances(np.asarray(mu.x), np.asarray(nu.x), "geodesic", tkf.Sphere()) ** p
    exact = _linear_program(cost, np.asarray(mu.weights), np.asarray(nu.weights)) ** (1 / p)
    assert tkf.wasserstein(mu, nu, p, "geodesic") == pytest.approx(exact, rel=1e-8)
    assert tkf.wasserstein(nu, mu, p, "geodesic") == pytest.approx(exact, rel=1e-8)


def test_even_tokens_and_the_uniform_density():
    """Each token takes the arc around it: an offset uniform in ±pi/n."""
    n, uniform = 12, tkf.CircleDensity.uniform(8)
    tokens = tkf.circle_tokens(0.1 + 2 * np.pi * np.arange(n) / n)
    assert tkf.wasserstein(tokens, uniform, 1) == pytest.approx(np.pi / (2 * n), rel=1e-8)
    assert tkf.wasserstein(uniform, tokens, 2) == pytest.approx(np.pi / (n * math.sqrt(3)), rel=1e-8)


@pytest.mark.parametrize("k", [1, 3])
def test_a_small_wave_on_the_circle(k):
    """To first order `W_2` is the norm of `epsilon cos(k a)` in the dual of H^1: `epsilon/(k sqrt 2)`."""
    wave = tkf.CircleDensity.from_function(lambda a: 1 + 1e-4 * np.cos(k * a + 0.7), 8)
    assert tkf.wasserstein(wave, tkf.CircleDensity.uniform(8)) == pytest.approx(1e-4 / (k * math.sqrt(2)), rel=1e-6)


@pytest.mark.slow
def test_turned_densities_and_the_cut():
    law = lambda a: np.exp(25 * np.cos(a))  # noqa: E731
    one, two = (tkf.CircleDensity.from_function(lambda a, s=s: law(a - s), 80) for s in (3.0, 3.5))
    assert tkf.wasserstein(one, two) == pytest.approx(0.5, rel=1e-9)  # narrow: all turn by the same angle
    across = tkf.CircleDensity.from_function(lambda a: law(a + 0.2), 80)  # on both sides of angle 0
    assert tkf.wasserstein(across, tkf.CircleDensity.from_function(law, 80)) == pytest.approx(0.2, rel=1e-8)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_zonal_densities_against_quantiles_in_closed_form(p):
    """d = 3: t is uniform on [-1, 1]; with density 1 + c t its law is a parabola."""
    c = 0.8
    tilted = tkf.ZonalDensity.from_function(lambda t: 1 + c * t, 8, 3)
    height = lambda u: (-1 + math.sqrt(1 + c * (c - 2 + 4 * u))) / c  # noqa: E731
    gap = lambda u: abs(math.acos(height(u)) - math.acos(2 * u - 1)) ** p  # noqa: E731
    exact = quad(gap, 0, 1, epsabs=1e-13, limit=500)[0] ** (1 / p)
    assert tkf.wasserstein(tilted, tkf.ZonalDensity.uniform(8, 3), p) == pytest.approx(exact, rel=1e-8)


def test_zonal_on_the_circle_is_the_circle():
    law, other = (lambda t: np.exp(2 * t)), (lambda t: np.exp(-t + t**2))
    flat = [tkf.ZonalDensity.from_function(f, 48, 2) for f in (law, other)]
    round_ = [tkf.CircleDensity.from_function(lambda a, f=f: f(np.sin(a)), 48) for f in (law, other)]
    assert tkf.wasserstein(*flat) == pytest.approx(tkf.wasserstein(*round_), rel=1e-7)


def test_many_tokens_approach_their_density():
    density = tkf.CircleDensity.from_function(lambda a: np.exp(np.cos(a) + 0.5 * np.sin(2 * a)), 32)
    n = 4000
    spread = tkf.circle_tokens(density.angles((np.arange(n) + 0.5) / n))
    assert tkf.wasserstein(spread, density) < 10 / n
    assert tkf.wasserstein(density.sample(n, seed=0), density) < 10 / math.sqrt(n)


@pytest.mark.parametrize(
    ("mu", "nu", "options", "message"),
    [
        (tkf.CircleDensity.uniform(8), tkf.uniform_sphere(4, 3, seed=0), {}, "same space"),
        (tkf.SphereDensity.uniform(8), tkf.SphereDensity.uniform(8), {}, "sample both to tokens"),
        (tkf.Gaussian(None, np.eye(2)), tkf.uniform_sphere(4, 2, seed=0), {}, "Gaussian and Tokens"),
        (tkf.Gaussian(None, np.eye(2)), tkf.Gaussian(None, np.eye(2)), {"p": 1}, "p = 1 and metric euclidean"),
        (tkf.CircleDensity.uniform(8), tkf.CircleDensity.uniform(8), {"metric": "euclidean"}, "not supported"),
    ],
)
def test_what_is_not_known_says_so(mu, nu, options, message):
    with pytest.raises(ValueError, match=message):
        tkf.wasserstein(mu, nu, **options)


def test_what_is_no_measure_is_named():
    density = tkf.CircleDensity.uniform(4)
    for other in (None, density.harmonics):  # which has a dimension too
        with pytest.raises(TypeError, match="nu must be a state such as Tokens"):
            tkf.wasserstein(density, other)


@pytest.mark.parametrize("seed", range(4))
def test_odd_powers_of_densities_have_kinks(seed):
    """`|gap|^p` has kinks for p = 1, 1.5, 3: against sums over many more angles than the kinks can disturb."""
    rng = np.random.default_rng(seed)
    p = (1.0, 1.5, 3.0)[seed % 3]
    a, b = rng.uniform(-0.3, 0.3, (2, 2, 2))
    k = np.arange(1, 3)[:, None]
    f = lambda i: lambda t: 1 + a[i] @ np.cos(k * t) + b[i] @ np.sin(k * t)  # noqa: E731
    knots = np.linspace(0, 2 * np.pi, 60_001)
    mass = [
        (knots + (a[i] @ (np.sin(k * knots) / k)) + (b[i] @ ((1 - np.cos(k * knots)) / k))) / (2 * np.pi)
        for i in (0, 1)
    ]

    def cost(shift):
        v = mass[0] - shift
        gap = knots - np.interp(v - np.floor(v), mass[1], knots) - 2 * np.pi * np.floor(v)
        return (f(0)(knots) * np.abs(gap) ** p)[:-1].mean()

    around = min(np.linspace(-0.5, 0.5, 51), key=cost)
    least = minimize_scalar(cost, bounds=(around - 0.03, around + 0.03), method="bounded", options={"xatol": 1e-12}).fun
    states = [tkf.CircleDensity.from_function(f(i), 6) for i in (0, 1)]
    assert tkf.wasserstein(*states, p=p) == pytest.approx(least ** (1 / p), rel=1e-7)

    a, b = a / 2, b / 2
    g = lambda i: lambda t: 1 + a[i, 0] * t + b[i, 0] * (3 * t * t - 1) + a[i, 1] * (5 * t**3 - 3 * t)  # noqa: E731
    s = np.linspace(-1, 1, 400_001)
    integral = lambda i: (  # noqa: E731
        (s + 1) + a[i, 0] * (s * s - 1) / 2 + b[i, 0] * (s**3 - s) + a[i, 1] * (5 * s**4 / 4 - 3 * s * s / 2 + 0.25)
    )
    u = (np.arange(400_000) + 0.5) / 400_000
    gap = np.arccos(np.interp(u, integral(0) / 2, s)) - np.arccos(np.interp(u, integral(1) / 2, s))
    states = [tkf.ZonalDensity.from_function(g(i), 6, 3) for i in (0, 1)]
    assert tkf.wasserstein(*states, p=p) == pytest.approx((np.abs(gap) ** p).mean() ** (1 / p), rel=1e-6)
