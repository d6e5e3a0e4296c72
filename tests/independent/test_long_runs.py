"""Merges after long waits, weights that move, ensembles, and random runs in law."""

import math

import numpy as np
import pytest

import tokenfield as tkf

from . import build, promise
from .draws import TOTAL, Case, Head, generator, log_uniform, matrix, share, weights
from .references import densities, flows, theory


@share(2)
def test_merge_of_a_pair(seed):
    """Two clusters at any temperature, against quadrature."""
    rng = generator("pair", seed)
    beta, angle, share_ = log_uniform(rng, 6.0, 3000.0), float(rng.uniform(0.8, 2.8)), float(rng.uniform(0.1, 0.9))
    half = 1 - math.log(2) / beta
    x = [[1.0, 0.0], [math.cos(angle), math.sin(angle)]]
    run = tkf.simulate(
        tkf.Transformer(tkf.Softmax(beta=beta), tkf.PostLN()), tkf.Tokens(x, [share_, 1 - share_]), math.inf
    )
    merge = [event for event in run.events if event.kind == "merge"]
    assert len(merge) == 1, (seed, run.events)
    expected = theory.log_pair_merge_time(math.cos(angle), half, beta, (share_, 1 - share_), "softmax")
    assert merge[0].detail["log_time"] == pytest.approx(expected, abs=1e-5), seed
    for state in run.states:
        promise.on_sphere(state.x, 1.0, f"pair {seed}")


@share(4)
def test_merges_of_three(seed):
    """Three tokens, in order, against a stiff integration in plain time."""
    rng = generator("three", seed)
    kernel, beta = ("softmax", "unnormalized")[seed % 2], float(rng.uniform(4.0, 9.0))
    while True:
        x = rng.normal(size=(3, 3))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        cosines = np.sort((x @ x.T)[np.triu_indices(3, 1)])
        if cosines[-1] < 0.5 and cosines[-1] - cosines[-2] > 0.2:
            break
    w = rng.dirichlet(3 * np.ones(3))
    head = tkf.Softmax(beta=beta) if kernel == "softmax" else tkf.Unnormalized(beta=beta)
    run = tkf.simulate(tkf.Transformer(head, tkf.PostLN()), tkf.Tokens(x, w), math.inf, rtol=1e-9)
    merges = [event.time for event in run.events if event.kind == "merge"]
    expected = flows.merge_times(kernel, x, w, beta, 2 * max(merges))
    assert len(merges) == 2, seed
    np.testing.assert_allclose(merges, expected, rtol=1e-4, err_msg=f"three {seed}")


@share(4)
def test_weights_that_move(seed):
    rng = generator("fisher-rao", seed)
    x, w = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    beta, rate, t1 = float(rng.uniform(0.2, 2.5)), float(rng.uniform(0.1, 2.0)), float(rng.uniform(0.2, 1.0))
    model = tkf.Transformer(tkf.Unnormalized(beta=beta), tkf.PostLN(), fisher_rao=rate)
    run = tkf.simulate(model, tkf.Tokens(x, w), t1, save_at=3, rtol=1e-9, atol=1e-12)
    assert promise.ending(run, t1, f"fisher-rao {seed}") == "end"
    expected, masses = flows.fisher_rao(x, w, beta, rate, t1)
    np.testing.assert_allclose(run.final.x, expected, rtol=0, atol=3e-7)
    np.testing.assert_allclose(run.final.weights, masses, rtol=0, atol=3e-7)
    assert np.asarray(run.final.weights).sum() == pytest.approx(1.0, abs=1e-12)


@share(2)
def test_ensemble(seed):
    """Each member of an ensemble is a run of its own, blow-ups included."""
    rng = generator("ensemble", seed)
    cases = []
    for member in range(3):
        head = Head("linear", A=matrix(rng, 3), V=matrix(rng, 3))
        cases.append(Case(f"ensemble {seed}.{member}", rng.normal(size=(5, 3)), weights(rng, 5), None, (head,), t1=3.0))
    models = [build.model(case) for case in cases]
    runs = tkf.simulate_many(models, [build.tokens(case) for case in cases], 3.0, save_at=3, rtol=1e-9, atol=1e-12)
    for index, case in enumerate(cases):
        reference, events = flows.run(case), runs[index].events
        assert [event.kind for event in events] == ([] if reference.kind == "end" else [reference.kind]), case.name
        if events:
            assert events[0].time == pytest.approx(reference.time, rel=1e-6), case.name
        else:
            growth = flows.sensitivity(case, case.x, reference)
            bound = 1e-8 * growth * (1 + np.abs(reference.x).max())
            np.testing.assert_allclose(runs[index].final.x, reference.x, rtol=0, atol=bound, err_msg=case.name)


@share(2)
def test_noise_in_law(seed):
    """Means over many tokens, within five standard deviations."""
    rng = generator("noise", seed)
    kappa, t1, n = float(np.exp(rng.uniform(-0.5, 2))), float(rng.uniform(0.2, 1.0)), 400
    d = 2 if seed < TOTAL else 2 + seed % 3
    noise = tkf.SphereNoise(kappa=kappa)
    still = tkf.Transformer(tkf.Softmax(A=np.eye(d), V=np.zeros((d, d))), tkf.PostLN(), noise=noise)
    run = tkf.simulate(still, tkf.Tokens(np.repeat(np.eye(d)[:1], n, 0)), t1, seed=seed, save_at=2, dt=t1 / 20)
    c = np.asarray(run.final.x)[:, 0]
    promise.on_sphere(run.final.x, 1.0, f"noise {seed}")
    assert c.mean() == pytest.approx(math.exp(-(d - 1) * t1 / kappa), abs=5 * c.std() / math.sqrt(n) + 1e-3)
    second = (d * c**2 - 1) / (d - 1)
    assert second.mean() == pytest.approx(math.exp(-2 * d * t1 / kappa), abs=5 * second.std() / math.sqrt(n) + 1e-3)

    beta = float(rng.uniform(0.3, 2.0))  # with a drift, against the Fokker–Planck equation on the circle
    grid = 2 * np.pi * np.arange(96) / 96
    p = np.exp(np.cos(grid))
    angles = rng.vonmises(0.0, 1.0, n)
    model = tkf.Transformer(tkf.Softmax(A=beta * np.eye(2), V=np.eye(2)), tkf.PostLN(), noise=noise)
    run = tkf.simulate(model, tkf.circle_tokens(angles), t1, seed=seed, save_at=2, dt=t1 / 20)
    _, law = densities.noisy_circle("softmax", beta, kappa, p / p.mean(), t1)
    x = np.asarray(run.final.x)
    for k in (1, 2):
        found = np.cos(k * np.arctan2(x[:, 1], x[:, 0]))
        assert found.mean() == pytest.approx((law * np.cos(k * grid)).mean(), abs=8 / math.sqrt(n)), seed
