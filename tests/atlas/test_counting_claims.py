"""The counting in the claim on first clusters."""

import numpy as np


def test_a_regular_polygon_of_groups_is_counted():
    from tokenfield.atlas.claims.first_cluster_counts import first_clusters

    groups = 2 * np.pi * (np.arange(200) % 5) / 5 + 1e-3 * np.random.default_rng(0).standard_normal(200)
    assert first_clusters(20.0, groups, 0.5) == 5
