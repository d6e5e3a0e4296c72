"""Derivatives by the ends of smooth segments, and by numbers whose trial steps leave the domain of the equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows import segments
from tokenfield.solver.langevin import Langevin
from tokenfield.solver.methods import RUNGE_KUTTA

from .compare import SHORT

START = tkf.Equiangular(rho=0.1, n=5)


def central(function, at, step=1e-4):
    return float(function(at + step) - function(at - step)) / (2 * step)


def mixed(tau):
    model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.MixLN(tau=tau))
    return tkf.solve(model, START, 2.0, **SHORT).final.rho


def stepped(t1):
    """A(t) jumps at 0.5: the right-hand side at the end is that after the jump."""
    model = tkf.Transformer(
        tkf.Softmax(beta=lambda t: jnp.where(t < 0.5, 1.0, 3.0)), norm=tkf.PostLN(), breakpoints=[0.5]
    )
    return tkf.solve(model, START, t1, **SHORT).final.rho


@pytest.mark.slow
@pytest.mark.parametrize(("function", "at"), [(mixed, 0.7), (stepped, 0.9)])
def test_ends_of_segments(function, at):
    expected = central(function, at)
    assert float(jax.grad(function)(at)) == pytest.approx(expected, rel=1e-6)
    assert float(jax.jvp(function, (at,), (1.0,))[1]) == pytest.approx(expected, rel=1e-6)


def test_a_jump_at_the_end_is_not_seen():
    model = tkf.Transformer(
        tkf.Softmax(beta=lambda t: jnp.where(t < 0.5, 1.0, 1e3)), norm=tkf.PostLN(), breakpoints=[0.5]
    )
    plain = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
    found, expected = (tkf.solve(each, START, 0.5, **SHORT).final.rho for each in (model, plain))
    assert float(found) == pytest.approx(float(expected), abs=1e-12)


def test_rejected_steps_that_leave_the_domain_do_not_reach_the_gradient():
    """Pre-LN towards length 0: trial steps beyond it have a right-hand side that is NaN."""

    def length(v):
        model = tkf.Transformer(tkf.Softmax(beta=1.0, V=v), norm=tkf.PreLN())
        return jnp.linalg.norm(tkf.solve(model, tkf.Tokens([[1.0, 0.0]]), 0.99, dt=None, rtol=1e-4, atol=1e-4).final.x)

    assert float(jax.grad(length)(-1.0)) == pytest.approx(0.99, rel=1e-6)  # |x| = 1 + v t
    assert float(jax.jvp(length, (-1.0,), (1.0,))[1]) == pytest.approx(0.99, rel=1e-6)


def test_nor_do_those_of_a_method_that_is_given_as_an_object():
    """V jumps from 0 to v I at t = 5, so that the first long steps across it have stages beyond length 0."""

    def length(v):
        model = tkf.Transformer(
            tkf.Softmax(beta=1.0, V=lambda t: jnp.where(t < 5, 0.0, v) * jnp.eye(2)), norm=tkf.PreLN()
        )
        options = {"rtol": 1e-8, "atol": 1e-8, "method": RUNGE_KUTTA["tsit5"]}
        return jnp.linalg.norm(tkf.solve(model, tkf.Tokens([[1.0, 0.0]]), 5.9, **options).final.x)

    assert float(jax.grad(length)(-1.0)) == pytest.approx(0.9, rel=1e-6)  # |x| = 1 + v (t - 5)


def test_members_that_do_not_stop_have_gradients():
    """The derivative of all members at once, one of which does not reach the stop."""

    def times(betas):
        def one(beta):
            model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
            return tkf.solve(model, START, 2.0, save_at=[0.0, 1.0], stop_when=tkf.cosine_above(0.5), **SHORT)

        return jax.vmap(one)(betas)

    betas = jnp.array([0.1, 9.0])
    found = times(betas)
    assert np.isfinite(np.asarray(found.event_time)).tolist() == [True, False]
    gradient = jax.grad(lambda betas: times(betas).final.rho.sum())(betas)
    assert np.isfinite(np.asarray(gradient)).all()
    alone = jax.grad(lambda beta: times(jnp.array([0.1, beta])).final.rho[1])(9.0)
    assert float(gradient[1]) == pytest.approx(float(alone), rel=1e-10)


def test_a_margin_that_is_nan_leaves_the_gradients_of_other_members_alone():
    """A member whose margin is NaN at its end does not stop, also where others stop."""
    starts = jnp.stack([tkf.uniform_sphere(6, 3, seed=seed).x for seed in (4, 5, 9)])
    margin = lambda state: jnp.sqrt(state.x[0, 0] + 0.2) - 0.5  # noqa: E731

    def end(beta, x):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        solution = tkf.solve(model, tkf.Tokens(x), 2.0, stop_when=margin, max_steps=64)
        return solution.final.x[1, 0], (margin(solution.final), solution.event_time)

    gradient = jax.value_and_grad(end, has_aux=True)
    (_, (margins, times)), slopes = jax.jit(jax.vmap(gradient, (None, 0)))(1.0, starts)
    assert np.isfinite(times).tolist() == [True, False, True]
    assert np.isnan(margins).tolist() == [False, True, False]
    alone = jax.jit(gradient)
    np.testing.assert_allclose(slopes, [float(alone(1.0, x)[1]) for x in starts], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lawson"}, "method 'lawson' is for densities, got Equiangular"),
        ({"method": tkf.Layers(1.0), "dt": 0.1}, "dt and key belong to a method given by its name"),
        ({"method": "coarsen"}, "method 'coarsen' merges tokens"),
        ({"method": Langevin("heun", jnp.asarray(0.1), jax.random.key(0))}, "method must be one without noise"),
        ({"key": jax.random.key(0)}, "key was given, but nothing in this model is random"),
        ({"save_at": [0.5, 0.2]}, r"save_at must increase within \[0, t1\] = \[0, 1\], got"),
        ({"save_at": [2.0]}, r"save_at must increase within \[0, t1\] = \[0, 1\], got"),
        ({"adjoint": 3}, "adjoint must be None or one of diffrax.ForwardMode"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
    with pytest.raises(ValueError, match=message):
        tkf.solve(model, START, 1.0, **options)


@pytest.mark.parametrize("random", [False, True])
def test_stops_at_the_end_of_a_step_have_no_slope(random):
    """One token under V = v: the fourth layer of size 0.1 ends at (1 + 0.1 v)^4 > 1.4, with derivative 0.4 (1 + 0.1 v)^3."""
    options = {"key": jax.random.key(0), "dt": 0.1, "method": "euler"} if random else {"method": tkf.Layers(0.1)}
    noise = tkf.EuclideanNoise(kappa=1e300) if random else None

    def end(v):
        model = tkf.Transformer(tkf.Softmax(beta=0.0, V=v), noise=noise)
        stop = lambda state: state.x[0, 0] - 1.4  # noqa: E731
        found = tkf.solve(model, tkf.Tokens([[1.0]]), 1.0, stop_when=stop, **options)
        return found.event_time, found.final.x[0, 0]

    value, slope = jax.jvp(end, (1.0,), (1.0,))
    np.testing.assert_allclose(value, [0.4, 1.1**4], rtol=1e-12)
    np.testing.assert_allclose(slope, [np.nan, 0.4 * 1.1**3], rtol=1e-12)
    assert float(jax.grad(lambda v: end(v)[1])(1.0)) == pytest.approx(0.4 * 1.1**3, rel=1e-12)


def test_noise_is_not_dropped_by_a_method_without_noise():
    model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(4.0))
    with pytest.raises(ValueError, match="method must be one of heun, euler for a model with noise, got RungeKutta"):
        tkf.solve(model, tkf.uniform_sphere(4, 3, seed=0), 1.0, method=RUNGE_KUTTA["heun"])


def test_the_time_of_a_blow_up_has_no_slope():
    def end(v):
        model = tkf.Transformer(tkf.Softmax(A=jnp.eye(1), V=v))
        return tkf.solve(model, tkf.Gaussian(jnp.zeros(1), jnp.eye(1)), 5.0).event_time  # at 1/(2 v)

    value, slope = jax.value_and_grad(end)(1.0)
    assert abs(value - 0.5) < 1e-3
    assert np.isnan(slope)
    assert np.isnan(jax.jvp(end, (1.0,), (1.0,))[1])


X = tkf.uniform_sphere(5, 3, seed=0)
LAYER = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())


def velocities(states):
    flow = segments(X, LAYER)[0].flow
    return np.stack([flow.velocity(jnp.zeros(()), flow.pack(tkf.Tokens(x))).theta for x in np.asarray(states)])


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd])
def test_an_end_that_is_also_the_end_of_a_segment(mode):
    """The right-hand side is the same on both sides, so the derivative by t1 is the velocity, and that by tau is 0."""

    def by_layers(t1):
        return tkf.solve(tkf.by_layer([LAYER, LAYER, LAYER]), X, t1, **SHORT).final.x

    def by_norms(tau, t1):
        model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.MixLN(tau))
        return tkf.solve(model, X, t1, **SHORT).final.normalized().x

    expected = velocities([by_layers(1.0)])[0]
    np.testing.assert_allclose(mode(by_layers)(1.0), expected, atol=1e-9)
    by_tau, by_t1 = mode(by_norms, (0, 1))(1.0, 1.0)
    np.testing.assert_allclose(by_t1, expected, atol=1e-9)
    np.testing.assert_allclose(by_tau, 0, atol=1e-9)


@pytest.mark.parametrize(
    "method", ["tsit5", "dopri8"]
)  # with an interpolant, and with steps that end at the save times
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivatives_by_save_times_are_velocities(method, mode):
    """At the start, within a segment, at its end, and at the end of the run."""
    times, model = jnp.array([0.0, 0.5, 1.0, 1.5]), tkf.by_layer([LAYER, LAYER])
    saved = lambda times, t1: tkf.solve(model, X, t1, save_at=times, **SHORT | {"method": method})  # noqa: E731
    expected = np.zeros((4, 5, 3, 4))
    for k, velocity in enumerate(velocities(saved(times, 1.5).states.x)):
        expected[k, ..., k] = velocity
    found, by_t1 = mode(lambda times, t1: saved(times, t1).states.x, (0, 1))(times, 1.5)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(by_t1, 0, atol=1e-9)
    np.testing.assert_allclose(mode(lambda t1: saved(times, t1).final.x)(1.5), expected[3, ..., 3], atol=1e-9)


def test_save_times_that_are_not_reached_have_no_slope():
    """The length 1 - t reaches 0 at t = 1, in a step that is rejected because its stages are NaN."""
    model = tkf.Transformer(tkf.Softmax(beta=1.0, V=-1.0), norm=tkf.PreLN())
    early = lambda times: tkf.solve(model, tkf.Tokens([[1.0, 0.0]]), 3.0, save_at=times).states.x[0, 0, 0]  # noqa: E731
    for mode in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(mode(early)(jnp.array([0.25, 2.0])), [-1, 0], atol=1e-6)


def test_a_save_time_at_the_end_of_a_density():
    start = tkf.CircleDensity.from_function(lambda a: np.exp(np.cos(a)), modes=32)
    end = lambda t1, times: tkf.solve(LAYER, start, t1, save_at=times, max_steps=64).final.coefficients  # noqa: E731
    alone, together = (jax.jacfwd(end)(0.3, jnp.array([time])) for time in (0.1, 0.3))
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.abs(alone).max() > 0.1


DIFFERENTIATE = (
    jax.grad,
    lambda f: jax.jit(jax.grad(f)),
    lambda f: lambda p: jax.jvp(f, (p,), (1.0,))[1],
    lambda f: lambda p: jax.vmap(jax.grad(f))(jnp.array([p, p]))[1],
)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("differentiate", DIFFERENTIATE)
def test_rules_and_models_that_close_over_a_parameter(differentiate):
    """The time of the stop is differentiated by the level of the rule, and by beta(t), through a function of the user."""

    def level(p):
        return tkf.solve(LAYER, START, 10.0, stop_when=lambda state: state.rho - p, **SHORT).event_time

    def sharpness(p):
        model = tkf.Transformer(tkf.Softmax(beta=lambda t: p * (1 + 0.3 * jnp.sin(t))), norm=tkf.PostLN())
        return tkf.solve(model, START, 10.0, stop_when=tkf.cosine_above(0.5), **SHORT).event_time

    for function in (level, sharpness):
        assert float(differentiate(function)(0.5)) == pytest.approx(central(function, 0.5), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("differentiate", DIFFERENTIATE[:3])
def test_a_condition_that_closes_over_a_parameter_has_no_slope(differentiate):
    function = lambda p: tkf.solve(LAYER, START, 10.0, stop_when=lambda state: state.rho > p).event_time  # noqa: E731
    with pytest.raises(Exception, match="stop_when has no derivative here"):
        differentiate(function)(0.5)


def test_members_that_take_fewer_noisy_steps_have_gradients():
    def end(kappa):
        model = tkf.Transformer(tkf.Unnormalized(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa))
        return tkf.solve(model, X, 0.5, key=jax.random.key(1), max_steps=64, dt=0.05 / (1 + kappa)).final.x[0, 0]

    kappas = jnp.array([4.0, 1.0])
    alone = [float(jax.grad(end)(kappa)) for kappa in kappas]
    np.testing.assert_allclose(jax.vmap(jax.grad(end))(kappas), alone, rtol=1e-9)


def test_a_traced_tau_beside_a_moving_context_is_refused():
    context, encoder = tkf.uniform_sphere(4, 3, seed=3), LAYER

    def run(tau):
        model = tkf.Transformer(
            tkf.Softmax(beta=2.0), norm=tkf.MixLN(tau), cross=tkf.Softmax(beta=1.5), context=context, encoder=encoder
        )
        return tkf.solve(model, X, 1.5).final.x

    with pytest.raises(ValueError, match="tau of MixLN is traced, and the context moves too"):
        jax.jit(run)(0.7)
