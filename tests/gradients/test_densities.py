"""Derivatives of densities: the order parameter from a Poisson kernel, and the free energy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import i0e, i1e

import tokenfield as tkf

from . import circle
from .compare import TIGHT, error, jacobians
from .variational import jacobian

R0, T, MODES = 0.3, 1.0, 48


def build(p, beta=None):
    """Noisy USA from a Poisson kernel; `p = (r_0, beta, 1/kappa)`, no noise if 1/kappa is None."""
    r0, beta = p[0], p[1] if beta is None else beta
    noise = None if p[2] is None else tkf.SphereNoise(1 / p[2])
    model = tkf.Transformer(tkf.Unnormalized(beta=beta), norm=tkf.PostLN(), noise=noise)
    moments = r0 ** jnp.arange(MODES + 1.0)
    waves = jnp.sqrt(2.0) * moments.at[0].set(1 / jnp.sqrt(2.0))
    return model, tkf.CircleDensity(jnp.stack([waves, jnp.zeros_like(waves)]))


def moments(state):
    """`c_k = ∫ cos(k t) dmu`, k from 1 on."""
    return state.coefficients[0, 1 : circle.MODES + 1] / jnp.sqrt(2.0)


@pytest.mark.slow
def test_kuramoto_from_a_poisson_kernel():
    """`r(t) = r_0 e^{t/2} / sqrt(1 - r_0^2 + r_0^2 e^t)`, so `dr/dr_0 = e^{t/2} (1 - r_0^2 + r_0^2 e^t)^{-3/2}`."""
    under = 1 - R0**2 + R0**2 * np.exp(T)
    run = lambda p: moments(tkf.solve(*build([p[0], 0.0, None], 0.0), T, **TIGHT).final)  # noqa: E731
    reached, modes = jacobians(run, [R0])
    r = R0 * np.exp(T / 2) / np.sqrt(under)
    k = np.arange(1, circle.MODES + 1)
    assert np.abs(reached - r**k).max() < 1e-10
    slope = np.exp(T / 2) * under**-1.5
    for mode, found in modes.items():
        assert abs(found[0, 0] / slope - 1) < 1e-8, mode
        assert error(found[:, 0], k * r ** (k - 1) * slope) < 1e-8, mode  # it stays a Poisson kernel


def test_the_order_parameter_is_an_observable_that_can_be_differentiated():
    slope = np.exp(T / 2) * (1 - R0**2 + R0**2 * np.exp(T)) ** -1.5
    run = lambda p: tkf.order_parameter(tkf.solve(*build([p[0], 0.0, None], 0.0), T, **TIGHT).final)  # noqa: E731
    for mode, found in jacobians(run, [R0])[1].items():
        assert abs(found[0] / slope - 1) < 1e-8, mode


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.0, 1.5])
def test_the_free_energy(beta):
    """`dF(T)/d(r_0, beta, 1/kappa)` through the density alone, from a Galerkin scheme of its own."""
    p = np.array([R0, beta, 0.25])
    value, S = circle.run(*p, T)
    at = lambda c: circle.free_energy(c, beta, p[2])  # noqa: E731
    by_moment = jacobian(lambda C: np.array([[at(c)] for c in C]), value)[0]
    varied = [0, 1, 2] if beta else [0, 2]

    def final(q):
        full = [jnp.asarray(z) for z in p]
        for index, z in zip(varied, q, strict=True):
            full[index] = z
        end = tkf.solve(*build(full, None if beta else 0.0), T, **TIGHT).final
        return circle.free_energy(moments(end), beta, p[2], jnp)

    reached, modes = jacobians(final, p[varied])
    assert abs(reached - at(value)) < 1e-9
    for mode, found in modes.items():
        assert np.abs(found / (by_moment @ S)[varied] - 1).max() < 1e-8, mode


@pytest.mark.parametrize(
    ("kind", "height"),
    [
        (lambda f: tkf.CircleDensity.from_function(lambda t: f(jnp.cos(t)), 16), lambda a: i1e(a) / i0e(a)),
        (lambda f: tkf.ZonalDensity.from_function(f, 16, 3), lambda a: 1 / np.tanh(a) - 1 / a),
        (lambda f: tkf.SphereDensity.from_function(lambda x: f(x[:, 0]), 10), lambda a: 1 / np.tanh(a) - 1 / a),
    ],
)
def test_a_density_from_a_function_with_a_traced_parameter(kind, height):
    """The von Mises–Fisher density e^{a cos}: its order parameter is `I_1/I_0` on the circle and `coth a - 1/a` on the sphere."""
    order = lambda a: tkf.order_parameter(kind(lambda u: jnp.exp(a * u)))  # noqa: E731
    value, slope = jax.jit(jax.value_and_grad(order))(1.3)
    assert float(value) == pytest.approx(height(1.3), rel=1e-12)
    assert float(slope) == pytest.approx((height(1.3 + 1e-5) - height(1.3 - 1e-5)) / 2e-5, rel=1e-8)


def test_a_density_of_known_values_is_made_inside_jit():
    start = lambda: tkf.CircleDensity.from_function(lambda t: np.exp(1.3 * np.cos(t)), 16)  # noqa: E731
    found = jax.jit(lambda factor: factor * tkf.order_parameter(start()))(1.0)
    assert float(found) == pytest.approx(i1e(1.3) / i0e(1.3), rel=1e-12)


def test_the_time_at_which_a_mode_has_decayed():
    """Without drift, mode 3 is `a_3 e^{-9 t / kappa}`, even in one long step: the time of a stop is exact at any tolerance."""
    start, kappa = tkf.CircleDensity.from_function(lambda t: np.exp(np.cos(t) + 2 * np.cos(3 * t)), 64), 2e-3
    exact = kappa / 9 * np.log(float(start.coefficients[0, 3]) / 0.01)
    given = {"stop_when": lambda s: 0.01 - s.coefficients[0, 3], "rtol": 1e-4, "atol": 1e-7}

    def model(kappa):
        return tkf.Transformer(tkf.Softmax(1.0, V=0.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa))

    stop = lambda kappa: tkf.solve(model(kappa), start, 1.0, **given, max_steps=64).event_time  # noqa: E731
    time, slope = jax.jit(jax.value_and_grad(stop))(kappa)
    for found in (time, tkf.simulate(model(kappa), start, 1.0, **given).events[0].time):
        assert float(found) == pytest.approx(exact, rel=1e-12)
    assert float(slope) == pytest.approx(exact / kappa, rel=1e-11)


def test_the_state_at_a_stop_is_that_of_a_run_to_its_time():
    model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(0.002))
    start = tkf.CircleDensity.from_function(lambda t: np.exp(np.cos(t) + 2 * np.cos(3 * t)), 64)
    stopped = tkf.simulate(model, start, 1.0, stop_when=lambda s: 0.01 - s.coefficients[0, 3], rtol=1e-6, atol=1e-9)
    exact = tkf.simulate(model, start, stopped.events[0].time, save_at=2, rtol=1e-12, atol=1e-14).final
    assert np.abs(stopped.final.coefficients - exact.coefficients).max() < 1e-6


def test_the_reference_is_the_closed_form():
    under = 1 - R0**2 + R0**2 * np.exp(T)
    r, k = R0 * np.exp(T / 2) / np.sqrt(under), np.arange(1, circle.MODES + 1)
    value, S = circle.run(R0, 0.0, 0.0, T)
    low = slice(6)  # the last of the modes miss those beyond them
    assert np.abs(value - r**k)[low].max() < 1e-10
    assert np.abs(S[:, 0] - k * r ** (k - 1) * np.exp(T / 2) * under**-1.5)[low].max() < 1e-9


def test_the_reference_has_the_slope_of_its_values():
    p, e, h = np.array([R0, 1.5, 0.25]), np.array([0.1, 0.7, -0.1]), 1e-3
    at = lambda s: circle.run(*(p + s * h * e), T)[0]  # noqa: E731
    slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    assert error(circle.run(*p, T)[1] @ e, slope) < 1e-8
