"""The claims on tokens in R^d: what is claimed holds, and what is printed wrongly fails."""

from importlib import import_module

import pytest

SPACE = (
    "polytope",
    "hyperplanes",
    "collapse_to_zero",
    "boolean_matrix",
    "support_radius",
    "sup_bounds",
    "blow_up",
    "rescaled_equals_free",
    "stability",
    "masked_mean_field",
)


@pytest.mark.parametrize("name", SPACE)
def test_claim(name):
    claim = import_module(f"tokenfield.atlas.claims.{name}").CLAIM
    assert claim.id == name
    assert claim.section
    assert claim.title
    assert claim.statement
    assert claim.source
    evidence = claim.measure(True)
    assert any(not check.printed for check in evidence.checks)
    for check in evidence.checks:
        assert check.holds is not check.printed, f"{check.what}: expected {check.predicted}, got {check.measured}"
    if evidence.figure is not None:
        assert evidence.caption
