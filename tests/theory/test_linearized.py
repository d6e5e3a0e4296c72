"""Growth of perturbations of stationary laws: against the differentiated equation, and rates known exactly."""

import math

import numpy as np
import pytest

from tokenfield.theory.continuation import trace
from tokenfield.theory.linearized import sector
from tokenfield.theory.noise import critical_kappa
from tokenfield.theory.self_consistency import SelfConsistency
from tokenfield.theory.stationary import branches, crossings, stationary_states

USA, SA = "unnormalized", "softmax"


def only(states, kind):
    return [state for state in states if state.kind == kind]


def circle_growth(beta, kappa, attention, state, modes=72):
    """The largest growth rates on the circle: the Fokker–Planck equation in Fourier modes, differentiated numerically."""
    theta = np.arange(256) * np.pi / 128
    k = np.arange(1, modes)
    table = np.r_[np.cos(np.outer(k, theta)), np.sin(np.outer(k, theta))]
    derivative = np.r_[-k[:, None] * np.sin(np.outer(k, theta)), k[:, None] * np.cos(np.outer(k, theta))]
    gap = theta[:, None] - theta
    Z_kernel, drift_kernel = np.exp(beta * np.cos(gap)) / 256, -np.exp(beta * np.cos(gap)) * np.sin(gap) / 256

    def rate(c):
        p = 1 + 2 * c @ table
        drift = drift_kernel @ p
        if attention == SA:
            drift = drift / (Z_kernel @ p)
        flux = p * drift - 2 * (c @ derivative) / kappa
        return derivative @ flux / 256

    c0 = table @ state.density(np.cos(theta)) / 256
    assert np.abs(rate(c0)).max() < 1e-8
    h = 1e-5
    matrix = np.stack([(rate(c0 + h * e) - rate(c0 - h * e)) / (2 * h) for e in np.eye(len(c0))], axis=1)
    return np.sort(np.linalg.eigvals(matrix).real)[::-1]


@pytest.mark.parametrize(
    ("beta", "ratio", "attention", "kind"),
    [(4.0, 0.96, USA, "one peak"), (4.0, 3.0, USA, "2 peaks"), (3.0, 1.5, SA, "one peak"), (3.0, 4.5, SA, "2 peaks")],
)
def test_growth_on_the_circle(beta, ratio, attention, kind):
    kappa = ratio * critical_kappa(beta, 2, attention)
    states = only(stationary_states(beta, kappa, 2, attention), kind)
    assert states
    for state in states:
        rates = circle_growth(beta, kappa, attention, state)
        rotation = np.argmin(np.abs(rates))
        assert abs(rates[rotation]) < 1e-6
        assert state.growth == pytest.approx(np.delete(rates, rotation).max(), rel=1e-5, abs=1e-6)


def sphere_spectrum(beta, kappa, attention, state, m, degrees=16):
    """Growth rates on the 2-sphere for perturbations `Re (x+iy)^m q(z)`, from `d/dt ∫ Y dmu = ∫ (ΔY/kappa + ∇Y·b) dmu`.

    In Cartesian coordinates, all integrals by quadrature over the sphere.
    """
    z, wz = np.polynomial.legendre.leggauss(28)
    phi = np.arange(28) * 2 * np.pi / 28
    z, phi = (a.ravel() for a in np.meshgrid(z, phi, indexing="ij"))
    w = np.repeat(wz, 28) / wz.sum() / 28
    r = np.sqrt(1 - z * z)
    x = np.stack([r * np.cos(phi), r * np.sin(phi), z], axis=1)
    power, lower = (x[:, 0] + 1j * x[:, 1]) ** m, m * (x[:, 0] + 1j * x[:, 1]) ** max(m - 1, 0)
    Y, dY, eigenvalue = [], [], []
    for degree in range(max(m, 1), degrees):
        q = np.polynomial.legendre.Legendre.basis(degree).deriv(m)
        q = q / abs(q(1.0))
        gradient = np.stack([lower.real * q(z), -lower.imag * q(z), power.real * q.deriv()(z)], axis=1)
        Y.append(power.real * q(z))
        dY.append(gradient - (gradient * x).sum(axis=1)[:, None] * x)
        eigenvalue.append(-degree * (degree + 1))
    Y, dY, p = np.array(Y), np.array(dY), state.density(z)
    kernel = np.exp(beta * (x @ x.T - 1)) * w
    scale = np.exp(beta) if attention == USA else 1.0
    Z = kernel @ p if attention == SA else np.ones_like(p)
    b = scale * (kernel @ (p[:, None] * x)) / Z[:, None]
    matrix = (np.array(eigenvalue)[:, None] / kappa * Y + (dY * b).sum(axis=2)) @ (w * Y).T
    for j, y in enumerate(Y):
        change = scale * (kernel @ (y[:, None] * x)) / Z[:, None]
        if attention == SA:
            change = change - b * (kernel @ y / Z)[:, None]
        matrix[:, j] += (dY * change).sum(axis=2) @ (w * p)
    return np.sort(np.linalg.eigvals(np.linalg.solve(Y @ (w * Y).T, matrix)).real)[::-1]


@pytest.mark.parametrize(
    ("beta", "ratio", "attention", "kind"),
    [(2.0, 1.2, USA, "one peak"), (3.0, 1.5, SA, "one peak"), (3.0, 3.5, SA, "l = 2, poles low")],
)
def test_growth_on_the_2_sphere(beta, ratio, attention, kind):
    kappa = ratio * critical_kappa(beta, 3, attention)
    state = only(stationary_states(beta, kappa, 3, attention), kind)[-1]
    spectra = [sphere_spectrum(beta, kappa, attention, state, m) for m in range(3)]
    rotation = np.argmin(np.abs(spectra[1]))
    assert abs(spectra[1][rotation]) < 1e-7
    spectra[1] = np.delete(spectra[1], rotation)
    assert state.growth == pytest.approx(max(s[0] for s in spectra), rel=1e-6)
    problem, path, _ = next(b for b in branches(beta, 3, attention, state.mode, math.log(ratio)) if b[2] == kind)
    x = crossings(problem, path, math.log(ratio))[-1]
    for m, known in enumerate(spectra):
        found = np.sort(np.linalg.eigvals(sector(problem, x, math.log(ratio), m)).real)[::-1] / kappa
        found = np.delete(found, np.argmin(np.abs(found))) if m == 1 else found
        assert found[:3] == pytest.approx(known[:3], rel=1e-6)


@pytest.mark.parametrize("attention", [USA, SA])
@pytest.mark.parametrize("d", [2, 3, 4, 8])
def test_spectrum_has_the_rotation_and_the_uniform_rates(d, attention):
    problem = SelfConsistency(3.0, d, attention)
    modes = np.arange(1, 4)
    for m in range(3):
        found = np.sort(np.linalg.eigvals(sector(problem, np.zeros(len(problem.degrees)), 0.4, m)).real)[::-1]
        known = modes * (modes + d - 2) * (math.exp(0.4) * problem.rho[:3] - 1)
        assert found[: 4 - max(m, 1)] == pytest.approx(np.sort(known[max(m, 1) - 1 :])[::-1], abs=1e-9)
    point = trace(problem, 1, 1, 0.3).points[-1]
    assert np.abs(np.linalg.eigvals(sector(problem, point.x, point.sigma, 1))).min() < 1e-9
