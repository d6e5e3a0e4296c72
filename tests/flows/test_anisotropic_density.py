"""Densities on the circle under anisotropic noise: a plain Fourier method, the stationary law, refusals."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf

S = np.array([[1.0, 0.3], [0.0, 0.6]])
TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def model(attention, S, kappa=3.0):
    return tkf.Transformer(attention, norm=tkf.PostLN(), noise=tkf.AnisotropicNoise(kappa, S))


def strength(a):
    """`|S^T tau|^2`, tau the tangent."""
    return ((np.stack([-np.sin(a), np.cos(a)], axis=1) @ S) ** 2).sum(1)


@pytest.mark.slow
def test_against_plain_fourier_and_scipy():
    """`p_t = -(p u)' + (D p)''/kappa`, u by a naive sum over the grid."""
    n, k = 128, np.fft.fftfreq(128, 1 / 128)
    a = 2 * np.pi * np.arange(n) / n
    c, s, D = np.cos(a[:, None] - a), np.sin(a[:, None] - a), strength(a) / 3.0
    p0 = np.exp(0.8 * np.cos(a) + 0.3 * np.sin(2 * a))
    p0 /= p0.mean()

    def velocity(_, p):
        u = -(np.exp(2 * c) * s) @ p / (np.exp(2 * c) @ p)
        return np.fft.ifft(-1j * k * np.fft.fft(p * u) - k**2 * np.fft.fft(D * p)).real

    exact = solve_ivp(velocity, (0, 0.5), p0, method="LSODA", rtol=1e-9, atol=1e-11).y[:, -1]
    start = tkf.CircleDensity.from_function(lambda a: np.exp(0.8 * np.cos(a) + 0.3 * np.sin(2 * a)), 32)
    found = tkf.simulate(model(tkf.Softmax(2.0), S), start, 0.5, save_at=2, rtol=1e-9, atol=1e-11).final
    np.testing.assert_allclose(found.density(np.stack([np.cos(a), np.sin(a)], axis=1)), exact, atol=1e-6)


def test_without_drift_the_inverse_of_the_strength_is_at_rest():
    """`(D p)'' = 0`: the stationary density on the circle is 1/D, and the uniform one moves."""
    start = tkf.CircleDensity.from_function(lambda a: 1 / strength(a), 48)
    kind = model(tkf.Linear(1.0, V=0.0), S, 1.0)
    moved = lambda start: np.asarray(tkf.simulate(kind, start, 0.2, save_at=2, **TIGHT).final.resized(48).coefficients)  # noqa: E731
    np.testing.assert_allclose(moved(start), start.coefficients, atol=1e-7)
    assert np.abs(moved(tkf.CircleDensity.uniform(48))[:, 2]).max() > 0.02


@pytest.mark.slow
def test_equal_strengths_are_sphere_noise():
    start = tkf.CircleDensity.from_function(lambda a: np.exp(np.cos(a)), 24)
    plain = tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(3.0))
    ends = [tkf.simulate(each, start, 0.3, save_at=2).final for each in (plain, model(tkf.Softmax(1.0), np.eye(2)))]
    np.testing.assert_allclose(ends[0].coefficients, ends[1].coefficients, atol=1e-6)


def test_what_is_refused():
    kind = model(tkf.Softmax(1.0), np.diag([1.0, 0.9, 0.5]))
    with pytest.raises(
        ValueError, match=r"symmetric about the axis only if .*States that do have one: CircleDensity, Sphere"
    ):
        tkf.simulate(kind, tkf.ZonalDensity.uniform(8, 3), 1.0)
    traced = lambda S: tkf.solve(model(tkf.Softmax(1.0), S), tkf.ZonalDensity.uniform(8, 3), 1.0).final  # noqa: E731
    with pytest.raises(ValueError, match="S must be known outside of jit, vmap and grad"):
        jax.jit(traced)(np.eye(3))
    with pytest.raises(ValueError, match=r"S must have shape \(2, k\)"):
        tkf.simulate(kind, tkf.CircleDensity.uniform(8), 1.0)
    with pytest.raises(ValueError, match=r"S must have shape \(4, k\)"):
        tkf.simulate(model(tkf.Softmax(1.0), np.eye(3)), tkf.ZonalDensity.uniform(8, 4), 1.0)
