"""Derivatives of the equiangular cosine, and of the time to reach one, against differentiated quadrature."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

from .compare import SHORT, TIGHT, error, in_both_modes, jacobians
from .equiangular import CASES, TAU, Case, N, by_quadrature, in_time, pre_by_quadrature, rates, time_to

GOAL = 0.999
KERNELS = {"softmax": tkf.Softmax, "unnormalized": tkf.Unnormalized}
NORMS = {
    "post": tkf.PostLN,
    "pre": tkf.PreLN,
    "peri": tkf.PeriLN,
    "mix": lambda: tkf.MixLN(TAU),
    "sqrt": tkf.SqrtScaling,
}

in_time, time_to = functools.cache(in_time), functools.cache(time_to)


def build(case, p):
    """The model and the state for `p = (beta, rho_0, third)`."""
    attention = KERNELS[case.kernel](beta=p[0], V=p[2] if case.third == "V" else None)
    norm = tkf.NGPT(alpha=p[2]) if case.norm == "ngpt" else NORMS[case.norm]()
    radius = p[2] if case.third == "radius" else 1.0
    return tkf.Transformer(attention, norm=norm), tkf.Equiangular(rho=p[1], n=N, radius=radius)


@functools.cache
def program(name):
    """`(p, t1, goal) -> (rho, r, time to the goal)` at the end of a run, with derivatives: one program for all tests."""

    slow = CASES[name].norm in ("pre", "peri", "mix")  # 1 - rho decays like t^-2
    options = TIGHT if slow else SHORT

    def run(p, t1, goal):
        found = tkf.solve(*build(CASES[name], p), t1, stop_when=tkf.cosine_above(goal), **options)
        return jnp.stack([found.final.rho, found.final.radius, found.event_time])

    return in_both_modes(run)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    """`d (rho, r)(t) / d (beta, rho_0, third)`, and `d t* / d (…)` where the run stops: the implicit function theorem."""
    case = CASES[name]
    value, exact = in_time(case, case.t)
    reached, modes = program(name)(case.p, case.t, GOAL)
    assert np.abs(reached[:2] - value).max() < 1e-10
    for mode, found in modes.items():
        assert error(found[0], exact[0]) < 1e-8, mode
        assert np.abs(found[0] - exact[0])[0] < 1e-8 * abs(exact[0, 0]), mode  # by beta itself
        assert np.abs(found[1] - exact[1]).max() < 1e-8 * max(1.0, np.abs(exact[1]).max()), mode

    value, exact = time_to(case, GOAL)
    reached, modes = program(name)(case.p, 4 * value, GOAL)
    assert abs(reached[2] / value - 1) < 1e-10
    for mode, found in modes.items():
        assert np.abs(found[2] / exact - 1).max() < 1e-8, mode


def test_a_stop():
    """At the stop rho is the goal whatever beta: its derivative is 0, and that of the radius is total, with the time's.

    A time that is not reached is infinite and has no slope.
    """
    case = CASES["SA, Pre-LN"]
    time, slope = time_to(case, 0.9)
    _, S = in_time(case, time)
    growth = rates(case, "pre", time, 0.9, in_time(case, time)[0][1], case.p)[1]
    for mode, found in program("SA, Pre-LN")(case.p, 4 * time, 0.9)[1].items():
        assert np.abs(found[0]).max() < 1e-8, mode
        assert error(found[1], S[1] + growth * slope) < 1e-8, mode
    value, modes = program("SA, Pre-LN")(case.p, 1.0, 0.9)
    assert value[2] == np.inf
    for mode, found in modes.items():
        assert not found[2].any() or np.isnan(found[2]).all(), mode  # no number that could be taken for a derivative


def test_second_derivatives_of_the_time_at_a_stop():
    """Against differences of the exact first derivatives, extrapolated; in forward over reverse mode."""
    case = CASES["SA, Pre-LN"]

    def slopes(p):
        return time_to(case._replace(beta=p[0], rho=p[1], value=p[2]), 0.9)[1]

    def differences(h):
        return np.stack([(slopes(case.p + h * e) - slopes(case.p - h * e)) / (2 * h) for e in np.eye(3)], -1)

    exact = (4 * differences(1e-3) - differences(2e-3)) / 3

    def stop(p):
        return tkf.solve(
            *build(case, p), 60.0, stop_when=tkf.cosine_above(0.9), **(TIGHT | {"max_steps": 2048})
        ).event_time

    found = jax.jit(jax.jacfwd(jax.jacrev(stop)))(jnp.asarray(case.p))
    assert error(found, exact) < 1e-7
    assert error(found.T, exact) < 1e-7


def test_a_margin_of_the_users_own_stops_there_too():
    case = CASES["SA"]
    value, exact = time_to(case, 0.9)
    margin = lambda state: state.rho - 0.9  # noqa: E731
    stop = lambda p: tkf.solve(*build(case, p), 4 * value, stop_when=margin, **TIGHT).event_time  # noqa: E731
    reached, modes = jacobians(stop, case.p)
    assert abs(reached / value - 1) < 1e-10
    for mode, found in modes.items():
        assert np.abs(found / exact - 1).max() < 1e-8, mode


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.norm in ("post", "ngpt", "sqrt")])
def test_the_reference_is_the_quadrature(name):
    """The variational equation and mpmath's integrals agree, in time and at the goal."""
    case = CASES[name]
    value, exact = time_to(case, GOAL)
    time, slope = by_quadrature(case, GOAL)
    assert abs(time / value - 1) < 1e-12
    assert np.abs(slope / exact[[0, 2]] - 1).max() < 1e-12
    (rho, _), S = in_time(case, case.t)
    time, slope = by_quadrature(case, rho)
    assert abs(time / case.t - 1) < 1e-12
    assert np.abs(-rates(case, case.norm, case.t, rho, 1.0, case.p)[0] * slope / S[0, [0, 2]] - 1).max() < 1e-12


def test_the_reference_is_the_double_quadrature():
    value, exact = time_to(CASES["SA, Pre-LN"], GOAL)
    time, slope = pre_by_quadrature(CASES["SA, Pre-LN"], GOAL)
    assert abs(time / value - 1) < 1e-12
    assert np.abs(slope / exact[[0, 2]] - 1).max() < 1e-12


@pytest.mark.parametrize(("beta", "time"), [(1.0, 5.27028), (4.0, 6.95350), (9.0, 178.73093)])
def test_the_reference_has_the_published_times(beta, time):
    assert abs(by_quadrature(Case("softmax", "post", beta, "V", rho=0.0), GOAL)[0] - time) < 1e-5
