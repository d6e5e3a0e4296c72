"""Layers with random weights: moments against other quadratures and sampling, curves against naive layers."""

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

import tokenfield as tkf
from tokenfield.theory.layer_curves import equiangular_layers
from tokenfield.theory.random_weight_noise import Spread
from tokenfield.theory.random_weights import random_attention, random_weight_layers, random_weight_tail
from tokenfield.theory.row_moments import softmax_moments

RULES = {
    "post": tkf.PostLN(),
    "pre": tkf.PreLN(),
    "mix": tkf.MixLN(3.0),
    "peri": tkf.PeriLN(),
    "ngpt": tkf.NGPT(0.7),
    "sqrt": tkf.SqrtScaling(),
}


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize(("rho", "variance"), [(0.4, 1.0), (-0.6, 2.5), (0.9, 9.0)])
def test_two_weights_by_direct_quadrature(rho, variance):
    """For n = 2 the first weight is a logistic function of one Gaussian of variance 2 sigma^2."""
    scale = np.sqrt(2 * variance)
    first = lambda a: 1 / (1 + np.exp(-scale * a))  # noqa: E731
    density = lambda a: np.exp(-a * a / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    both = lambda p, q: p * q + (1 - p) * (1 - q)  # noqa: E731
    own = quad(lambda a: density(a) * both(first(a), first(a)), -9, 9, epsabs=1e-13)[0]
    got = softmax_moments(rho, 2, variance)
    assert got.own == pytest.approx(own, rel=1e-10)
    slope = lambda p: 2 * p * (1 - p) * (6 * p * (1 - p) - 1)  # noqa: E731
    assert got.pull == pytest.approx(quad(lambda a: density(a) * slope(first(a)), -9, 9, epsabs=1e-13)[0], abs=1e-10)
    second = lambda a, b: first(rho * a + np.sqrt(1 - rho**2) * b)  # noqa: E731
    cross = dblquad(lambda b, a: density(a) * density(b) * both(first(a), second(a, b)), -9, 9, -9, 9)[0]
    assert got.cross == pytest.approx(cross, rel=1e-7)


def test_moments_that_are_known():
    for n, variance in ((5, 0.3), (64, 1.0), (1000, 4.0)):
        assert softmax_moments(0.0, n, variance).cross == pytest.approx(1 / n, rel=1e-11)
        assert softmax_moments(1.0, n, variance).cross == pytest.approx(
            softmax_moments(0.3, n, variance).own, rel=1e-11
        )
        equal = softmax_moments(0.5, n, 0.0)
        assert equal.own == pytest.approx(1 / n, rel=1e-11)
        assert equal.cross == pytest.approx(1 / n, rel=1e-11)
        assert equal.spread == pytest.approx(0, abs=1e-10)
    n, rho, variance = 1e9, 0.6, 0.8
    assert n * softmax_moments(rho, n, variance).own == pytest.approx(np.exp(variance), rel=1e-6)
    assert n * softmax_moments(rho, n, variance).cross == pytest.approx(np.exp(rho * variance), rel=1e-6)
    assert n * softmax_moments(-rho, n, variance).cross == pytest.approx(np.exp(-rho * variance), rel=1e-6)


@pytest.mark.parametrize(("rho", "n"), [(0.0, 32), (0.03, 32), (0.1, 48), (0.5, 32)])
def test_moments_and_the_cosine_of_outputs_by_sampling(rho, n):
    rng, samples = np.random.default_rng(5), 100_000
    shared = np.sqrt(rho) * rng.standard_normal((samples, n))
    rows = [softmax(np.sqrt(1 - rho) * (shared + np.sqrt(1 - rho) * rng.standard_normal((samples, n)))) for _ in "ab"]
    own = rho + (1 - rho) * sum((p * p).sum(axis=1) for p in rows) / 2
    cross = rho + (1 - rho) * (rows[0] * rows[1]).sum(axis=1)
    lengths = np.sqrt([rho + (1 - rho) * (p * p).sum(axis=1) for p in rows])
    got = random_attention(rho, n, beta=3.0, d=9, equiangular=True)
    assert got.own == pytest.approx(own.mean(), rel=5e-3)
    assert got.cross == pytest.approx(cross.mean(), rel=5e-3)
    assert got.cosine == pytest.approx((cross / lengths.prod(axis=0)).mean(), rel=3e-3)
    if rho < 0.05:  # the ratio of means is not the mean of ratios
        assert abs(got.cross / got.own / (cross / lengths.prod(axis=0)).mean() - 1) > 0.02


def test_random_tokens_are_not_exactly_equiangular():
    """Tokens near each other share scores: B has a term sigma^2/d that equal angles do not have."""
    rng, n, d, rho = np.random.default_rng(2), 64, 96, 0.05
    own, cross = [], []
    for _ in range(150):
        x = np.concatenate([np.full((n, 1), np.sqrt(rho)), np.sqrt(1 - rho) * unit(rng.standard_normal((n, d - 1)))], 1)
        Q, K = rng.standard_normal((2, d, d)) / np.sqrt(d)
        y = softmax(np.sqrt(d) * (x @ Q.T) @ (x @ K.T).T) @ x
        gram = y @ y.T
        own.append(np.trace(gram) / n)
        cross.append((gram.sum() - np.trace(gram)) / n / (n - 1))
    got = random_attention(rho, n, np.sqrt(d), d)
    assert got.own == pytest.approx(np.mean(own), rel=0.012)
    assert got.cross == pytest.approx(np.mean(cross), rel=0.012)
    assert random_attention(rho, n, np.sqrt(d), d, equiangular=True).own < 0.93 * np.mean(own)


def by_hand(name, n, beta, d, depth, rho, r, h, equiangular):
    """The recursion of FORMULAS §7, rule by rule."""
    rhos, radii = [rho], [r]
    for layer in range(depth):
        t = layer * h
        A = random_attention(rho, n, beta, d, equiangular)
        rule = name if name != "mix" else "post" if t < 3.0 else "pre"
        if rule == "post":
            rho = (rho + h**2 * A.cross) / (1 + h**2 * A.own)
        elif rule == "sqrt":
            rho = (rho + h**2 / (t + 1) * A.cross) / (1 + h**2 / (t + 1) * A.own)
        elif rule == "ngpt":
            rho = (rho + (0.7 * h) ** 2 * A.cosine) / (1 + (0.7 * h) ** 2)
        elif rule == "pre":
            rho, r = (r**2 * rho + h**2 * A.cross) / (r**2 + h**2 * A.own), np.sqrt(r**2 + h**2 * A.own)
        else:
            rho, r = (r**2 * rho + h**2 * A.cosine) / (r**2 + h**2), np.sqrt(r**2 + h**2)
        rhos.append(rho)
        radii.append(r)
    return rhos, radii


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("equiangular", [False, True])
def test_recursion_by_hand(name, equiangular):
    radius, h = (1.7 if name in ("pre", "peri") else 1.0), 0.8
    got = random_weight_layers(RULES[name], 24, 9.0, 64, 7, 0.02, radius, h, noise=False, equiangular=equiangular)
    rhos, radii = by_hand(name, 24, 9.0, 64, 7, 0.02, radius, h, equiangular)
    np.testing.assert_allclose(got.cosine, rhos, rtol=1e-12)
    np.testing.assert_allclose(got.radius, radii, rtol=1e-12)
    np.testing.assert_allclose(got.deviation, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("rho", "own", "cross", "c", "normalized"),
    [
        (0.2, 0.3, 0.22, 1.0, False),
        (0.02, 0.1, 0.05, 1.0, False),
        (0.6, 0.7, 0.65, 0.7, False),
        (0.2, 0.3, 0.22, 0.8, True),
    ],
)
def test_noise_of_one_layer(rho, own, cross, c, normalized):
    """Mean and covariance of the mean cosine and of r^2, against many V with given Gram matrices of x and y."""
    n, d, draws = 16, 64, 24_000
    rng = np.random.default_rng(1)
    root = lambda a, b: np.linalg.cholesky((a - b) * np.eye(n) + b)  # noqa: E731
    x = np.pad(root(1.0, rho), ((0, 0), (0, d - n)))
    samples = []
    for _ in range(draws // 1000):
        written = root(own, cross) @ rng.standard_normal((1000, n, d)) / np.sqrt(d)
        y = x + c * (unit(written) if normalized else written)
        total = unit(y).sum(axis=1)
        samples.append([((total**2).sum(axis=-1) - n) / n / (n - 1), (y**2).sum(axis=-1).mean(axis=-1)])
    cosine, square = np.concatenate(samples, axis=1)
    ones = np.ones(27)
    written = (ones, cross / own * ones) if normalized else (own * ones, cross * ones)
    start = Spread.start(rho, 1.0, n, d, noise=False)
    noisy, plain = (start.after(c**2 * ones, *written, n, d, noise, normalized, True) for noise in (True, False))
    error = cosine.std() / np.sqrt(draws)
    assert abs(plain.mean[0] - cosine.mean()) > 6 * error
    assert abs(noisy.mean[0] - cosine.mean()) < 3 * error + 0.25 * abs(plain.mean[0] - cosine.mean())
    assert noisy.mean[1] == pytest.approx(square.mean(), rel=2e-3)
    assert noisy.covariance[0, 0] == pytest.approx(cosine.var(), rel=0.12)
    assert noisy.covariance[0, 1] == pytest.approx(np.cov(cosine, square)[0, 1], rel=0.12)


def naive_layers(name, n, d, depth, seed):
    """Mean cosines, with every token, weight and rule written out."""
    rng = np.random.default_rng(seed)
    x = unit(rng.standard_normal((n, d)))
    means = []
    for layer in range(depth):
        Q, K, V = rng.standard_normal((3, d, d)) / np.sqrt(d)
        theta = unit(x)
        A = softmax(np.sqrt(d) * (theta @ Q.T) @ (theta @ K.T).T) @ theta @ V.T
        rule = name if name != "mix" else "post" if layer < 3 else "pre"
        x = {
            "post": lambda x, A: unit(x + A),
            "pre": lambda x, A: x + A,
            "peri": lambda x, A: x + unit(A),
            "ngpt": lambda x, A: unit(x + 0.7 * unit(A)),
            "sqrt": lambda x, A, layer=layer: unit(x + A / np.sqrt(layer + 1)),
        }[rule](x, A)
        total = unit(x).sum(axis=0)
        means.append((total @ total - n) / n / (n - 1))
    return means


@pytest.mark.parametrize("name", RULES)
def test_mean_and_deviation_over_seeds(name):
    n, d, depth, seeds = 16, 64, 8, 250
    cosines = np.array([naive_layers(name, n, d, depth, seed) for seed in range(seeds)])
    mean, deviation = cosines.mean(axis=0), cosines.std(axis=0)
    got = random_weight_layers(RULES[name], n, np.sqrt(d), d, depth)
    assert (np.abs(got.cosine[1:] - mean) < 4 * deviation / np.sqrt(seeds) + 0.003).all()
    if name != "ngpt" and name != "peri":  # where the first layer's spread comes from V alone
        np.testing.assert_allclose(got.deviation[1:], deviation, rtol=0.2)
    plain = random_weight_layers(RULES[name], n, np.sqrt(d), d, depth, noise=False)
    if name == "post":  # the correction of order 1/d is visible
        worst = (np.abs(plain.cosine[1:] - mean) / deviation * np.sqrt(seeds)).max()
        assert worst > 4


@pytest.mark.parametrize("name", ["pre", "peri"])
def test_power_tail_and_what_makes_it(name):
    n, beta, d, depth = 32, 8.0, 64, 500
    curve = random_weight_layers(RULES[name], n, beta, d, depth, noise=False)
    gap, layer = 1 - curve.cosine, np.arange(depth + 1)
    conserved = curve.radius**2 * gap
    for k in (0, 3, 40):
        A = random_attention(curve.cosine[k], n, beta, d)
        lost = A.own - A.cross if name == "pre" else 1 - A.cosine
        assert conserved[k + 1] - conserved[k] == pytest.approx(lost, abs=1e-13)
    assert conserved[-1] == pytest.approx(conserved[100], rel=1e-4)
    slope = -np.polyfit(np.log(layer[250:]), np.log(gap[250:]), 1)[0]
    assert slope == pytest.approx(random_weight_tail(RULES[name]).rate, abs=0.03)


@pytest.mark.slow
def test_other_tails():
    for name, rate, step in (("post", np.log(2), 1.0), ("ngpt", np.log(1 + 0.49 * 0.25), 0.5)):
        gap = (
            1
            - random_weight_layers(
                RULES[name], 32, 8.0, 64, 24 if name == "post" else 120, step=step, noise=False
            ).cosine
        )
        law = random_weight_tail(RULES[name], step)
        assert law.kind == "exponential"
        assert law.rate == pytest.approx(rate, rel=1e-12)
        assert np.log(gap[-4] / gap[-1]) / 3 == pytest.approx(rate, rel=1e-3)
    gap = 1 - random_weight_layers(tkf.SqrtScaling(), 4, 8.0, 64, 600, rho0=0.97, noise=False).cosine
    assert np.log(gap[300] / gap[600]) / np.log(2) == pytest.approx(
        random_weight_tail(tkf.SqrtScaling()).rate, abs=0.02
    )
    assert random_weight_tail(tkf.MixLN(2.0)).text == "l^-1"


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("rho", "beta", "step"), [(0.2, 2.0, 1.0), (-0.05, 5.0, 0.6)])
def test_equiangular_layers_are_those_of_tokens(name, rho, beta, step):
    radius = 1.4 if name in ("pre", "peri") else 1.0
    model = tkf.Transformer(tkf.Softmax(beta), RULES[name])
    traj = tkf.layers(model, tkf.equiangular_tokens(rho, 6, radius=radius), 6, step)
    got = equiangular_layers(RULES[name], 6, beta, 6, rho, radius, step)
    for state, cosine, length in zip(traj.states, got.cosine, got.radius, strict=True):
        np.testing.assert_allclose(tkf.pairwise_cosines(state), cosine, atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(np.asarray(state.x), axis=1), length, rtol=1e-12)


def test_identity_weights_do_not_describe_random_ones():
    identity = equiangular_layers(tkf.PostLN(), 128, 512**0.5, 20).cosine
    assert identity.max() < 1e-6
    assert random_weight_layers(tkf.PostLN(), 128, 512**0.5, 512, 20).cosine[-1] > 0.99


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax_moments(1.5, 10, 1.0), r"rho must lie in \[-1, 1\], got 1.5"),
        (lambda: softmax_moments(0.5, 1, 1.0), r"n must lie in \[2, 1e\+100\], got 1"),
        (lambda: softmax_moments(0.5, 10, 60.0), r"variance must lie in \[0, 50\], got 60"),
        (lambda: random_attention(-0.5, 10, 1.0, 4), r"rho must lie in \[-1/\(n-1\), 1\] = \[-0.111111, 1\], got -0.5"),
        (lambda: random_attention(0.5, 10, np.inf, 4), "beta must be a finite number, got inf"),
        (lambda: random_weight_layers(tkf.NoNorm(), 10, 1.0, 64, 3), "norm must be one of the six rules"),
        (lambda: random_weight_layers(tkf.PreLN(gain=2.0), 10, 1.0, 64, 3), "norm must have no gain"),
        (
            lambda: random_weight_layers(tkf.PostLN(), 10, 1.0, 64, 3, radius=2.0),
            "radius must be 1 under PostLN, got 2",
        ),
        (lambda: random_weight_layers(tkf.PostLN(), 10, 1.0, 8, 3), "d must be at least 32 with noise, got 8"),
        (lambda: random_weight_layers(tkf.PostLN(), 10, 1.0, 64, 0), "depth must be a whole number >= 1, got 0"),
        (lambda: equiangular_layers(tkf.PostLN(), 10, np.nan, 3), "beta must be a finite number, got nan"),
        (lambda: equiangular_layers(tkf.PostLN(), 10, 1.0, 3, rho0=2.0), "rho0 must lie in .*got 2.0"),
        (lambda: random_weight_tail(tkf.NGPT(lambda t: 1.0)), "norm must have a constant alpha"),
        (lambda: random_weight_tail(tkf.NoNorm()), "norm must be one of the six rules"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
