"""The claims about tokens on the sphere: what is true holds, and what was printed wrongly fails."""

from importlib import import_module

import pytest

CLAIMS = (
    "one_cluster",
    "hemisphere_rate",
    "high_dimension_hemisphere",
    "energy_ascent",
    "circle_beta_down_to_minus_016",
    "kuramoto",
    "mean_shift",
    "causal_first_token",
    "renyi_centres",
    "layers_to_flow",
    "equiangular_times",
    "published_circle",
)
PRINTED = {"high_dimension_hemisphere": 1, "energy_ascent": 1, "kuramoto": 1, "mean_shift": 3}


@pytest.mark.parametrize("name", CLAIMS)
def test_claim(name):
    claim = import_module(f"tokenfield.atlas.claims.{name}").CLAIM
    assert claim.id == name
    evidence = claim.measure(True)
    wrong = [check for check in evidence.checks if check.holds == check.printed]
    assert not wrong, "\n".join(map(str, wrong))
    assert sum(check.printed for check in evidence.checks) == PRINTED.get(name, 0)
    assert len(evidence.checks) > PRINTED.get(name, 0)
    assert evidence.figure is not None
    assert evidence.caption
