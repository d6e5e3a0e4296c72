"""What the claims on chaos in time are measured with: closed forms against the linearized equation and the Gibbs law."""

import math

import numpy as np
import pytest


def test_fluctuations_end_at_the_gibbs_law():
    from tokenfield.atlas.claims.chaos_in_time import fluctuation
    from tokenfield.atlas.claims.mckean_vlasov import finite_moments

    times = np.array([0.0, 0.01, 60.0])
    off = {n: fluctuation(n, 1.0, times)[-1] / (n * finite_moments(n, 1.0)[0]) - 1 for n in (50, 100, 200)}
    assert abs(off[200]) < 2e-3
    assert off[50] / off[100] == pytest.approx(4, rel=0.1)  # of order n^-2
    assert off[100] / off[200] == pytest.approx(4, rel=0.1)
    start = fluctuation(50, 1.0, times)
    assert start[0] == 1
    assert (start[1] - 1) / 0.01 == pytest.approx(1 - 1 / 50, rel=0.02)  # n u' = (1 - 2/kappa) + 2/kappa - 1/n


def adjoint(law, kappa, points=128):
    """The adjoint of the linearized noisy Kuramoto equation in a basis of Fourier modes, by loops: (k, j) on `e^{ij theta}`."""
    modes = np.arange(-points // 4, points // 4 + 1)
    angles = 2 * np.pi * np.arange(points) / points
    weights = law(angles) / law(angles).sum()
    z = weights @ np.exp(1j * angles)
    matrix = np.zeros((len(modes), len(modes)), complex)
    for column, j in enumerate(modes):
        slope = 1j * j * np.exp(1j * j * angles)
        drift = (z * np.exp(-1j * angles)).imag
        mean = weights @ (slope * np.exp(-1j * angles)), weights @ (slope * np.exp(1j * angles))
        image = -j * j / kappa * np.exp(1j * j * angles) + drift * slope
        image += (np.exp(1j * angles) * mean[0] - np.exp(-1j * angles) * mean[1]) / 2j  # ∫ f' sin(phi - theta) dmu
        for row, k in enumerate(modes):
            matrix[row, column] = (image * np.exp(-1j * k * angles)).mean()
    return modes, angles, weights, matrix


def test_wandering_against_the_linearized_equation():
    from tokenfield.atlas.claims.chaos_in_time import ordered_law, wandering

    kappa = 3.0
    _, x = ordered_law(kappa)
    modes, angles, weights, matrix = adjoint(lambda a: np.exp(x * np.cos(a)), kappa)
    odd = matrix - matrix[:, ::-1]  # on sines; the zero mode is odd
    values, vectors = np.linalg.eig(odd[len(modes) // 2 + 1 :, len(modes) // 2 + 1 :])
    k = modes[len(modes) // 2 + 1 :]
    zero = vectors[:, np.argmin(np.abs(values))].real
    assert np.abs(values).min() < 1e-10
    slope = (k * zero) @ np.cos(np.outer(k, angles))
    slope /= weights @ slope
    assert 2 / kappa * (weights @ slope**2) == pytest.approx(wandering(kappa), rel=1e-9)


def test_phase_of_turned_tokens():
    from tokenfield.atlas.claims.chaos_in_time import Runs, ordered_law, phase

    _, x = ordered_law(3.0)
    angles = 2 * np.pi * np.arange(400) / 400
    weights = np.exp(x * np.cos(angles))
    turned = np.linspace(0, 9, 40)  # more than once around
    z = [[(weights @ np.exp(1j * k * (angles + a))) / weights.sum() for k in range(1, 5)] for a in turned]
    assert phase(Runs(400, 3.0, np.array([z])))[0] == pytest.approx(turned, abs=1e-10)


def test_amplitude_of_the_saddle_is_an_eigenfunction():
    """`E a` grows at λ in the mean field: checked by the flow of weighted points with heat between the steps."""
    from tokenfield.atlas.claims.chaos_metastable import BETA, GRID, KAPPA, saddle

    at = saddle(BETA, KAPPA)
    apart = at.angles[:, None] - at.angles
    pull = -np.sin(apart) * np.exp(BETA * np.cos(apart))
    waves = 1j * np.fft.fftfreq(GRID, 1 / GRID)

    def velocity(p):
        return np.fft.ifft(waves**2 * np.fft.fft(p) / KAPPA - waves * np.fft.fft(p * (pull @ p))).real

    assert np.abs(velocity(at.law)).max() < 1e-9
    bump = 1e-6 * at.law * np.sin(at.angles)
    growth = at.mode @ (velocity(at.law + bump) - velocity(at.law - bump)) / (2 * at.mode @ bump)
    assert growth == pytest.approx(at.rate, rel=1e-6)
    assert at.rate == pytest.approx(at.growth, rel=1e-7)
    h = 1e-4
    slope = (at.variance(h) - at.variance(0.0)) / h  # n (E a²)' = 2 λ E a² + (2/kappa) ∫ f'² dmu
    assert at.variance(0.0) == pytest.approx(at.start)
    assert slope == pytest.approx(2 * at.rate * (at.start + at.noise), rel=1e-3)
    assert at.rate * math.exp(BETA) > 1
