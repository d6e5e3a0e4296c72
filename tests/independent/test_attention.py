"""Attention matrices and one step without a norm, against sums written out, at all temperatures."""

from dataclasses import replace

import numpy as np

import tokenfield as tkf

from . import build, promise
from .draws import TOTAL, Case, Head, draw, generator, log_uniform, share, signed, tokens, weights
from .references import flows, kernels, norms

EPS = np.finfo(float).eps


def rounding(case):
    """Relative error of `e^s` that rounding of the scores allows."""
    size = np.linalg.norm(case.x, axis=1).max() ** 2
    sizes = []
    for head in case.heads:
        factors = [head.Q, head.K] if head.Q is not None else [kernels.score_matrix(head, case.d)]
        scale = abs(head.beta or 1.0) if head.Q is not None else 1.0
        norm = (
            np.prod([np.linalg.norm(m, 2) for m in factors])
            if head.kernel != "l2"
            else (
                max(1.0 if m is None else np.linalg.norm(m, 2) for m in (head.Q, head.K)) ** 2
                * abs(head.beta or 1.0)
                * 4
            )
        )
        sizes.append(scale * norm * size)
    return 1e-12 + 8 * EPS * (case.d + 4) * max(sizes)


def ambiguous(case):
    """Is a hardmax score so close to the best that rounding decides?"""
    for head in case.heads:
        if head.kernel == "hardmax":
            s = kernels.scores(head, case.x)
            gap = np.abs(s[:, :, None] - s[:, None, :]) / (1 + np.abs(s).max(1))[:, None, None]
            if ((gap > 1e-12) & (gap < 1e-6)).any():
                return True
    return False


def in_units(case):
    """The case with the units of time in which tokenfield computes unnormalized heads."""
    units = zip(case.heads, build.log_units(case), strict=True)
    return replace(case, heads=tuple(replace(head, log_unit=unit) for head, unit in units))


@share(64)
def test_attention_matrix_and_one_layer(seed):
    case = draw("attention", seed, period=18, betas=(1e-3, 1e4), norms=("none", "post"))
    if case.heads[0].kernel in ("unnormalized", "sinkhorn"):  # beyond: speeds out of range, slow couplings
        case = draw("attention", seed, period=18, betas=(1e-3, 20.0), norms=("none", "post"))
    if ambiguous(case):
        return
    case, x = in_units(case), case.x.astype(np.longdouble)
    model, state = build.model(case), build.tokens(case)
    sinkhorn = case.heads[0].kernel == "sinkhorn"
    tolerance = 1e-8 if sinkhorn else rounding(case)

    matrices = tkf.attention_matrix(state, model)
    for head, matrix in zip(case.heads, matrices if len(case.heads) > 1 else [matrices], strict=True):
        expected = kernels.attention_matrix(head, x, case.w, case.positions)
        slack = np.abs(kernels.scores(head, np.abs(x))).max() * 16 * EPS if head.kernel in ("linear", "relu") else 0.0
        slack = 1e-8 if sinkhorn else slack + 1e-15
        np.testing.assert_array_less(np.abs(matrix - expected), tolerance * np.abs(expected) + slack, err_msg=case.name)

    moved = np.asarray(tkf.layers(model, state, 1, case.h).final.x)
    expected = norms.layer(case, x, 0.0, np.longdouble(case.h))
    outputs = [f(x) for f in norms.sublayers(case)]
    shortest = min(float(norms.length(x + case.h * outputs[0]).min()), 1.0)
    size = float(np.abs(x).max() + sum(np.abs(a).max() for a in outputs)) + float(terms(case, x).max())
    bound = 10 * (tolerance + 1e-13) * size / (shortest if case.norm == "post" else 1.0) ** len(outputs)
    np.testing.assert_allclose(moved, expected.astype(float), rtol=0, atol=bound, err_msg=case.name)


@share(24)
def test_rows_at_extreme_temperatures(seed):
    """Softmax and L2 attention on the sphere for |beta| up to 10^4, tokens near each other, tiny and zero weights."""
    rng = generator("extremes", seed)
    n, d, kernel = 5, 3 if seed < TOTAL else 2 + seed % 2, ("softmax", "l2", "softmax")[seed % 3]
    x = tokens(rng, n, d, True)
    if rng.uniform() < 0.6:  # angles of order beta^{-1/2} to 1
        x = norms.unit(x[:1] + log_uniform(rng, 1e-3, 1.0) * rng.normal(size=(n, d)))
    beta = signed(rng, 1.0, 1e4)
    causal = seed % 3 == 2
    case = Case(f"extremes {seed}", x, weights(rng, n), None, (Head(kernel, beta=beta, causal=causal),), norm="post")
    expected = kernels.attention_matrix(case.heads[0], x.astype(np.longdouble), case.w)
    matrix = tkf.attention_matrix(build.tokens(case), build.model(case))
    bound = rounding(case) * np.abs(expected) + 1e-15
    np.testing.assert_array_less(np.abs(matrix - expected), bound, err_msg=case.name)
    run = tkf.layers(build.model(case), build.tokens(case), 1, case.h)
    shortest = min(float(norms.length(x + case.h * expected @ x.astype(np.longdouble)).min()), 1.0)
    if shortest == 0:  # tokens that attend to their antipodes alone
        assert promise.ending(run, 1.0, case.name) == "vanished"
    elif shortest > rounding(case):  # below, rounding decides about the direction
        moved = norms.layer(case, x.astype(np.longdouble), 0.0, case.h)
        bound = 10 * rounding(case) / shortest
        np.testing.assert_allclose(run.final.x, moved.astype(float), rtol=0, atol=bound, err_msg=case.name)
    # one projected Euler step is the velocity of the flow
    run = tkf.simulate(build.model(case), build.tokens(case), case.h, method="euler", dt=case.h, save_at=2)
    moved = norms.unit(x + case.h * flows.velocity(case, x.astype(np.longdouble), 0.0))
    np.testing.assert_allclose(run.final.x, moved.astype(float), rtol=0, atol=10 * rounding(case), err_msg=case.name)


def terms(case, x):
    """The size of the terms of which attention is the sum."""
    return sum(
        np.abs(kernels.attention_matrix(head, x, case.w, case.positions))
        @ (np.abs(x) @ np.abs(kernels.value_matrix(head, case.d, x.dtype)).T)
        @ (np.abs(case.outputs[i]).T if case.outputs else np.eye(case.d))
        for i, head in enumerate(case.heads)
    )
