"""The cone of covariances, and counted ranks."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.plotting.cone_cases import CASES, cone_starts


def test_coordinates_of_the_cone():
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((5, 2, 2))
    cov = roots @ np.swapaxes(roots, 1, 2)
    x, y, z = tkf.plotting.cone_coordinates(cov).T
    assert np.allclose(z, np.trace(cov, axis1=1, axis2=2))
    assert np.allclose(z**2 - x**2 - y**2, 4 * np.linalg.det(cov))
    assert np.allclose(y, 2 * cov[:, 0, 1])


def test_starts_have_trace_one_and_are_positive():
    for quick in (True, False):
        starts = cone_starts(quick)
        assert np.allclose(np.trace(starts, axis1=1, axis2=2), 1)
        assert np.linalg.eigvalsh(starts).min() > 0
    assert [case.name for case in CASES] == ["to zero", "to a line", "to a plane", "to two lines", "blow-up", "mixed"]


def test_ranks_are_counted_and_none_is_left_out():
    found = tkf.plotting.limit_ranks(2, draws=10, seed=1, values="random", tol=0.1)
    total = sum(int(found.counts(kind).sum()) for kind in ("settled", "diverged", "unsettled"))
    assert total == 10
    settled = found.kind == "settled"
    assert (found.change[settled & (found.rank > 0)] < 0.05).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "relu"}, "kernel must be one of"),
        ({"values": "none"}, "values must be one of"),
        ({"tol": 2.0}, "tol must lie"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(ValueError, match=words):
        tkf.plotting.limit_ranks(2, draws=2, **options)
