"""Gegenbauer polynomials, orthonormal for the law of a coordinate on the sphere."""

import numpy as np
import pytest

from tokenfield.spectral.gegenbauer import basis, gauss, log_dimension, polynomials


@pytest.mark.parametrize("d", [2, 3, 4, 8, 101])
def test_polynomials_are_orthonormal_and_reach_the_dimension(d):
    t, weights = gauss(40, d)
    assert np.abs(basis(40, d).T @ (weights[:, None] * basis(40, d)) - np.eye(40)).max() < 2e-13
    values, slopes = polynomials(np.array([1.0, 0.3, 0.3 + 1e-6]), 6, d)
    assert values[0] ** 2 == pytest.approx(np.exp(log_dimension(np.arange(6), d)), rel=1e-11)
    assert (values[2] - values[1]) / 1e-6 == pytest.approx(slopes[1], rel=1e-4, abs=1e-4)
    assert weights @ t**2 == pytest.approx(1 / d, rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_quadrature_and_basis_are_right_to_rounding(d):
    """The Laplacian multiplies what is not orthonormal by modes^2, so it must be rounding and no more."""
    values, weights = basis(200, d), gauss(200, d).weights
    assert np.abs(values.T @ (weights[:, None] * values) - np.eye(200)).max() < 5e-15
