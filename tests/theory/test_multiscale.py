"""Phases at large beta: closed forms, and the attention of naive loops."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.special import ive

import tokenfield as tkf

A = np.array([[1.0, 0.5, 0.0], [0.0, 0.6, 0.3], [0.2, 0.0, 0.7]])
V = np.array([[1.0, 0.0, 0.1], [0.4, 0.7, 0.0], [0.0, -0.2, 0.8]])


def test_path_is_linear_in_its_own_time():
    """`x ∝ e^{sVA} x_0` with `dt = |Ax| ds`."""
    x0, t = np.array([0.3, -0.5, 0.7]), 1.7

    def at(s):
        y = expm(s * V @ A) @ x0
        return y / np.linalg.norm(y)

    s = brentq(lambda s: quad(lambda r: np.linalg.norm(A @ at(r)), 0, s, epsabs=1e-12)[0] - t, 0, 10, xtol=1e-13)
    found = tkf.theory.alignment_path([2 * x0, -x0], 30 * A, V, [0.0, 0.5, t])
    np.testing.assert_allclose(found[-1], [at(s), -at(s)], atol=1e-8)
    np.testing.assert_allclose(found[0, 0], x0 / np.linalg.norm(x0), atol=1e-12)


@pytest.mark.parametrize("values", [V, None, A.T, -0.5 * V.T @ A])
def test_rate_is_that_of_the_path(values):
    """The part of the slowest left eigenvector, divided by that of the leading one, decays and turns."""
    found = tkf.theory.alignment(A, values)
    B = A if values is None else values @ A
    rates, left = np.linalg.eig(B.T)
    order = np.argsort(-rates.real)
    path = tkf.theory.alignment_path(np.random.default_rng(0).normal(size=(5, 3)), A, values, [14.0, 15.0])
    if found.basis.shape[1] == 1:
        ratio = (path @ left[:, order[1]]) / (path @ left[:, order[0]])
        change = np.log(ratio[0] / ratio[1])
        np.testing.assert_allclose(change.real, found.rate, rtol=1e-3)
        np.testing.assert_allclose(np.abs(change.imag), found.frequency, atol=1e-3)
        assert np.abs(B @ found.basis - found.eigenvalue * found.basis).max() < 1e-12
    else:  # a complex pair leads: tokens turn in its plane
        off = np.linalg.norm(path - path @ found.basis @ found.basis.T, axis=2)
        assert (np.log(off[0] / off[1]) > 0.9 * found.rate).all()


def test_spirals_turn_at_the_frequency():
    A = np.diag([2.0, 1.0, 1.0]) + np.array([[0, 0, 0], [0, 0, -0.8], [0, 0.8, 0]])
    found = tkf.theory.alignment(A)
    assert found.rate == pytest.approx(0.5)
    assert found.frequency == pytest.approx(0.4)
    path = tkf.theory.alignment_path([[1.0, 1e-4, 0.0]], A, None, [0.0, 1.0])[1, 0]
    assert np.arctan2(path[2], path[1]) == pytest.approx(0.4, abs=1e-6)
    assert np.hypot(path[1], path[2]) == pytest.approx(1e-4 * math.exp(-0.5), rel=1e-6)


def test_leading_plane():
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    found = tkf.theory.alignment(turned @ np.diag([5.0, 5.0, 2.0, -1.0]) @ turned.T)
    np.testing.assert_allclose(found.basis @ found.basis.T, turned[:, :2] @ turned[:, :2].T, atol=1e-12)
    assert found.rate == pytest.approx(0.6)
    assert tkf.theory.alignment(3 * np.eye(4)).rate == math.inf


def naive_velocity(x, tokens, A, V):
    """Softmax attention of one token to others, projected, by loops."""
    scores = [sum(A[i, j] * x[j] * y[i] for i in range(len(x)) for j in range(len(x))) for y in tokens]
    weights = [math.exp(score - max(scores)) for score in scores]
    mean = [sum(w * y[i] for w, y in zip(weights, tokens, strict=True)) / sum(weights) for i in range(len(x))]
    moved = [sum(V[i, j] * mean[j] for j in range(len(x))) for i in range(len(x))]
    return np.array(moved) - sum(a * b for a, b in zip(moved, x, strict=True)) * np.array(x)


@pytest.mark.parametrize("beta", [20.0, 200.0])
def test_uniform_tokens_attend_to_their_image(beta):
    """On the circle the mean of attention is `I_1/I_0(|Ax|)` times `Ax/|Ax|` exactly, so that the path is the limit."""
    a, v = beta * A[:2, :2], V[:2, :2]
    angles = 2 * np.pi * np.arange(300) / 300
    tokens, x = np.c_[np.cos(angles), np.sin(angles)], np.array([math.cos(0.7), math.sin(0.7)])
    size = np.linalg.norm(a @ x)
    h = 1e-4
    limit = (tkf.theory.alignment_path([x], a, v, [0.0, h])[1, 0] - x) / h
    expected = ive(1, size) / ive(0, size) * limit
    assert naive_velocity(x, tokens, a, v) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize(("c", "v"), [(1.0, 1.0), (0.4, 1.0), (-0.5, 0.8), (0.0, 2.0)])
def test_collapse_of_a_bump(c, v):
    """`dt/dw` from the mean of attention, by quadrature: bump times `e^{beta a_2 eps delta - beta delta²/2}`."""
    beta, w, eps, h = 60.0, 0.2, 0.01, 1e-5
    density = lambda y: math.exp(-(y**2) / (2 * w**2) + beta * (c * eps * y - y**2 / 2))  # noqa: E731  # v_2 = 1
    mean = quad(lambda y: y * density(y), -2, 2)[0] / quad(density, -2, 2)[0]
    slope = (tkf.theory.collapse_time(0.3, w - h, beta, c, v) - tkf.theory.collapse_time(0.3, w + h, beta, c, v)) / (
        2 * h
    )
    assert 1 / (slope * w) == pytest.approx(v - mean / eps, rel=1e-5)
    parts = [tkf.theory.collapse_time(*pair, beta, c, v) for pair in ((0.3, 0.1), (0.1, 0.001), (0.3, 0.001))]
    assert parts[0] + parts[1] == pytest.approx(parts[2])
    near = tkf.theory.collapse_time(0.3, 0.01, beta, v * (1 - 1e-9), v)
    assert near == pytest.approx(tkf.theory.collapse_time(0.3, 0.01, beta, v, v), rel=1e-7)


def named(*args, **kwargs):
    return [(phase.name, phase.grows) for phase in tkf.theory.multiscale_phases(*args, **kwargs)]


def test_number_of_phases():
    assert named(50 * np.eye(3)) == [("clustering", "β"), ("pairing", "e^β")]
    assert named(np.diag([50.0, 50.0, 20.0])) == [("alignment", "1"), ("clustering", "β"), ("pairing", "e^β")]
    assert named(np.diag([50.0, 20.0])) == [("alignment", "1"), ("collapse", "log β"), ("pairing", "e^β")]
    held, drifts = np.diag([1.0, 0.3]), np.diag([0.8, 1.0])
    assert named(50 * np.eye(2), held) == [("alignment", "1"), ("collapse", "log β")]
    found = tkf.theory.multiscale_phases(np.diag([50.0, 30.0]), drifts)
    assert [phase.name for phase in found] == ["alignment", "collapse", "drift"]
    assert math.exp(-found[2].log_time) == pytest.approx(0.2)
    sizes = [tkf.theory.multiscale_phases(b * np.diag([1.0, 1, 0.4]), 2.0, cosine=0.25) for b in (30.0, 60.0)]
    change = [two.log_time - one.log_time for one, two in zip(*sizes, strict=True)]
    assert change == pytest.approx([0.0, math.log(2), 30 * 0.75])
    assert math.exp(sizes[0][1].log_time) == pytest.approx(30 / 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tkf.theory.alignment([[1.0, 1.0], [0.0, 1.0]]), "basis of eigenvectors"),
        (lambda: tkf.theory.alignment(np.ones((2, 3))), "square"),
        (lambda: tkf.theory.alignment(np.zeros((2, 2))), "A must not be zero"),
        (lambda: tkf.theory.alignment(np.eye(2), np.eye(3)), "V must have the shape of A"),
        (lambda: tkf.theory.alignment_path([[1.0, 0.0]], np.eye(2), None, [1.0, 0.5]), "times must be increasing"),
        (lambda: tkf.theory.alignment_path([[1.0, 0.0, 0.0]], np.eye(2), None, [1.0]), "x must have 2 columns"),
        (lambda: tkf.theory.alignment_path([[0.0, 0.0]], np.eye(2), None, [1.0]), "x must have no token"),
        (lambda: tkf.theory.collapse_time(0.1, 0.2, 10.0), "width1 must be at most"),
        (lambda: tkf.theory.collapse_time(0.2, 0.1, 10.0, c=1.5), "c must be at most v"),
        (lambda: tkf.theory.multiscale_phases(0.5 * np.eye(2)), "A must be above 1"),
        (lambda: tkf.theory.multiscale_phases(np.diag([9.0, 8, 2]), np.diag([8.0, 9, 1])), "A must be a number"),
        (lambda: tkf.theory.multiscale_phases(np.diag([9.0, 2, 2]), np.diag([0.5, 1, 1])), "V must have a single leading"),
    ],
)  # fmt: skip
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()
