"""Runs of tokens against SciPy's DOP853 with right-hand sides written out, and the promise that nothing ends in silence."""

from dataclasses import replace

import numpy as np
import pytest

import tokenfield as tkf

from . import build, promise
from .draws import TOTAL, Case, Head, draw, generator, head, matrix, share, structure, tokens, weights
from .references import flows, kernels, norms

RTOL, ATOL = 1e-9, 1e-12
FLOWS = ("none", "post", "pre", "rescaled", "peri", "mix", "ngpt", "sqrt", "gain")


def sphere(case):
    """Radius of the sphere on which the norm keeps tokens, or None."""
    if case.norm in ("ngpt", "sqrt", "post"):
        return 1.0 if case.gain is None else case.gain[0] * np.sqrt(case.d)
    return None


def choices(case, x):
    """What each hardmax head attends to."""
    return [kernels.attention_matrix(h, norms.reads(case, x), case.w, case.positions) > 0 for h in case.heads]


def jumps(case, reference):
    """Does a hardmax head change its choice on the way, or does a tie decide?"""
    if all(h.kernel != "hardmax" for h in case.heads):
        return False
    path = [reference.path.sol(t).reshape(case.x.shape) for t in np.linspace(0, reference.path.t[-1], 200)]
    first = choices(case, path[0])
    return any((a != b).any() for x in path for a, b in zip(first, choices(case, x), strict=True))


@share(44)
def test_run(seed):
    compare(draw("runs", seed, period=13, betas=(0.1, 3.0), norms=FLOWS))


@share(12)
def test_blow_up(seed):
    """Kernels without a bound, in R^d, for long enough."""
    number, s = structure("blow-up", seed, 3)
    rng = generator("blow-up", seed)
    kernel, d = ("linear", "unnormalized", "relu")[number % 3], 3 if seed < TOTAL else int(s.integers(1, 4))
    one = replace(head(s, rng, kernel, d, 1.0, 1.0), beta=None, Q=None, K=None, A=matrix(rng, d), V=matrix(rng, d))
    compare(Case(f"blow-up {seed}", rng.normal(size=(5, d)), weights(rng, 5), None, (one,), t1=8.0))


@share(12)
def test_lengths_that_vanish(seed):
    """Values that point inwards under norms that leave lengths free."""
    number, _s = structure("vanish", seed, 3)
    rng = generator("vanish", seed)
    norm, kernel = ("pre", "peri", "mix")[number % 3], ("softmax", "linear", "softmax")[number % 3]
    x = tokens(rng, 5, 3, True) * (1.0 if norm == "mix" else rng.uniform(0.3, 1.5, (5, 1)))
    one = Head(kernel, A=matrix(rng, 3), V=-np.eye(3) * rng.uniform(0.3, 1.0) + 0.2 * matrix(rng, 3))
    compare(Case(f"vanish {seed}", x, weights(rng, 5), None, (one,), norm=norm, t1=2.5))


def solution(case):
    """The reference run, or None where it is too stiff."""
    try:
        return flows.run(case)
    except TimeoutError:
        return None


def compare(case):
    """Simulate a case and compare its end with the reference's."""
    model, state = build.model(case), build.tokens(case)
    if case.norm == "post" and case.gain is not None and np.ptp(case.gain) > 0:  # no flow: h = 0 is not the identity
        with pytest.raises(ValueError, match="gain") as refused:
            tkf.simulate(model, state, case.t1)
        promise.refusal(refused.value, case.name)
        return
    free = replace(case, norm="none") if case.norm == "rescaled" else case
    try:
        run = tkf.simulate(model, state, case.t1, save_at=3, rtol=RTOL, atol=ATOL, max_steps=20_000)
    except (ValueError, tkf.SolverError) as error:
        promise.refusal(error, case.name)
        if case.norm == "rescaled" and (len(case.heads) > 1 or case.mlp):  # no equation
            return
        reference = solution(free)
        known = reference is None or jumps(free, reference) or reference.kind == "turning"
        assert known, f"{case.name}: {error}"  # noqa: PT017
        return
    reference = solution(free)
    kind = promise.ending(run, case.t1, case.name)
    if sphere(case) is not None:
        for moved in run.states:
            promise.on_sphere(moved.x, sphere(case), case.name)

    if reference is None or jumps(free, reference) or reference.kind == "turning":
        return
    assert kind == reference.kind, f"{case.name}: {run.events}, reference {reference.kind} at {reference.time}"
    if kind != "end":
        assert run.events[0].time == pytest.approx(reference.time, rel=1e-6), case.name
        return
    growth = flows.sensitivity(free, case.x, reference)
    expected, moved = reference.x, np.asarray(run.final.x)
    size = np.abs(expected).max() + np.abs(case.x).max()
    if case.norm == "rescaled":
        V = sum(kernels.value_matrix(h, case.d) for h in case.heads)
        expected = flows.rescaled(V, expected, case.t1)
        growth *= np.linalg.norm(flows.expm(-case.t1 * V), 2)
        size = size + np.abs(expected).max()
    kinks = any(head.kernel == "relu" for head in case.heads) or (case.mlp and case.mlp["activation"] == "relu")
    rough = 1000 if kinks else 10
    np.testing.assert_allclose(moved, expected, rtol=0, atol=rough * RTOL * growth * size, err_msg=case.name)
