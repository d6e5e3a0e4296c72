"""Densities under a Transformer: closed forms, tokens, other resolutions of the same measure, growth rates, noise."""

import math

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows.density import MOST_MODES


def model(beta, attention=tkf.Softmax, kappa=None, **options):
    noise = None if kappa is None else tkf.SphereNoise(kappa)
    return tkf.Transformer(attention(beta, **options), norm=tkf.PostLN(), noise=noise)


def test_kuramoto_from_a_poisson_kernel():
    r0 = 0.3
    start = tkf.CircleDensity.from_function(lambda t: (1 - r0**2) / (1 - 2 * r0 * np.cos(t) + r0**2), 48)
    run = tkf.simulate(model(0.0, tkf.Unnormalized), start, 2.0, save_at=5, rtol=1e-10, atol=1e-12)
    for t, state in zip(run.times, run.states, strict=True):
        exact = r0 * math.exp(t / 2) / math.sqrt(1 - r0**2 + r0**2 * math.exp(t))
        assert tkf.order_parameter(state) == pytest.approx(exact, abs=1e-9)
        assert float(state.coefficients[0, 0]) == 1.0


@pytest.mark.grid
@pytest.mark.parametrize("attention", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize("kappa", [None, 5.0])
@pytest.mark.parametrize(
    "start", [tkf.CircleDensity.uniform(24), tkf.ZonalDensity.uniform(24, 5), tkf.SphereDensity.uniform(12)]
)
def test_small_modes_grow_at_their_rates(start, kappa, attention):
    t, degree = 0.25, np.asarray(start.harmonics.degree)
    before = np.asarray(start.coefficients) + 1e-6 * ((degree > 0) & (degree < 6))
    start = start.with_coefficients(before)
    run = tkf.simulate(model(3.0, attention, kappa), start, t, save_at=2, rtol=1e-10, atol=1e-17)
    name = "softmax" if attention is tkf.Softmax else "unnormalized"
    after = np.asarray(run.final.resized(start.modes).coefficients)
    for k, rate in enumerate(tkf.theory.growth_rates(3.0, start.d, name, modes=5)):
        noise = 0 if kappa is None else k * (k + start.d - 2) / kappa
        here = degree == k
        exact = before[here] * math.exp((rate - noise) * t)
        assert np.abs(after[here] - exact).max() < 2e-5 * np.abs(exact).max()


@pytest.mark.slow
@pytest.mark.parametrize("attention", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize("kappa", [None, 20.0])
def test_two_resolutions_of_one_measure(attention, kappa):
    law = lambda t: np.exp(t + 0.3 * t**2)  # noqa: E731
    options = {"save_at": 2, "rtol": 1e-10, "atol": 1e-12}
    moved = lambda start: tkf.simulate(model(2.0, attention, kappa), start, 0.2, **options).final  # noqa: E731
    line = np.linspace(-1, 1, 31)
    side, zero = np.sqrt(1 - line**2), np.zeros(31)
    circle = moved(tkf.CircleDensity.from_function(lambda a: law(np.sin(a)), 64))
    flat = moved(tkf.ZonalDensity.from_function(law, 64, 2))
    points = np.stack([side, line], axis=1)
    assert np.abs(circle.density(points) - flat.density(points)).max() < 1e-8
    zonal = moved(tkf.ZonalDensity.from_function(law, 48, 3))
    axis = np.array([2.0, -1.0, 2.0]) / 3  # the same about a tilted axis
    sphere = moved(tkf.SphereDensity.from_function(lambda x: law(x @ axis), 40))
    across = np.array([1.0, 2.0, 0.0]) / math.sqrt(5)
    tilted = line[:, None] * axis + side[:, None] * across
    assert np.abs(sphere.density(tilted) - zonal.density(np.stack([side, zero, line], axis=1))).max() < 1e-8


@pytest.mark.parametrize("kappa", [None, 10.0])
def test_turned_densities_move_turned(kappa):
    """General densities (not zonal) about other axes, on the circle and on the sphere."""
    move = lambda start: tkf.simulate(model(2.0, kappa=kappa), start, 0.3, save_at=2, rtol=1e-10, atol=1e-12).final  # noqa: E731
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    law = lambda x: np.exp(x[:, 0] - 0.4 * x[:, 0] * x[:, 1] + 0.3 * x[:, -1] ** 2)  # noqa: E731
    points = np.random.default_rng(3).standard_normal((40, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    plain, turned = (move(tkf.SphereDensity.from_function(f, 24)) for f in (law, lambda x: law(x @ turn)))
    assert np.abs(turned.density(points @ turn.T) - plain.density(points)).max() < 1e-8
    wave = lambda a: law(np.stack([np.cos(a), np.sin(a)], axis=-1).reshape(-1, 2)).reshape(np.shape(a))  # noqa: E731
    plain, turned = (move(tkf.CircleDensity.from_function(f, 48)) for f in (wave, lambda a: wave(a - 1.2)))
    angles = np.linspace(0, 6, 40)
    at = lambda state, a: state.density(np.stack([np.cos(a), np.sin(a)], axis=-1))  # noqa: E731
    assert np.abs(at(turned, angles + 1.2) - at(plain, angles)).max() < 1e-9


@pytest.mark.slow
def test_density_against_many_tokens():
    start = tkf.CircleDensity.from_function(lambda t: 1 + 0.5 * np.cos(t) + 0.3 * np.sin(2 * t), 32)
    n = 100_000
    tokens = start.sample(n, seed=0)
    run = tkf.simulate(model(4.0), start, 1.5, save_at=2)
    many = tkf.simulate(model(4.0), tokens, 1.5, save_at=2)
    before = start.harmonics.moments(tokens.x, tokens.weights) - start.coefficients
    final = run.final
    found = np.asarray(final.harmonics.moments(many.final.x, many.final.weights))
    growth = math.exp(1.5 * tkf.theory.growth_rates(4.0, 2, modes=6).max())
    error = np.abs(found - np.asarray(final.coefficients))[:, 1:4].max()
    assert error < 5 * growth / math.sqrt(n)
    assert np.abs(np.asarray(before))[:, 1:4].max() < 5 / math.sqrt(n)
    assert np.abs(np.asarray(final.coefficients) - np.asarray(start.resized(final.modes).coefficients)).max() > 0.1


def test_noise_alone_lets_each_degree_decay_and_stiff_modes_cost_nothing():
    start = tkf.ZonalDensity.from_function(lambda t: np.exp(3 * t), 200, 4)
    run = tkf.simulate(model(1.0, V=1e-12, kappa=2.0), start, 3.0, save_at=2, rtol=1e-8)
    decay = np.exp(-np.arange(201) * (np.arange(201) + 2) * 3.0 / 2)
    exact = np.asarray(start.coefficients) * decay
    assert np.abs(np.asarray(run.final.resized(200).coefficients) - exact).max() < 1e-9
    assert run.dataset.attrs["steps"] < 200  # an explicit method needs 60,000


@pytest.mark.slow
def test_free_energy_falls_and_the_noisy_circle_comes_to_its_stationary_law():
    beta, kappa = 1.0, 2.5
    run = tkf.simulate(
        model(beta, tkf.Unnormalized, kappa),
        tkf.CircleDensity.uniform(32).perturbed(seed=1, size=0.05),
        60.0,
        save_at=61,
    )
    assert tkf.order_parameter(run.final) == pytest.approx(0.78158, abs=1e-5)
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], 1)
    free = []
    for state in run.states:
        p = state.density(points)
        energy = tkf.normalized_energy(state, beta) * math.exp(beta) / (2 * beta)
        free.append((p * np.log(p)).mean() / kappa - energy)
    assert np.diff(free).max() < 1e-8
    p = run.final.density(points)
    kernel = np.exp(beta * np.cos(angle[:, None] - angle))
    law = np.exp(kappa / beta * (kernel @ p) / len(angle))
    assert np.abs(p - law / law.mean()).max() < 1e-4


@pytest.mark.slow
def test_a_noiseless_run_stops_where_it_is_no_longer_resolved(monkeypatch):
    monkeypatch.setitem(MOST_MODES, tkf.CircleDensity, 256)
    run = tkf.simulate(model(9.0), tkf.CircleDensity.uniform(32).perturbed(seed=0, size=0.3), 40.0)
    (event,) = run.events
    assert event.kind == "resolution"
    assert "sample" in event.detail["message"]
    assert run.times[-1] == event.time < 40
    assert run.final.modes == 256
    assert run.final.density(run.final.harmonics.nodes).min() > -1e-6
    again = run.final.sample(100, seed=0)
    assert np.isfinite(np.asarray(again.x)).all()


@pytest.mark.slow
def test_the_resolution_runs_out_when_the_density_is_too_narrow_and_not_before(monkeypatch):
    """Two bumps that narrow like e^{-t}: the end depends on the most modes, not on those at the start or the tolerance."""
    monkeypatch.setitem(MOST_MODES, tkf.CircleDensity, 256)
    bumps = lambda a: np.exp(12 * np.cos(a)) + 0.4 * np.exp(-12 * np.cos(a))  # noqa: E731
    ends = []
    for modes, rtol in ((96, 1e-6), (256, 1e-6), (256, 1e-9)):
        run = tkf.simulate(model(2.0), tkf.CircleDensity.from_function(bumps, modes), 6.0, save_at=2, rtol=rtol)
        ends += [event.time for event in run.events if event.kind == "resolution"]
    assert len(ends) == 3
    assert np.ptp(ends) < 1e-4 * ends[0]


def test_a_stop_rule_ends_a_run_at_its_moment():
    r0 = 0.3
    start = tkf.CircleDensity.from_function(lambda t: (1 - r0**2) / (1 - 2 * r0 * np.cos(t) + r0**2), 48)
    rule = lambda state: state.coefficients[0, 1] > 0.5 * math.sqrt(2)  # noqa: E731
    run = tkf.simulate(model(0.0, tkf.Unnormalized), start, 5.0, rtol=1e-9, atol=1e-11, stop_when=rule)
    exact = math.log(0.25 / 0.75 * (1 - r0**2) / r0**2)
    assert run.times[-1] == pytest.approx(exact, abs=1e-5)


@pytest.mark.slow
def test_few_modes_are_raised_and_saved_runs_come_back(tmp_path):
    run = tkf.simulate(model(50.0), tkf.CircleDensity.uniform(4), 0.1, save_at=3)
    assert run.final.modes >= 2 * tkf.theory.first_clusters(50.0, 2)
    again = tkf.load(run.save(tmp_path / "run.zarr"))
    assert type(again.final) is tkf.CircleDensity
    zonal = tkf.simulate(model(1.0), tkf.ZonalDensity.uniform(16, 6).perturbed(seed=0), 0.1, save_at=3)
    assert tkf.load(zonal.save(tmp_path / "zonal.zarr")).final.d == 6
    assert run.plot() is not None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tkf.Transformer(tkf.Softmax(1.0)), "needs the unit sphere"),
        (tkf.Transformer(tkf.Sinkhorn(1.0), norm=tkf.PostLN()), "functions of the score, got Sinkhorn"),
        (tkf.Transformer(tkf.Softmax(1.0, causal=True), norm=tkf.PostLN()), "causal"),
        (tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN(), noise=tkf.EuclideanNoise(1.0)), "SphereNoise"),
    ],
)
def test_models_that_do_not_keep_densities_are_refused(kind, words):
    with pytest.raises(tkf.NoClosedEquation, match=words):
        tkf.simulate(kind, tkf.CircleDensity.uniform(8), 1.0)


def test_methods_and_options_that_do_not_fit():
    with pytest.raises(ValueError, match="lawson"):
        tkf.simulate(model(1.0), tkf.uniform_sphere(4, 2, seed=0), 1.0, method="lawson")
