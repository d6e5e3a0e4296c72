"""Local Lipschitz constants against Jacobians by imaginary steps; bounds against what tokens attain."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import tokenfield as tkf

from . import build
from .draws import TOTAL, Case, Head, draw, generator, log_uniform, matrix, share, weights
from .references import derivatives, kernels, norms
from .test_attention import ambiguous, in_units


def smooth(case):
    """Is the map differentiable at these tokens, with room to spare?"""
    for head in case.heads:
        if head.kernel == "relu" and np.abs(kernels.scores(head, norms.reads(case, case.x))).min() < 1e-6:
            return False
        if head.kernel == "hardmax" and (head.rule == "others" or (choices(head, case) > 0).sum(1).max() > 1):
            return False
    relu = case.mlp and case.mlp["activation"] == "relu"
    outputs = [f(norms.reads(case, case.x)) for f in norms.sublayers(case)]
    short = case.norm in ("peri", "ngpt") and min(norms.length(a).min() for a in outputs) < 1e-3
    return not (relu or short or ambiguous(case))


def choices(head, case):
    """The matrix of a hardmax head."""
    return kernels.attention_matrix(head, norms.reads(case, case.x), case.w, case.positions)


@share(32)
def test_local_constant(seed):
    case = draw("lipschitz", seed, period=9, betas=(0.1, 5.0))
    case = in_units(replace(case, w=np.maximum(case.w, 1e-3) / np.maximum(case.w, 1e-3).sum()))
    if not smooth(case):
        return
    top = min(3, case.x.size)
    sinkhorn = case.heads[0].kernel == "sinkhorn"
    tolerance = 1e-6 if sinkhorn else 1e-8
    if (seed % 9 if seed < TOTAL else seed) % 2:
        found = tkf.lipschitz.local(build.attention(case), build.tokens(case), rtol=1e-10, top_k=top)
        values = derivatives.singular_values(lambda y: kernels.attend(case, y, case.positions), case.x, case.w)
    else:
        found = tkf.lipschitz.local(build.model(case), build.tokens(case), rtol=1e-10, top_k=top, step=case.h)
        values = derivatives.singular_values(lambda y: norms.layer(case, y, 0.0, case.h), case.x, case.w)
    assert found.converged, case.name
    np.testing.assert_allclose(
        found.values, values[:top], rtol=0, atol=tolerance * max(values[0], 1e-300), err_msg=case.name
    )


@share(4)
def test_network_constant(seed):
    case = in_units(replace(draw("network", seed, period=2, betas=(0.1, 3.0)), mlp=None))
    case = replace(case, w=np.full(case.n, 1 / case.n))
    if not smooth(case):
        return
    found = tkf.lipschitz.network(build.model(case), build.tokens(case), depth=2, step=case.h)
    values = derivatives.singular_values(lambda y: norms.layers(case, y, 2, case.h), case.x)
    assert found.whole.values[0] == pytest.approx(values[0], rel=1e-6), case.name


def constant(A, V, x, causal=False):
    """Local constant of softmax attention, by the imaginary step."""
    case = Case("", x, np.full(len(x), 1 / len(x)), None, (Head("softmax", A=A, V=V, causal=causal),))
    return derivatives.singular_values(lambda y: kernels.attend(case, y), x)[0]


@share(10)
def test_bounds(seed):
    """No tokens exceed the upper bounds, and some attain the lower ones."""
    rng = generator("bounds", seed)
    n, d, R = int(rng.integers(2, 6)), int(rng.integers(2, 4)), float(rng.uniform(0.3, 2.0))
    A, V = matrix(rng, d, log_uniform(rng, 0.1, 4.0)), matrix(rng, d)
    bounds = tkf.lipschitz.bounds(A, V, R=R, n=n)
    a, v = np.linalg.norm(A, 2), np.linalg.norm(V, 2)
    assert bounds.upper == pytest.approx(np.sqrt(3) * v * np.sqrt(a**2 * R**4 * (4 * n + 1) + n), rel=1e-12)
    mean_field = v * (1 + 3 * a * R**2) * np.exp(2 * a * R**2)
    assert bounds.mean_field == pytest.approx(mean_field, rel=1e-12)

    def gap(u):
        u = u / max(1.0, np.linalg.norm(u))
        return -(np.linalg.norm(A @ u) - u @ A @ u)

    runs = [
        minimize(gap, rng.normal(size=d), method="Nelder-Mead", options={"xatol": 1e-11, "fatol": 1e-13})
        for _ in range(6)
    ]
    best = min(runs, key=lambda r: r.fun)
    assert bounds.gap == pytest.approx(-best.fun, rel=1e-6, abs=1e-7)
    u = best.x / max(1.0, np.linalg.norm(best.x))
    explicit = np.repeat(R * u[None], n, 0)
    if np.linalg.norm(A @ u) > 0:
        explicit[0] = R * A @ u / np.linalg.norm(A @ u)
    others = [np.zeros((n, d)), explicit]
    for _ in range(4):
        x = rng.normal(size=(n, d))
        others.append(R * x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(0, 1, (n, 1)) ** 0.3)
    for causal in (False, True):
        reached = [constant(A, V, x, causal) for x in others]
        assert max(reached) <= bounds.sharp_upper * (1 + 1e-10), seed
        assert v * (1 - 1e-12) <= bounds.lower <= bounds.sharp_upper <= bounds.upper * (1 + 1e-12), seed
        if np.linalg.matrix_rank(A) == d:  # one maximizer but for its sign
            assert bounds.lower <= max(reached) * (1 + 1e-5) + 1e-12, seed
        for x, lip in zip(others, reached, strict=True):
            data = tkf.lipschitz.data_bounds(tkf.Softmax(A=A, V=V, causal=causal), x)
            assert lip <= data.sharp_data * (1 + 1e-10) + 1e-12, seed
            assert data.sharp_data <= data.data * (1 + 1e-10)


@share(4)
def test_bounds_with_weights(seed):
    """Bounds from weighted tokens hold in the weighted norm."""
    rng = generator("weighted bounds", seed)
    n, d = 4, 2
    x, A, V = rng.normal(size=(n, d)), matrix(rng, d, 2.0), matrix(rng, d)
    w = np.maximum(weights(rng, n), 1e-4)
    case = Case("", x, w / w.sum(), None, (Head("softmax", A=A, V=V),))
    values = derivatives.singular_values(lambda y: kernels.attend(case, y), x, case.w)
    data = tkf.lipschitz.data_bounds(build.attention(case), build.tokens(case))
    assert values[0] <= data.sharp_data * (1 + 1e-10) + 1e-12, seed
    assert data.sharp_data <= data.data * (1 + 1e-10)
