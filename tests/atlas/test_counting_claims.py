"""The claims that count modes and clusters: what is true holds, and what was printed wrongly fails."""

from importlib import import_module

import numpy as np
import pytest

CLAIMS = ("kde_mode_counts", "first_cluster_counts")
PRINTED = {"kde_mode_counts": 2}


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


def test_a_regular_polygon_of_groups_is_counted():
    from tokenfield.atlas.claims.first_cluster_counts import first_clusters

    groups = 2 * np.pi * (np.arange(200) % 5) / 5 + 1e-3 * np.random.default_rng(0).standard_normal(200)
    assert first_clusters(20.0, groups, 0.5) == 5
