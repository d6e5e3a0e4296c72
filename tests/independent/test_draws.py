"""The draws themselves: the same in every run, as many as promised, of every kind."""

import importlib
from pathlib import Path

import numpy as np

from .draws import KERNELS, NORMS, TOTAL, draw


def test_shares_add_up():
    names = [path.stem for path in Path(__file__).parent.glob("test_*.py")]
    tests = [vars(importlib.import_module(f"{__package__}.{name}")) for name in names]
    assert sum(getattr(test, "share", 0) for module in tests for test in module.values() if callable(test)) == TOTAL


def test_draws_repeat_and_cover():
    cases = [draw("layers", seed, period=36, betas=(0.01, 8.0)) for seed in range(72)]
    again = draw("layers", 41, period=36, betas=(0.01, 8.0))
    np.testing.assert_array_equal(cases[41].x, again.x)
    np.testing.assert_array_equal(cases[41].w, again.w)
    assert {case.heads[0].kernel for case in cases if len(case.heads) == 1} == set(KERNELS) - {"multihead"}
    assert {case.norm for case in cases} == set(NORMS) - {"gain"}
    assert any(case.gain is not None for case in cases)
    assert any(case.mlp is not None for case in cases)
    assert any((case.w == 0).any() for case in cases)
    assert any(head.causal for case in cases for head in case.heads)
