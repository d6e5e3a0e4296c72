"""Every run of a density ends at t1 or with an event that is true. The reference moves tokens at quadrature nodes by SciPy."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import eval_gegenbauer, roots_chebyt, roots_gegenbauer, roots_legendre

import tokenfield as tkf
from tokenfield.flows.density import MOST_MODES
from tokenfield.stop_rule import AbstractStopRule

EDGE = {24: 1e-11, 48: 1e-14 * 48**2, 96: 1e-14 * 96**2}
BETAS = (0.5, 1.0, 2.0, 4.0)


def model(beta, softmax, kappa=None):
    kernel = tkf.Softmax if softmax else tkf.Unnormalized
    return tkf.Transformer(kernel(beta), norm=tkf.PostLN(), noise=None if kappa is None else tkf.SphereNoise(kappa))


def run(kind, start, t1=1.0, **options):
    found = tkf.simulate(kind, start, t1, save_at=2, **options)
    assert found.times[-1] == t1 or [event.kind for event in found.events] == ["resolution"]
    assert found.times[-1] < t1 or not found.events
    return found


def smooth(seed, size=0.5):
    """A random smooth positive function on the sphere."""
    rng = np.random.default_rng(seed)
    c, Q = size * rng.standard_normal(3), 0.8 * size * rng.standard_normal((3, 3))
    return lambda x: np.exp(x @ c + np.einsum("ni,ij,nj->n", x, Q, x))


def moved(x, w, t, beta, softmax):
    """Weighted tokens of the flow `x' = P_x ∫ e^{beta<x,y>} y dmu` (over Z for softmax) at time t."""

    def velocity(_, flat):
        y = flat.reshape(x.shape)
        k = w * np.exp(beta * (y @ y.T))
        pull = k @ y
        pull = pull / k.sum(1, keepdims=True) if softmax else pull
        return (pull - (pull * y).sum(1, keepdims=True) * y).ravel()

    return solve_ivp(velocity, (0, t), x.ravel(), method="DOP853", rtol=1e-8, atol=1e-10).y[:, -1].reshape(x.shape)


def sphere_nodes(size):
    z, w = roots_legendre(size)
    a = 2 * np.pi * np.arange(2 * size) / (2 * size)
    side = np.sqrt(1 - z**2)[:, None]
    x = np.stack([side * np.cos(a), side * np.sin(a), np.broadcast_to(z[:, None], (size, 2 * size))], axis=-1)
    return x.reshape(-1, 3), np.repeat(w, 2 * size) / (4 * size)


@pytest.fixture
def few_modes(monkeypatch):
    monkeypatch.setitem(MOST_MODES, tkf.SphereDensity, 48)


def test_the_smallest_case_reaches_its_end():
    run(model(1.0, True), tkf.SphereDensity.from_function(lambda x: 1 + 0.3 * x[:, 2], 24))


@pytest.mark.slow
@pytest.mark.parametrize("softmax", [True, False])
def test_smooth_starts_on_the_sphere_follow_tokens_to_the_end(softmax, few_modes):
    x, area = sphere_nodes(16)
    ended = 0
    for seed in range(7):
        law, beta = smooth(seed), BETAS[seed % 4]
        start = tkf.SphereDensity.from_function(law, (24, 48)[seed // 2 % 2])
        w = area * law(x)
        found = run(model(beta, softmax), start, rtol=1e-8, atol=1e-10)
        ended += not found.events
        y = moved(x, w / w.sum(), found.times[-1], beta, softmax)
        moments = np.asarray(found.final.harmonics.moments(y, w / w.sum()))[:, :3, :3]
        assert np.abs(moments - np.asarray(found.final.coefficients)[:, :3, :3]).max() < 1e-6
    assert ended == 7 if softmax else 2 <= ended < 7


def test_noisy_starts_on_the_sphere_reach_the_end(few_modes):
    for seed in range(4):
        start = tkf.SphereDensity.from_function(smooth(seed), 24)
        assert run(model(BETAS[seed], True, kappa=8.0), start).times[-1] == 1.0


def gauss(size, power):
    """Nodes and masses for `(1 - u^2)^(power - 1/2)`."""
    u, mass = roots_chebyt(size) if power == 0 else roots_gegenbauer(size, power)
    return u, mass / mass.sum()


def zonal_tokens(law, d, beta, softmax, t, size=128):
    """Heights `<x, e>` of tokens at Gauss nodes after time t, and their masses, from the density `law(<x, e>)`."""
    height, mass = gauss(size, d / 2 - 1)
    mass = mass * law(height) / (mass * law(height)).sum()
    turns = ([-1.0, 1.0], [0.5, 0.5]) if d == 2 else gauss(11, (d - 3) / 2)  # cosines of the angle about the axis

    def velocity(_, a):
        c, s = np.cos(a), np.sin(a)
        pull, Z = np.zeros(size), np.zeros(size)
        for cosine, share in zip(*turns, strict=True):
            k = share * mass * np.exp(beta * (np.outer(c, c) + cosine * np.outer(s, s)))
            pull += (k * (cosine * np.outer(c, s) - np.outer(s, c))).sum(1)
            Z += k.sum(1)
        return pull / Z if softmax else pull

    found = solve_ivp(velocity, (0, t), np.arccos(height), method="DOP853", rtol=1e-9, atol=1e-11)
    return np.cos(found.y[:, -1]), mass


def coefficient(degree, d, height, mass):
    """`∫ phi_l dmu`, phi_l the orthonormal zonal harmonic of that degree."""
    if d == 2:
        return math.sqrt(2) * np.cos(degree * np.arccos(height)) @ mass
    shape = eval_gegenbauer(degree, d / 2 - 1, height) / eval_gegenbauer(degree, d / 2 - 1, 1.0)
    return math.sqrt((2 * degree + d - 2) / (degree + d - 2) * math.comb(degree + d - 2, degree)) * (shape @ mass)


def check_the_end(found, d, height, mass):
    """The run is right in degrees 1 and 2, and it has an event just if the true density comes up to its last degrees."""
    state = found.final
    size, edge = float(np.linalg.norm(state.coefficients)), EDGE[state.modes]
    last = [abs(coefficient(k, d, height, mass)) / size for k in range(math.ceil(0.9 * state.modes), state.modes + 1)]
    beyond = [abs(coefficient(k, d, height, mass)) / size for k in range(state.modes + 1, state.modes + 5)]
    if found.events:
        assert max(last) > 0.5 * edge
    else:
        assert max(beyond) < 2 * edge
    spectrum = np.asarray(state.spectrum) * size
    for degree in (1, 2):
        assert spectrum[degree] == pytest.approx(abs(coefficient(degree, d, height, mass)), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 8])
def test_zonal_runs_end_where_the_true_density_does(d, monkeypatch):
    monkeypatch.setitem(MOST_MODES, tkf.ZonalDensity, 96)
    ends = []
    for seed, (modes, softmax) in enumerate([(24, True), (96, True), (24, False), (96, False)]):
        a, b = np.random.default_rng(10 * d + seed).uniform(0.2, 1.0, 2)
        law, beta = lambda t, a=a, b=b: np.exp(a * t + b * t**2), BETAS[(seed + d) % 4]
        found = run(model(beta, softmax), tkf.ZonalDensity.from_function(law, modes, d), rtol=1e-8, atol=1e-10)
        check_the_end(found, d, *zonal_tokens(law, d, beta, softmax, found.times[-1]))
        ends.append(bool(found.events))
    assert ends[:2] == [False, False]


def test_the_resolution_of_the_sphere_runs_out_in_truth(few_modes):
    axis = np.array([2.0, -1.0, 2.0]) / 3
    law = lambda t: np.exp(0.8 * t + 0.6 * t**2)  # noqa: E731
    found = run(model(2.0, False), tkf.SphereDensity.from_function(lambda x: law(x @ axis), 24), rtol=1e-8, atol=1e-10)
    assert found.events
    check_the_end(found, 3, *zonal_tokens(law, 3, 2.0, False, found.times[-1]))


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("kappa", [None, 5.0])
def test_circle_runs_against_a_plain_fourier_method(softmax, kappa):
    """`p_t = -(p g')' + p''/kappa` by NumPy's FFT and SciPy's DOP853."""
    n, k = 1024, np.arange(513)
    a = 2 * np.pi * np.arange(n) / n
    kept = k <= (340 if kappa is None else 60)  # at most two thirds: no aliasing
    for seed in range(2):
        rng, beta = np.random.default_rng(seed), BETAS[seed] / (1 if softmax else 2)
        wave = rng.uniform(0, 6, 3)
        law = lambda t, wave=wave: np.exp(0.5 * np.cos(t - wave[0]) + 0.3 * np.cos(2 * (t - wave[1])))  # noqa: E731
        found = run(model(beta, softmax, kappa), tkf.CircleDensity.from_function(law, 48), rtol=1e-8, atol=1e-10)
        assert found.times[-1] == 1.0
        kernel = np.fft.rfft(np.exp(beta * np.cos(a))) / n

        def velocity(_, p, kernel=kernel, beta=beta):
            spectrum = np.fft.rfft(p) * kept
            Z = np.fft.irfft(spectrum * kernel, n)
            g = np.fft.rfft(np.log(Z) if softmax else Z) / beta * kept
            flux = np.fft.rfft(np.fft.irfft(spectrum, n) * np.fft.irfft(1j * k * g, n))
            return np.fft.irfft((-1j * k * flux - (0 if kappa is None else k**2 / kappa) * spectrum) * kept, n)

        p = law(a) / law(a).mean()
        exact = solve_ivp(velocity, (0, 1), p, method="DOP853", rtol=1e-9, atol=1e-11).y[:, -1]
        assert found.final.density(np.stack([np.cos(a), np.sin(a)], 1)) == pytest.approx(exact, abs=1e-6 * exact.max())


@pytest.mark.slow
def test_a_density_with_equal_peaks_gets_the_modes_it_needs(monkeypatch):
    """Degrees 0, 25, 50, … only: the last tenth of 64 modes is empty, and yet 64 are too few."""
    monkeypatch.setitem(MOST_MODES, tkf.CircleDensity, 256)
    law = lambda t: 1 + 0.5 * np.cos(25 * t)  # noqa: E731
    found, fine = (run(model(400.0, True), tkf.CircleDensity.from_function(law, modes), 0.2) for modes in (64, 256))
    assert found.final.modes == fine.final.modes == 256
    assert found.times[-1] == fine.times[-1] == 0.2
    assert np.asarray(found.final.coefficients) == pytest.approx(np.asarray(fine.final.coefficients), abs=1e-6)


def test_rounding_that_piles_up_over_a_long_run_is_no_reason_to_end():
    """Repelled tokens spread: the density becomes smooth, and only rounding errors are left in high degrees."""
    kind = tkf.Transformer(tkf.Softmax(1.0, V=-1.0), norm=tkf.PostLN())
    found = run(kind, tkf.ZonalDensity.from_function(lambda t: np.exp(0.5 * t + 0.3 * t**2), 96, 3), 3000.0)
    assert found.times[-1] == 3000.0
    assert found.final.modes == 96


def test_a_spectrum_is_judged_by_what_is_signal():
    degree, edge = np.arange(65), 1e-11
    state = lambda size: tkf.ZonalDensity.uniform(64, 3).replaced(np.where(degree == 0, 1.0, size))  # noqa: E731
    noise = 10 ** np.random.default_rng(0).uniform(-10.8, -10.2, 65)
    assert not state(np.exp(-degree)).unresolved(edge)
    assert state(0.72**degree).unresolved(edge)  # 7e-10 at the last degree
    assert not state(np.exp(-degree) + noise).unresolved(edge)  # a plateau above the edge
    assert state(0.72**degree + noise).unresolved(edge)
    assert state(np.where(degree > 0, 1.0 / np.maximum(degree, 1) ** 2, 0)).unresolved(edge)  # not smooth
    assert not state(np.where(degree % 14 == 0, 0.5**degree, 0)).unresolved(edge)
    assert state(np.where(degree % 14 == 0, 0.8**degree, 0)).unresolved(edge)


@pytest.mark.slow
def test_solve_says_where_the_resolution_ends_and_ensembles_add_modes():
    """`solve` keeps the number of modes, so it ends where `simulate` adds some, alone and in an ensemble."""
    state = tkf.CircleDensity.from_function(lambda angle: 1 + 0.3 * np.cos(angle), 16)
    model = tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN())
    found = tkf.solve(model, state, 4.0)
    assert found.reason == "resolution"
    assert 0 < float(found.event_time) < 4.0
    other = tkf.CircleDensity.from_function(lambda angle: 1 + 0.1 * np.cos(angle), 16)
    runs = tkf.simulate_many(model, [state, other], 4.0)
    whole = tkf.simulate(model, state, 4.0)
    assert [list(events) for events in runs.events] == [[], []]
    for member, alone in zip(runs, (whole, tkf.simulate(model, other, 4.0)), strict=True):
        np.testing.assert_array_equal(member.final.resized(alone.final.modes).coefficients, alone.final.coefficients)
    assert whole.events == []
    assert whole.final.modes > 16
    fine = tkf.solve(model, state.resized(whole.final.modes), 4.0).final  # enough modes from the start
    np.testing.assert_allclose(fine.coefficients, whole.final.coefficients, atol=1e-6)


class AtTime(AbstractStopRule):
    """Stop at a time."""

    end: float

    kind = "clock"
    differentiable = True
    rotation_invariant = True
    clusters = None

    def margin(self, t, state, velocity):
        return t - self.end

    def resolve(self, model, state):
        return self


def test_a_rule_of_time_sees_the_time_of_the_run_after_modes_were_added():
    state = tkf.CircleDensity.from_function(lambda angle: 1 + 0.3 * np.cos(angle), 16)
    found = tkf.simulate(model(1.0, True), state, 4.0, stop_when=AtTime(3.0), save_at=[0.5, 2.0, 3.5])
    assert found.final.modes > 16
    assert [(event.kind, event.time) for event in found.events] == [("clock", pytest.approx(3.0, rel=1e-14))]
    np.testing.assert_allclose(found.times, [0.5, 2.0, 3.0], rtol=1e-14)
