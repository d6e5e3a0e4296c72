"""Stacks of discrete layers under every norm, against layers written out."""

from dataclasses import replace

import numpy as np

import tokenfield as tkf

from . import build
from .draws import draw, share
from .references import derivatives, norms
from .test_attention import ambiguous, in_units, rounding


@share(72)
def test_stack_of_layers(seed):
    case = draw("layers", seed, period=36, betas=(1e-2, 8.0))
    case = in_units(case)
    state, depth = build.tokens(case), 1 + seed % 3
    run = tkf.layers(build.model(case), state, depth, case.h)
    x = case.x.astype(np.longdouble)
    expected = norms.layers(case, x, depth, np.longdouble(case.h))
    if run.events:
        assert [event.kind for event in run.events] == ["blow_up"]
        assert not np.isfinite(expected).all() or np.abs(expected).max() > 1e290
        return
    moved = np.asarray(run.final.x)
    assert np.isfinite(moved).all()
    assert len(run.times) == depth + 1
    if any(ambiguous(replace(case, x=norms.layers(case, case.x, k, case.h))) for k in range(depth)):
        return
    # rounding of the start, grown by the layers
    growth = np.linalg.norm(derivatives.jacobian(lambda y: norms.layers(case, y, depth, case.h), case.x), 2)
    sinkhorn = case.heads[0].kernel == "sinkhorn"
    size = np.abs(expected).max() + np.abs(case.x).max()
    bound = (1e-7 if sinkhorn else 10 * rounding(case)) * float(size + growth * np.abs(case.x).max())
    np.testing.assert_allclose(moved, expected.astype(float), rtol=0, atol=bound, err_msg=case.name)
