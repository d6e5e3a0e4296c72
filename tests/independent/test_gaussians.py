"""Gaussian states against matrix differential equations, and closed forms of theory against them."""

from dataclasses import replace

import numpy as np
import pytest

import tokenfield as tkf

from . import build, promise
from .draws import TOTAL, Case, Head, generator, matrix, share, signed, structure
from .references import gaussians, kernels

STRUCTURES = 7


def covariance(rng, d):
    """A covariance, singular at times."""
    L = rng.normal(size=(d, d if rng.uniform() < 0.75 else max(1, d - 1)))
    return L @ L.T * rng.uniform(0.1, 0.6)


def gaussian_case(seed):
    """Heads that keep Gaussians, a mean and a covariance."""
    number, s = structure("gaussian", seed, STRUCTURES)
    rng = generator("gaussian", seed)
    d = 3 if seed < TOTAL else int(s.choice([1, 2, 3]))
    names = (["softmax"], ["l2"], ["sinkhorn"], ["linear"], ["softmax", "linear"], ["softmax"], ["l2", "softmax"])
    heads = []
    for name in names[number % len(names)]:
        V = None if s.uniform() < 0.2 else matrix(rng, d)
        narrow, beta = s.uniform() < 0.4, signed(rng, 0.1, 1.5)
        width = int(s.integers(1, d + 1))
        q, k = rng.normal(size=(2, width, d)) / np.sqrt(d)
        beta = abs(beta) if name == "l2" else beta
        if name == "l2" or narrow:
            heads.append(Head(name, Q=q, K=k, V=V, beta=beta))
        else:
            heads.append(Head(name, A=matrix(rng, d), V=V))
    outputs = tuple(matrix(rng, d) for _ in heads) if len(heads) > 1 else None
    noise = float(rng.uniform(0.05, 0.5)) if s.uniform() < 0.3 else 0.0
    return Case(f"gaussian {seed}", np.zeros((1, d)), np.ones(1), None, tuple(heads), outputs), rng, noise


@share(28)
def test_gaussian_run(seed):
    case, rng, noise = gaussian_case(seed)
    d = case.d
    mean, cov, t1 = rng.normal(size=d), covariance(rng, d), float(rng.uniform(0.3, 3.0))
    model = tkf.Transformer(build.attention(case), noise=tkf.EuclideanNoise(kappa=1 / noise) if noise else None)
    run = tkf.simulate(model, tkf.Gaussian(mean, cov), t1, save_at=3, rtol=1e-10, atol=1e-13)
    kind = promise.ending(run, t1, case.name)
    reference, time, m, S = gaussians.run(case.heads, case.outputs, mean, cov, t1, noise)
    assert kind == reference, f"{case.name}: {run.events}, reference {reference} at {time}"
    if kind == "blow_up":
        assert run.events[0].time == pytest.approx(time, rel=1e-6), case.name
        return
    size = np.abs(S).max() + np.abs(m).max() + 1
    bound = 1e-7 * size**2  # errors grow like the square where a covariance is about to blow up
    np.testing.assert_allclose(run.final.cov, S, rtol=0, atol=bound, err_msg=case.name)
    np.testing.assert_allclose(run.final.mean, m, rtol=0, atol=bound, err_msg=case.name)

    one = next(replace(head, V=None) for head in case.heads)
    rate = tkf.theory.gaussian_stationarity(build.attention(case), cov, mean)
    _, dS = gaussians.velocity(case.heads, case.outputs, mean, cov, 0.0)
    assert rate == pytest.approx(np.linalg.norm(dS), rel=1e-9, abs=1e-12), case.name
    A = kernels.score_matrix(one, d)
    values = np.linalg.eigvalsh(A + A.T)
    zero = np.abs(values) <= 1e-9 * max(np.abs(values).max(), 1e-300)
    bound = zero.sum() + min((values[~zero] > 0).sum(), (values[~zero] < 0).sum())
    assert tkf.theory.gaussian_rank_bound(A) == bound, case.name


@share(8)
def test_closed_forms(seed):
    """Softmax attention with V a number: covariance, blow-up time, mean and limit."""
    rng = generator("closed forms", seed)
    d, v = int(rng.integers(1, 4)), float(rng.uniform(0.3, 1.5))
    A, cov = matrix(rng, d), covariance(rng, d)
    head = Head("softmax", A=A, V=v)
    M = v * (A + A.T)
    half = gaussians.root(cov)
    top = np.linalg.eigvalsh(half @ M @ half).max()
    blowup = tkf.theory.gaussian_blowup_time(A, v, cov)
    if top > 1e-9:
        assert blowup == pytest.approx(1 / top, rel=1e-10)
    elif top < -1e-9:
        assert blowup == np.inf
    t = min(1.0, 0.7 * blowup)
    kind, _, _, S = gaussians.run((head,), None, np.zeros(d), cov, t)
    assert kind == "end"
    np.testing.assert_allclose(tkf.theory.gaussian_closed_form(A, v, cov, t), S, rtol=0, atol=1e-9 * np.abs(S).max())

    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]  # A symmetric and commuting with the covariance
    a, s = rng.normal(size=d), rng.uniform(0.1, 1.0, d)
    A, cov, mean = basis * a @ basis.T, basis * s @ basis.T, rng.normal(size=d)
    t = min(1.0, 0.35 / max((a * s).max(), 1e-3))
    _, _, m, _ = gaussians.run((Head("softmax", A=A),), None, mean, cov, t)
    np.testing.assert_allclose(tkf.theory.gaussian_mean(A, mean, cov, t), m, rtol=0, atol=1e-9 * np.abs(m).max())

    a = -np.abs(a) * (rng.uniform(size=d) < 0.6)  # M <= 0 with a kernel
    A, cov = basis * a @ basis.T, covariance(rng, d)
    limit = tkf.theory.gaussian_limit(A, None, cov)
    null = basis[:, a == 0]
    if np.linalg.matrix_rank(cov) == d:
        expected = null @ np.linalg.inv(null.T @ np.linalg.inv(cov) @ null) @ null.T if null.size else np.zeros((d, d))
        np.testing.assert_allclose(limit, expected, rtol=0, atol=1e-8 * np.linalg.cond(cov) * np.abs(cov).max())
    far = cov if not (a < 0).any() else tkf.theory.gaussian_closed_form(A, None, cov, 1e9 / -a[a < 0].max())
    np.testing.assert_allclose(far, limit, rtol=0, atol=1e-6 * np.abs(cov).max())
