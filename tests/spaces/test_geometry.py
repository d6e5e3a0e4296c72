"""The geometry of each space, against closed forms."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

SPACES = {
    "euclidean": (tkf.Euclidean(), 3),
    "sphere": (tkf.Sphere(), 4),
    "torus": (tkf.Torus(), 4),
    "hyperbolic": (tkf.Hyperbolic(), 4),
}
each = pytest.mark.parametrize("name", SPACES)


def points(name, n=5, seed=0):
    space, d = SPACES[name]
    return space, np.asarray(tkf.tokens_in(space, n, d, seed=seed).x), d


def lorentz(x, y):
    return -x[..., 0] * y[..., 0] + (x[..., 1:] * y[..., 1:]).sum(-1)


def exact_distance(name, x, y):
    match name:
        case "euclidean":
            return np.sqrt(((x - y) ** 2).sum(-1))
        case "sphere":
            return np.arccos((x * y).sum(-1))
        case "torus":
            turn = lambda z: np.arctan2(z[..., 1::2], z[..., 0::2])  # noqa: E731
            apart = np.abs(turn(x) - turn(y))
            return np.sqrt((np.minimum(apart, 2 * np.pi - apart) ** 2).sum(-1))
        case _:
            return np.arccosh(-lorentz(x, y))


@each
def test_distances_have_their_closed_forms(name):
    space, x, _ = points(name, 40)
    y = points(name, 40, seed=1)[1]
    np.testing.assert_allclose(space.distance(x, y), exact_distance(name, x, y), rtol=1e-10, atol=1e-12)


@each
def test_samples_lie_in_the_space(name):
    _, x, _ = points(name, 40)
    match name:
        case "sphere":
            np.testing.assert_allclose((x**2).sum(-1), 1, rtol=0, atol=1e-14)
        case "torus":
            np.testing.assert_allclose((x.reshape(-1, 2) ** 2).sum(-1), 1, rtol=0, atol=1e-14)
        case "hyperbolic":
            assert (x[:, 0] >= 1).all()
            np.testing.assert_allclose(lorentz(x, x), -1, rtol=0, atol=1e-13 * x[:, 0].max() ** 2)


@each
def test_the_projection_is_the_derivative_of_nearest_points(name):
    """P_x is linear, keeps tangent vectors, and is orthogonal in the inner product of the space."""
    space, x, d = points(name)
    v, w = (np.random.default_rng(k).standard_normal(x.shape) for k in (1, 2))
    tangent = space.tangent(x, v)
    np.testing.assert_allclose(space.tangent(x, tangent), tangent, rtol=0, atol=1e-12 * (1 + np.abs(tangent).max()))
    along = jax.jvp(space.project, (jnp.asarray(x),), (jnp.asarray(tangent),))[1]
    np.testing.assert_allclose(along, tangent, rtol=0, atol=1e-12 * (1 + np.abs(tangent).max()))
    signs = space.signs(d)
    left, right = (signs * tangent * w).sum(-1), (signs * v * space.tangent(x, w)).sum(-1)
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-12 * (1 + np.abs(left).max()))


@each
def test_geodesics_have_constant_speed_and_log_undoes_exp(name):
    space, x, _ = points(name)
    v = 0.7 * space.tangent(x, np.random.default_rng(1).standard_normal(x.shape))
    v = v / jnp.maximum(1, jnp.sqrt(space.inner(v, v)) / 2.5)[:, None]  # shorter than half a turn
    length = np.sqrt(np.asarray(space.inner(v, v)))
    for part in (1e-9, 0.3, 1.0):
        end = space.exp(x, part * v)
        np.testing.assert_allclose(space.distance(x, end), part * length, rtol=1e-6 if part < 1e-6 else 1e-10)
    np.testing.assert_allclose(space.log(x, space.exp(x, v)), v, rtol=0, atol=1e-10)
    np.testing.assert_allclose(space.log(x, x), 0, rtol=0, atol=1e-7)
    speed = jax.jvp(lambda s: space.exp(x, s * v), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(speed, v, rtol=0, atol=1e-12)


@each
def test_a_retraction_follows_the_tangent_vector_to_first_order(name):
    space, x, _ = points(name)
    v = np.random.default_rng(3).standard_normal(x.shape)
    errors = [np.abs((space.retract(x, h * v) - x) / h - space.tangent(x, v)).max() for h in (1e-3, 1e-4)]
    assert errors[1] < 1e-9 or 8 < errors[0] / errors[1] < 12


@each
def test_derivatives_of_distances_are_unit_vectors_and_finite_where_points_meet(name):
    space, x, d = points(name, 2)
    gradient = jax.grad(lambda a, b: space.distance(a, b).sum())
    along = space.tangent(x[:1], space.signs(d) * gradient(jnp.asarray(x[:1]), jnp.asarray(x[1:])))
    direction = -space.log(x[:1], x[1:]) / space.distance(x[:1], x[1:])[:, None]
    np.testing.assert_allclose(along, direction, rtol=0, atol=1e-9)
    assert np.isfinite(gradient(jnp.asarray(x[:1]), jnp.asarray(x[:1]))).all()


def step_moment(space, d, f, variance):
    """The mean of f after one step of Brownian motion, by Gauss-Hermite quadrature over the tangent plane."""
    t, w = np.polynomial.hermite_e.hermegauss(60)
    a, b = (each.ravel() for each in np.meshgrid(t, t))
    weight = np.outer(w, w).ravel() / (2 * np.pi)
    x = np.asarray(tkf.tokens_in(space, 1, d, seed=4).x)
    if isinstance(space, tkf.Sphere):
        basis = np.linalg.qr(np.column_stack([x[0], np.eye(3)]))[0][:, 1:]
        xi = np.outer(a, basis[:, 0]) + np.outer(b, basis[:, 1])
    elif isinstance(space, tkf.Torus):
        xi = np.concatenate([np.outer(a, [-x[0, 1], x[0, 0]]), np.outer(b, [-x[0, 3], x[0, 2]])], axis=1)
    else:
        xi = np.stack([np.zeros_like(a), a, b], axis=1)
    many = np.broadcast_to(x, (len(a), d))
    return weight @ f(np.asarray(many + space.brownian(jnp.asarray(xi), jnp.asarray(many), variance)), x[0])


@pytest.mark.parametrize(
    ("space", "d", "f", "rate"),
    [
        (tkf.Sphere(), 3, lambda y, x: y @ x, -2),
        (tkf.Hyperbolic(), 3, lambda y, x: -lorentz(y, x), 2),
        (tkf.Hyperbolic(), 3, lambda y, x: lorentz(y, x) ** 2 - 1 / 3, 6),
    ],
)
def test_brownian_steps_have_weak_order_two(space, d, f, rate):
    """E f = e^{rate v/2} f for eigenfunctions f of the Laplacian: cosines, cosh r, and cosh^2 r - 1/3 with rate 2(m + 1)."""
    start = f(np.asarray(tkf.tokens_in(space, 1, d, seed=4).x), np.asarray(tkf.tokens_in(space, 1, d, seed=4).x)[0])[0]
    errors = [abs(step_moment(space, d, f, v) - np.exp(rate * v / 2) * start) for v in (0.08, 0.04)]
    assert errors[0] < 2e-3
    assert errors[0] / errors[1] > 7  # the error of one step falls like v^3


def test_brownian_steps_on_the_torus_are_exact():
    for k in (1, 2, 3):
        wave = lambda y, x, k=k: np.cos(k * (np.arctan2(y[:, 3], y[:, 2]) - np.arctan2(x[3], x[2])))  # noqa: E731
        assert abs(step_moment(tkf.Torus(), 4, wave, 0.5) - np.exp(-(k**2) * 0.25)) < 1e-12


def test_the_same_direction_is_pushed_alike_wherever_a_token_is():
    """Steps of Brownian motion in hyperbolic space have the covariance of the tangent space, far from the origin too."""
    space, x = tkf.Hyperbolic(), jnp.asarray([[np.cosh(3.0), np.sinh(3.0), 0.0]])
    tiny = 1e-12
    steps = (
        np.asarray(space.brownian(jnp.asarray([[5.0, 1.0, 0.0], [7.0, 0.0, 1.0]]), jnp.repeat(x, 2, 0), tiny))
        / tiny**0.5
    )
    gram = np.array([[lorentz(a, b) for a in steps] for b in steps])
    np.testing.assert_allclose(gram, np.eye(2), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tkf.tokens_in(tkf.Torus(), 4, 3), "Torus needs an even d, two coordinates for each angle, got d = 3"),
        (lambda: tkf.tokens_in(tkf.Hyperbolic(), 4, 1), "Hyperbolic needs d >= 2"),
        (lambda: tkf.tokens_in(tkf.Sphere(), 4, 1), "Sphere needs d >= 2"),
        (lambda: tkf.tokens_in("torus", 4, 4), "space must be a space such as Torus(), got 'torus'"),
        (lambda: tkf.Tokens([[1.0, 0.0]], space=tkf.Torus), "space must be a space such as Torus()"),
        (lambda: tkf.Projected("torus"), "space must be a space such as Torus(), got 'torus'"),
        (
            lambda: tkf.Transformer(tkf.Softmax(beta=1.0), space="torus"),
            "space must be a space such as Torus() or None",
        ),
        (
            lambda: tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), space=tkf.Torus()),
            "space: give a space or a norm, not both: PostLN has a space of its own",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        make()
    assert "\n" not in str(error.value)
