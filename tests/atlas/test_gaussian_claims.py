"""The claims about Gaussian data: what is true holds, and what was printed wrongly fails."""

from importlib import import_module

import pytest

PRINTED = {
    "gaussian_stays_gaussian": 0,
    "gaussian_closed_form": 0,
    "gaussian_limit": 0,
    "gaussian_blow_up": 1,
    "gaussian_rank": 0,
    "gaussian_cones": 0,
}


@pytest.mark.parametrize("name", PRINTED)
def test_claim(name):
    claim = import_module(f"tokenfield.atlas.claims.{name}").CLAIM
    assert claim.id == name
    evidence = claim.measure(True)
    wrong = [check for check in evidence.checks if check.holds == check.printed]
    assert not wrong, "\n".join(map(str, wrong))
    assert sum(check.printed for check in evidence.checks) == PRINTED[name]
    assert len(evidence.checks) > PRINTED[name]
    assert evidence.figure is not None
    assert evidence.caption
