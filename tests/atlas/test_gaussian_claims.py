"""The claims on Gaussian data: what is claimed holds, and what is printed wrongly fails."""

from importlib import import_module

import pytest

GAUSSIAN = (
    "gaussian_stays_gaussian",
    "gaussian_closed_form",
    "gaussian_limit",
    "gaussian_blow_up",
    "gaussian_rank",
    "gaussian_cones",
)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_claim(name):
    claim = import_module(f"tokenfield.atlas.claims.{name}").CLAIM
    assert claim.id == name
    assert claim.section == "Gaussian data"
    assert claim.title
    assert claim.statement.endswith(".")
    assert claim.source
    evidence = claim.measure(True)
    assert any(not check.printed for check in evidence.checks)
    for check in evidence.checks:
        assert check.holds is not check.printed, f"{check.what}: expected {check.predicted}, got {check.measured}"
    assert evidence.figure is not None
    assert evidence.caption
