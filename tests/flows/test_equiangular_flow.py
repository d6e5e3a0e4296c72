"""Equiangular tokens: one number against all the tokens, against quadrature, against the tables of the theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenfield as tkf
from tokenfield.flows import segments

TIGHT = {"rtol": 1e-12, "atol": 1e-14}
NORMS = {
    "post": tkf.PostLN(),
    "pre": tkf.PreLN(),
    "peri": tkf.PeriLN(),
    "ngpt": tkf.NGPT(alpha=0.6),
    "sqrt": tkf.SqrtScaling(),
}
KERNELS = {
    "softmax": tkf.Softmax(2.0),
    "unnormalized": tkf.Unnormalized(1.5),
    "unnormalized in units": tkf.Unnormalized(1.5, log_unit=1.5, V=0.5),
    "softmax, negative beta": tkf.Softmax(-1.0, V=2.0),
    "l2": tkf.L2(0.7),
    "linear": tkf.Linear(1.3),
    "relu": tkf.ReLU(1.3),
    "sigmoid": tkf.Sigmoid(1.3),
    "squared relu": tkf.ReLU(1.3, power=2, normalized=True),
    "normalized sigmoid": tkf.Sigmoid(1.3, normalized=True),
    "sinkhorn": tkf.Sinkhorn(2.0, tolerance=1e-13),
    "heads": tkf.MultiHead([tkf.Softmax(1.0, V=2.0), tkf.Unnormalized(0.5, log_unit=1.0)], [0.4, -0.2]),
}


@pytest.mark.grid
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_velocity_is_that_of_the_tokens(kernel, norm):
    n, rho, radius, t = 5, 0.35, 1.7 if norm in ("pre", "peri") else 1.0, jnp.asarray(0.4)
    model, state = tkf.Transformer(KERNELS[kernel], NORMS[norm]), tkf.Equiangular(rho, n, radius)
    (one,), (all_,) = segments(state, model), segments(state.tokens(), model)
    angle = one.flow.velocity(t, one.flow.pack(state))
    y = all_.flow.pack(state.tokens())
    moved = all_.flow.velocity(t, y)
    theta, rate = np.asarray(y.theta), np.asarray(moved.theta)
    gram_rate = rate @ theta.T + theta @ rate.T
    off = ~np.eye(n, dtype=bool)
    assert np.abs(gram_rate[off] + float(angle.u)).max() < 1e-12
    growth = np.zeros(n) if moved.r is None else np.asarray(moved.r)  # None: the norm fixes the lengths
    assert np.abs(growth - float(angle.r)).max() < 1e-12
    assert abs(float(angle.u)) > 1e-3
    assert float(one.flow.log_time_unit) == float(all_.flow.log_time_unit)


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("norm", [*NORMS.values(), tkf.MixLN(1.5)])
@pytest.mark.parametrize("attention", [tkf.Softmax(2.0), tkf.Unnormalized(2.0)])
def test_runs_against_tokens(norm, attention):
    model, state = tkf.Transformer(attention, norm), tkf.Equiangular(0.0, 6)
    t1 = 3.0 if isinstance(attention, tkf.Softmax) else 0.8
    one = tkf.simulate(model, state, t1, save_at=4, **TIGHT).final
    all_ = tkf.simulate(model, state.tokens(), t1, save_at=4, **TIGHT).final
    assert np.abs(tkf.pairwise_cosines(all_) - float(one.rho)).max() < 1e-9
    assert np.abs(np.linalg.norm(np.asarray(all_.x), axis=1) - float(one.radius)).max() < 1e-9


@pytest.mark.parametrize(("beta", "time"), [(1.0, 5.27028), (4.0, 6.95350), (9.0, 178.73093)])
def test_times_to_collapse(beta, time):
    model = tkf.Transformer(tkf.Softmax(beta), tkf.PostLN())
    run = tkf.simulate(model, tkf.Equiangular(0.0, 32), 300.0, stop_when=tkf.cosine_above(0.999), **TIGHT)
    (event,) = run.events
    assert event.kind == "cosine_0.999"
    assert event.time == pytest.approx(time, abs=5e-6)
    assert tkf.theory.time_to_cosine(0.999, 32, beta, tkf.PostLN()) == pytest.approx(event.time, rel=1e-10)
    gap = lambda u: 2 * u * (32 - 31 * u) / (np.exp(beta * u) + 31)  # noqa: E731
    nodes, weights = np.polynomial.legendre.leggauss(400)  # dt = d(log u) u / gap(u)
    ell = np.log(1e-3) * (1 - nodes) / 2
    quadrature = -np.log(1e-3) / 2 * (weights * np.exp(ell) / gap(np.exp(ell))).sum()
    assert event.time == pytest.approx(quadrature, rel=1e-9)


def test_values_of_full_particles():
    def final(norm):
        model = tkf.Transformer(tkf.Softmax(2.0), norm)
        return tkf.simulate(model, tkf.Equiangular(0.0, 6), 3.0, save_at=2, **TIGHT).final

    assert float(final(tkf.PostLN()).rho) == pytest.approx(0.9350046711, abs=5e-11)
    assert float(final(tkf.PreLN()).rho) == pytest.approx(0.5499792819, abs=5e-11)
    assert float(final(tkf.PreLN()).radius) == pytest.approx(2.8676101912, abs=5e-11)


def test_two_tokens_at_beta_zero_follow_tanh():
    model = tkf.Transformer(tkf.Unnormalized(0.0), tkf.PostLN())
    run = tkf.simulate(model, tkf.Equiangular(0.0, 2), 12.0, save_at=5, **TIGHT)
    assert np.abs(run.dataset["rho"].values - np.tanh(run.times)).max() < 1e-11
    exact_gap = 2 / (np.exp(2 * run.times) + 1)  # 1 - tanh, which rho has lost by t = 12
    assert np.abs(run.dataset["gap"].values / exact_gap - 1).max() < 1e-10


def test_initial_velocities_of_the_table():
    n, b, r = 7, 1.3, 2.5
    speed = lambda norm, **options: tkf.theory.initial_velocity(n, b, norm, **options)  # noqa: E731
    plain, squared = np.exp(b) + n - 1, np.sqrt(np.exp(2 * b) + n - 1)
    assert speed("post") == speed(tkf.PostLN()) == pytest.approx(2 / plain, rel=1e-14)
    assert speed(tkf.PreLN(), radius=r) == pytest.approx(2 / (r * plain), rel=1e-14)
    assert speed(tkf.MixLN(2.0)) == pytest.approx(2 / plain, rel=1e-14)
    assert speed(tkf.PeriLN(), radius=r) == pytest.approx(2 / (r * squared), rel=1e-14)
    assert speed(tkf.NGPT(0.3)) == pytest.approx(0.6 / squared, rel=1e-14)
    assert speed(tkf.SqrtScaling()) == pytest.approx(2 / plain, rel=1e-14)
    assert speed(tkf.PostLN(), attention="unnormalized") == pytest.approx(2 / n, rel=1e-14)


@pytest.mark.parametrize(
    ("norm", "beta", "attention", "start", "end"),
    [
        (tkf.PostLN(), 1.0, "softmax", 8.0, 14.0),
        (tkf.PostLN(), 1.0, "unnormalized", 3.0, 5.0),
        (tkf.NGPT(0.5), 1.0, "softmax", 16.0, 28.0),
        (tkf.SqrtScaling(), 1.0, "softmax", 1e4, 2e4),
        (tkf.PreLN(), 1.0, "softmax", 1e7, 1e8),
        (tkf.PeriLN(), 1.0, "softmax", 1e7, 1e8),
        (tkf.MixLN(2.0), 1.0, "softmax", 1e7, 1e8),
    ],
)
def test_terminal_laws(norm, beta, attention, start, end):
    law = tkf.theory.terminal_law(8, beta, norm, attention)
    kernel = tkf.Softmax if attention == "softmax" else tkf.Unnormalized
    times = np.geomspace(start, end, 12)
    model = tkf.Transformer(kernel(beta), norm)
    run = tkf.simulate(model, tkf.Equiangular(0.0, 8), end, save_at=times, rtol=1e-10, atol=1e-13)
    fitted = tkf.theory.fit_terminal_law(times, run.dataset["gap"].values, law.kind)
    assert fitted == pytest.approx(law.rate, rel=1e-4)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.floats(0.05, 0.95), st.integers(2, 40), st.floats(0.0, 6.0), st.sampled_from(sorted(NORMS)))
def test_time_and_flow_agree_for_random_parameters(share, n, beta, norm):
    rho0 = -1 / (n - 1) + share * (1 + 1 / (n - 1))
    rho1 = rho0 + 0.3 * (1 - rho0)
    time = tkf.theory.time_to_cosine(rho1, n, beta, NORMS[norm], rho0=rho0, radius=1.0)
    (segment,) = segments(tkf.Equiangular(rho0, n), tkf.Transformer(tkf.Softmax(beta), NORMS[norm]))
    state = segment.flow.pack(tkf.Equiangular(rho0, n))
    step = 1e-6 * time
    velocity = jax.tree.map(float, segment.flow.velocity(jnp.zeros(()), state))
    later = tkf.theory.time_to_cosine(rho0 - velocity.u * step, n, beta, NORMS[norm], rho0=rho0, radius=1.0)
    assert later == pytest.approx(step, rel=1e-4)


def test_ends_of_the_range_do_not_move():
    model = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN())
    for rho in (1.0, -0.25):
        run = tkf.simulate(model, tkf.Equiangular(rho, 5), 2.0, save_at=3)
        assert np.abs(run.dataset["rho"].values - rho).max() < 1e-14
    assert tkf.theory.time_to_cosine(1.0, 5, 1.0, tkf.PostLN()) == np.inf
    assert tkf.theory.time_to_cosine(0.5, 5, 1.0, tkf.PostLN(), rho0=-0.25) == np.inf
    assert tkf.theory.time_to_cosine(0.5, 5, 1.0, tkf.PostLN(), rho0=0.5) == 0


@pytest.mark.parametrize("beta", [0.0, 1e-8, 700.0, 1e4])
def test_extreme_temperatures(beta):
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()), tkf.Equiangular(0.5, 4), 1.0, save_at=2)
    exact = 1 / (0.75 + (2 - 0.75) * np.exp(2.0)) if beta < 1 else 0.5  # logistic at beta = 0, frozen at large beta
    assert float(run.final.gap) == pytest.approx(exact, rel=1e-5)


def test_observables_are_those_of_the_tokens():
    state = tkf.Equiangular(0.3, 6)
    tokens = state.tokens(8)
    assert tkf.order_parameter(state) == pytest.approx(tkf.order_parameter(tokens), abs=1e-14)
    assert tkf.mean_cosine(state) == pytest.approx(tkf.mean_cosine(tokens), abs=1e-14)
    for beta in (0.0, 2.0):
        assert tkf.energy(state, beta) == pytest.approx(tkf.energy(tokens, beta), rel=1e-13)
        assert tkf.normalized_energy(state, beta) == pytest.approx(tkf.normalized_energy(tokens, beta), rel=1e-13)
    assert tkf.energy(state, 2.0, centered=True) == pytest.approx(tkf.energy(tokens, 2.0, centered=True), rel=1e-13)
    cov = np.diag([4.0, 1.0])
    p = np.array([2.0, 1.0]) / 3
    assert tkf.effective_rank(tkf.Gaussian(None, cov)) == pytest.approx(np.exp(-(p * np.log(p)).sum()))


@pytest.mark.parametrize("rule", [tkf.one_cluster(), tkf.order_above(0.99), tkf.cosine_above(0.9)])
def test_stop_rules_hold_for_tokens_and_angle_at_the_same_time(rule):
    model, state = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN()), tkf.Equiangular(0.0, 4)
    one, all_ = (tkf.simulate(model, s, 50.0, stop_when=rule, save_at=2, **TIGHT) for s in (state, state.tokens()))
    assert one.events[0].time == pytest.approx(all_.events[0].time, rel=1e-8)
    assert one.events[0].kind == all_.events[0].kind


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: tkf.Equiangular(-0.3, 5), r"rho must lie in \[-1/\(n-1\), 1\] = \[-0.25, 1\]"),
        (lambda: tkf.Equiangular(1.1, 5), "rho must lie in"),
        (lambda: tkf.Equiangular(0.0, 1), "n must be a whole number >= 2"),
        (lambda: tkf.Equiangular(0.0, 3, 0.0), "radius must be > 0"),
        (lambda: tkf.Equiangular(0.0, 3, gap=0.5), "gap must be 1 - rho"),
        (lambda: tkf.theory.time_to_cosine(0.2, 5, 1.0, tkf.PostLN(), rho0=0.5), "rho1 must lie in"),
        (lambda: tkf.theory.time_to_cosine(0.2, 5, 1.0, tkf.NoNorm()), "norm must be one of mix, ngpt"),
        (lambda: tkf.theory.initial_velocity(5, 1.0, tkf.PostLN(), "relu"), "attention must be"),
        (lambda: tkf.theory.fit_terminal_law([1.0, 2.0], [1.0, 0.0], "power"), "gap must be > 0"),
        (lambda: tkf.cosine_above(2.0), "rho must lie in"),
    ],
)
def test_bad_input(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (tkf.Transformer(tkf.Softmax()), "NoNorm does not keep directions .* have one: Gaussian, Tokens"),
        (tkf.Transformer(tkf.Softmax(A=np.eye(3)), tkf.PostLN()), "only under isotropic .* have one: Tokens"),
        (tkf.Transformer(tkf.Softmax(causal=True), tkf.PostLN()), "causal mask"),
        (tkf.Transformer(tkf.Hardmax(), tkf.PostLN()), "Hardmax attention is not continuous"),
        (tkf.Transformer(tkf.Softmax(), tkf.PreLN(gain=2.0)), "gain"),
    ],
)
def test_models_that_do_not_keep_angles_equal(model, words):
    with pytest.raises(tkf.NoClosedEquation, match=words):
        tkf.simulate(model, tkf.Equiangular(0.0, 5), 1.0)


def test_radius_and_rules_that_do_not_fit():
    model = tkf.Transformer(tkf.Softmax(), tkf.PostLN())
    with pytest.raises(ValueError, match=r"unit sphere, got radius = 2\.0"):
        tkf.simulate(model, tkf.Equiangular(0.0, 5, 2.0), 1.0)
    with pytest.raises(ValueError, match="energy_settled is a rule for Tokens"):
        tkf.simulate(model, tkf.Equiangular(0.0, 5), 1.0, stop_when=tkf.energy_settled())
    with pytest.raises(ValueError, match="layers moves Tokens, Equiangular, Gaussian or a density, got list"):
        tkf.layers(model, [1.0, 2.0], 3)


@pytest.mark.slow
def test_saved_and_loaded(tmp_path):
    model = tkf.Transformer(tkf.Softmax(2.0), tkf.PreLN())
    run = tkf.simulate(model, tkf.Equiangular(0.0, 5), 1e3, save_at=3)
    loaded = tkf.load(run.save(tmp_path / "run.zarr"))
    assert loaded.final.n == 5
    for name in ("rho", "gap", "radius"):
        assert float(getattr(loaded.final, name)) == float(getattr(run.final, name))
    gaussian = tkf.simulate(tkf.Transformer(tkf.Softmax(0.2)), tkf.Gaussian([1.0], [[0.5]]), 1.0, save_at=3)
    loaded = tkf.load(gaussian.save(tmp_path / "gaussian.zarr"))
    assert (np.asarray(loaded.final.cov) == np.asarray(gaussian.final.cov)).all()
    for traj in (run, gaussian):
        traj.plot().savefig(tmp_path / "run.png")
        assert (tmp_path / "run.png").stat().st_size > 5_000
        with pytest.raises(TypeError, match="figure needs a run of Tokens"):
            traj.animate(tmp_path / "run.gif")
