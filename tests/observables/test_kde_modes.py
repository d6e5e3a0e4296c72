"""Every maximum of a kernel density, against dense grids and cases known by hand."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.observables.kernel_density import kde_modes


def derivative(x, points, weights, beta, circle):
    """f' by the plain sum."""
    u = x[:, None] - points
    if circle:
        return (weights * -beta * np.sin(u) * np.exp(beta * (np.cos(u) - 1))).sum(1)
    return (weights * -beta * u * np.exp(-beta / 2 * u * u)).sum(1)


def on_a_dense_grid(points, weights, beta, circle):
    low, high = (0.0, 2 * np.pi) if circle else (points.min() - 0.01, points.max() + 0.01)
    x = np.linspace(low, high, 20_001)
    sign = np.sign(np.concatenate([derivative(part, points, weights, beta, circle) for part in np.array_split(x, 20)]))
    sign = sign[sign != 0]
    return int(((sign[:-1] > 0) & (sign[1:] < 0)).sum())


@pytest.mark.parametrize("circle", [False, True])
@pytest.mark.parametrize("beta", [0.3, 5.0, 60.0, 900.0])
@pytest.mark.parametrize("n", [3, 40, 300])
def test_against_a_dense_grid(circle, beta, n):
    rng = np.random.default_rng(n)
    points = rng.uniform(0, 2 * np.pi, n) if circle else rng.standard_normal(n)
    weights = rng.dirichlet(np.ones(n))
    tokens = tkf.Tokens(tkf.circle_tokens(points).x if circle else points[:, None], weights)
    modes = kde_modes(tokens, beta)
    assert len(modes) == on_a_dense_grid(points, weights, beta, circle)
    assert np.abs(derivative(modes, points, weights, beta, circle)).max() < 1e-11 * beta
    h = 1e-4 / beta**0.5
    assert (derivative(modes - h, points, weights, beta, circle) > 0).all()
    assert (derivative(modes + h, points, weights, beta, circle) < 0).all()


def test_two_points_split_at_twice_the_width():
    for beta in (0.01, 1.0, 400.0):
        assert len(kde_modes(np.array([0.0, 1.9999]) / beta**0.5, beta)) == 1
        assert len(kde_modes(np.array([0.0, 2.0001]) / beta**0.5, beta)) == 2


def test_a_shoulder_about_to_become_a_mode():
    """Unequal points near the fold, where the new pair of roots is far closer than the cells."""

    def count(gap, move):
        return len(kde_modes(tkf.Tokens(np.array([[move], [move + gap]]), [0.9, 0.1]), 1.0))

    low, high = 2.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if on_a_dense_grid(np.array([0.0, middle]), np.array([0.9, 0.1]), 1.0, False) > 1
            else (middle, high)
        )
    for move in np.linspace(0, 0.25, 7):
        assert count(high - 1e-3, move) == 1
        assert count(high + 1e-3, move) == 2


def test_far_points_and_large_beta():
    assert np.allclose(kde_modes([1e6, -3.0, 0.5, 0.5], 1e8), [-3.0, 0.5, 1e6])
    assert len(kde_modes(np.linspace(0, 6, 300), 1e8, "circle")) == 300
    assert len(kde_modes(np.random.default_rng(0).normal(size=20_000), 1e22)) == 20_000


def test_regular_polygon_and_one_point():
    angles = 2 * np.pi * np.arange(7) / 7 + 0.1
    np.testing.assert_allclose(kde_modes(angles, 200.0, "circle"), angles, atol=1e-9)
    assert kde_modes([0.4], 3.0).tolist() == [0.4]
    np.testing.assert_allclose(kde_modes([-0.4], 0.01, "circle"), [2 * np.pi - 0.4], atol=1e-9)


@pytest.mark.parametrize(
    ("state", "beta", "geometry", "message"),
    [
        ([1.0], 0.0, "line", "beta"),
        ([], 1.0, "line", "at least one point"),
        ([np.nan], 1.0, "line", "finite"),
        ([[1.0]], 1.0, "line", "vector"),
        ([1.0], 1.0, "ring", "geometry"),
        (tkf.uniform_sphere(3, 3), 1.0, "auto", "R\\^3"),
        (tkf.circle_tokens([0.0]), 1.0, "line", "geometry='line'"),
    ],
)
def test_wrong_input(state, beta, geometry, message):
    with pytest.raises(ValueError, match=message):
        kde_modes(state, beta, geometry)
