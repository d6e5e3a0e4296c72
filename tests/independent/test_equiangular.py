"""The equiangular state against its reduced equation and against all its tokens, and times of theory against quadrature."""

from dataclasses import replace

import numpy as np
import pytest

import tokenfield as tkf

from . import build, promise
from .draws import TOTAL, Case, Head, generator, log_uniform, share, structure
from .references import equiangular, flows, norms

KERNELS = ("softmax", "unnormalized", "l2", "linear", "sigmoid", "relu")
NORMS = ("post", "pre", "peri", "mix", "ngpt", "sqrt")


def equiangular_case(seed, period=7):
    """An isotropic model and tokens at equal angles."""
    number, s = structure("equiangular", seed, period)
    rng = generator("equiangular", seed)
    kernel, norm = KERNELS[number % 6], NORMS[(number + number // 6) % 6]
    n = 4 if seed < TOTAL else int(s.integers(2, 7))
    beta = log_uniform(rng, 1e-2, 8.0 if kernel in ("softmax", "l2") else 2.0) * (1 if rng.uniform() < 0.7 else -1)
    rho = float(rng.uniform(-0.9 / (n - 1), 0.95)) if kernel != "relu" else float(rng.uniform(0.05, 0.95))
    v = float(rng.choice([1.0, 1.0, rng.uniform(0.3, 2.0), -rng.uniform(0.3, 1.0)]))
    radius = float(rng.uniform(0.5, 2.0)) if norm in ("pre", "peri") else 1.0
    case = Case(
        f"equiangular {seed}", equiangular.points(rho, n, radius), np.full(n, 1 / n), None, (Head(kernel, beta=beta, V=v),),
        norm=norm, tau=float(rng.uniform(0.2, 0.8)), alpha=float(rng.uniform(0.5, 1.5)), t1=float(rng.uniform(0.3, 4.0)),
    )  # fmt: skip
    return case, kernel, beta, n, rho, radius, v


@share(28)
def test_equiangular_run(seed):
    case, kernel, beta, n, rho, radius, v = equiangular_case(seed)
    state = tkf.Equiangular(rho=rho, n=n, radius=radius)
    run = tkf.simulate(build.model(case), state, case.t1, save_at=3, rtol=1e-10, atol=1e-13)
    kind = promise.ending(run, case.t1, case.name)
    reference, time, expected, length = equiangular.run(case, kernel, beta, n, rho, radius, case.t1, v)
    assert kind == reference, f"{case.name}: {run.events}, reference {reference} at {time}"
    if kind == "vanished":
        assert run.events[0].time == pytest.approx(time, rel=1e-6), case.name
        return
    assert float(run.final.rho) == pytest.approx(expected, abs=1e-8), case.name
    assert float(run.final.gap) == pytest.approx(1 - expected, rel=1e-7, abs=1e-15), case.name
    assert float(run.final.radius) == pytest.approx(length, rel=1e-8), case.name
    if seed % 4 == 0 and min(1 - expected, 1 + (n - 1) * expected) > 1e-3:  # all tokens, by the general reference
        tokens = flows.run(case)
        unit = norms.unit(tokens.x)
        growth = flows.sensitivity(case, case.x, tokens)
        cosines = (unit @ unit.T)[~np.eye(n, dtype=bool)]
        np.testing.assert_allclose(cosines, float(run.final.rho), rtol=0, atol=1e-8 * growth, err_msg=case.name)
        np.testing.assert_allclose(norms.length(tokens.x), float(run.final.radius), rtol=1e-8 * growth)


@share(8)
def test_layer_curve(seed):
    """`equiangular_layers` against layers of all tokens."""
    case, _, beta, n, rho, radius, _ = equiangular_case(seed)
    case = replace(case, heads=(Head("softmax", beta=beta),), h=float(generator("step", seed).uniform(0.1, 1.2)))
    curve = tkf.theory.equiangular_layers(build.norm(case), n, beta, 5, rho0=rho, radius=radius, step=case.h)
    for depth in range(6):
        x = norms.layers(case, case.x.astype(np.longdouble), depth, case.h)
        unit = norms.unit(x)
        assert curve.cosine[depth] == pytest.approx(float(unit[0] @ unit[-1]), abs=1e-11), case.name
        assert curve.radius[depth] == pytest.approx(float(norms.length(x)[0, 0]), rel=1e-11), case.name


@share(12)
def test_time_to_cosine(seed):
    """Times, first velocities and last rates of theory."""
    case, _, beta, n, rho, radius, _ = equiangular_case(seed)
    rng = generator("time to cosine", seed)
    kernel, beta = ("softmax", "unnormalized")[seed % 2], abs(beta)
    norm = case.norm if case.norm != "mix" else "post"
    case = replace(case, norm=norm)
    rule = build.norm(case)
    first = tkf.theory.initial_velocity(n, beta, rule, kernel, rho0=rho, radius=radius)
    expected, _ = equiangular.rates(case, kernel, beta, n, rho, radius, 0.0)
    assert first == pytest.approx(expected, rel=1e-11), case.name
    target = float(rng.uniform(max(rho, 0.0), 1.0)) if rng.uniform() < 0.5 else 1 - 10 ** -rng.uniform(2, 6)
    target = max(target, rho + 1e-3 * (1 - rho))
    time = tkf.theory.time_to_cosine(target, n, beta, rule, rho0=rho, attention=kernel, radius=radius)
    _, _, reached, _ = equiangular.run(case, kernel, beta, n, rho, radius, time)
    assert 1 - reached == pytest.approx(1 - target, rel=1e-8), case.name
    if norm == "post":
        law = tkf.theory.terminal_law(n, beta, rule, kernel)
        slope, _ = equiangular.rates(case, kernel, beta, n, 1 - 1e-9, 1.0, 0.0)
        assert law.rate == pytest.approx(slope / 1e-9, rel=1e-6), case.name
