"""Each stepper has the order that it claims, on the sphere as in R^d; adaptive errors match what was asked."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

import tokenfield as tkf
from tokenfield.solver.methods import RUNGE_KUTTA, UNCONTROLLED

START = tkf.equiangular_tokens(0.0, 2)  # USA at beta = 0: rho = tanh t
MODEL = tkf.Transformer(tkf.Unnormalized(0.0), tkf.PostLN())


def sphere_error(t1=1.0, **options):
    x = np.asarray(tkf.simulate(MODEL, START, t1, save_at=2, **options).final.x)
    return abs(np.arctan2(x[0, 1], x[0, 0]) - (np.pi / 2 - np.arccos(np.tanh(t1))) / 2)


@pytest.mark.parametrize("method", [name for name in RUNGE_KUTTA if RUNGE_KUTTA[name].order <= 5 and name != "lawson"])
def test_fitted_slope_is_the_claimed_order_on_the_sphere(method):
    steps = np.array([16, 32, 64])
    errors = [sphere_error(2.0, method=method, dt=2.0 / k) for k in steps]
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert abs(slope - RUNGE_KUTTA[method].order) < 0.5


def test_fitted_slope_is_eight_on_the_sphere():
    """Almost opposite tokens need steps so small that errors of order 8 stay above rounding: `tan φ/2` decays as e^{-t}."""
    angle, t1, steps = 3.1, 8.0, np.array([16, 22, 30])
    start = tkf.circle_tokens([angle / 2, -angle / 2])
    ends = [np.asarray(tkf.simulate(MODEL, start, t1, save_at=2, method="dopri8", dt=t1 / k).final.x) for k in steps]
    exact = np.arctan(np.tan(angle / 2) * np.exp(-t1))
    errors = [abs(np.arctan2(x[0, 1], x[0, 0]) - exact) for x in ends]
    assert min(errors) > 1e-14
    assert abs(-np.polyfit(np.log(steps), np.log(errors), 1)[0] - 8) < 0.5


@pytest.mark.parametrize("method", [name for name in RUNGE_KUTTA if name != "lawson"])
def test_fitted_slope_is_the_claimed_order_in_space(method):
    """One token under softmax attention with V = (1+t) M is linear: x = e^{(t+t²/2) M} x_0."""
    M = np.array([[0.3, -1.2], [0.8, -0.5]])
    model, start = tkf.Transformer(tkf.Softmax(1.0, V=lambda t: (1 + t) * M)), tkf.Tokens([[1.0, 0.5]])
    steps = np.array([5, 8, 12] if RUNGE_KUTTA[method].order > 5 else [32, 64, 128])
    exact = expm(4.0 * M) @ np.array([1.0, 0.5])
    runs = [tkf.simulate(model, start, 2.0, method=method, dt=2 / k, save_at=2).final.x[0] for k in steps]
    slope = -np.polyfit(np.log(steps), np.log([np.abs(x - exact).max() for x in runs]), 1)[0]
    assert abs(slope - RUNGE_KUTTA[method].order) < 0.5


ADAPTIVE = [name for name in RUNGE_KUTTA if name not in (*UNCONTROLLED, "lawson")]


@pytest.mark.grid
@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("method", ADAPTIVE)
def test_adaptive_error_is_within_ten_times_the_tolerance(method, tolerance):
    error = sphere_error(2.0, method=method, rtol=0, atol=tolerance)
    assert error < 10 * tolerance


@pytest.mark.parametrize("method", ADAPTIVE)
def test_adaptive_error_is_what_the_tolerance_and_the_method_say(method):
    """For `x' = x` all steps are alike. The controller rests where `0.9 size^{-0.4/order} = 1`, which fixes the step;
    the constants of the method then say the error to a few percent, so that a wrong factor in a size shows."""
    tableau, order, tolerance = RUNGE_KUTTA[method].stages.solver.tableau, RUNGE_KUTTA[method].order, 1e-8
    t1 = 50.0 if order > 5 else 10.0  # long enough for many steps

    def step(h):
        k = [1.0]
        for row in tableau.a_lower:
            k.append(1 + h * sum(a * each for a, each in zip(row, k, strict=True)))
        return 1 + h * (tableau.b_sol @ k), abs(h * (tableau.b_error @ k))

    def excess(h):
        x, error = step(h)
        return error / (tolerance * x) - 0.9 ** (order / 0.4)

    h = brentq(excess, 1e-6, 2.0)
    expected = t1 / h * abs(np.log(step(h)[0]) - h)
    model, start = tkf.Transformer(tkf.Softmax(1.0)), tkf.Tokens([[1.0, 0.5]])
    x = tkf.simulate(model, start, t1, method=method, rtol=tolerance, atol=1e-300, save_at=2).final.x
    assert abs(np.log(x[0, 0]) - t1) == pytest.approx(expected, rel=0.15)
    assert tolerance / 10 < expected < 10 * tolerance


def test_states_between_steps_are_as_good_as_the_steps():
    traj = tkf.simulate(MODEL, START, 2.0, rtol=0, atol=1e-8, save_at=57)
    rho = np.einsum("td,td->t", *np.moveaxis(traj.dataset["x"].values, 1, 0))
    np.testing.assert_allclose(rho, np.tanh(traj.times), atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(traj.dataset["x"], axis=2), 1, atol=1e-14)
    assert traj.dataset.attrs["steps"] < 57


def test_steps_do_not_depend_on_the_frame():
    """Errors are measured by Euclidean lengths, so a rotated run takes the same steps."""
    model, start = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN()), tkf.uniform_sphere(12, 3, seed=5)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    a = tkf.simulate(model, start, 5.0, rtol=1e-5)
    b = tkf.simulate(model, tkf.Tokens(start.x @ turn.T), 5.0, rtol=1e-5)
    np.testing.assert_allclose(b.final.x, a.final.x @ turn.T, atol=1e-12)


@pytest.mark.slow
def test_published_metastable_circle_has_reproducible_merge_times():
    """n=5, d=2, beta=4: the time of the last merge (order parameter) at two tolerances."""
    angles = [0.06219714, 0.21432297, 1.81912262, 2.91107101, -3.09524835]
    model = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())
    times = []
    for tolerance in (1e-8, 1e-11):
        history = []
        for level in (0.5, 0.9, 0.999):
            traj = tkf.simulate(
                model,
                tkf.circle_tokens(angles),
                400.0,
                rtol=tolerance,
                atol=1e-14,
                stop_when=tkf.order_above(level),
                save_at=2,
            )
            history.append(traj.events[0].time)
        pair = tkf.simulate(
            model, tkf.circle_tokens(angles), 400.0, rtol=tolerance, atol=1e-14, stop_when=tkf.one_cluster(), save_at=2
        )
        times.append([*history, pair.events[0].time])
    np.testing.assert_allclose(times[0], times[1], rtol=1e-5)
    assert abs(times[1][-1] - 328.364) < 2e-3


@pytest.mark.slow
def test_fitted_slope_is_the_claimed_order_for_a_noisy_density():
    model = tkf.Transformer(tkf.Softmax(2.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(20.0))
    start = tkf.CircleDensity.from_function(lambda t: np.exp(1.5 * np.cos(t) + np.sin(2 * t)), 48)
    end = lambda **options: np.asarray(tkf.simulate(model, start, 1.0, save_at=2, **options).final.coefficients)  # noqa: E731
    exact = end(rtol=1e-12, atol=1e-14)
    steps = np.array([5, 10, 20])
    errors = [np.abs(end(dt=1 / n, method="lawson") - exact).max() for n in steps]
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert min(errors) > 1e-11  # far above rounding
    assert slope > RUNGE_KUTTA["lawson"].order - 0.5  # 6 on this problem: the method's terms of order 6 nearly vanish
    explicit = end(method="tsit5", rtol=1e-10, atol=1e-12)
    assert np.abs(explicit - exact).max() < 1e-8
