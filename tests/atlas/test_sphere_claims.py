"""The claims about tokens on the sphere: what is true holds, and what was printed wrongly fails."""

from importlib import import_module

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.observables.renyi import renyi_centres

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
    "normalization_laws",
    "high_dimension_curve",
    "random_weights",
    "long_context",
    "staircase",
    "two_clusters",
    "metastable_times",
    "pairing",
    "hardmax_leaders",
    "published_circle",
    "fixed_step_delay",
)
PRINTED = {
    "high_dimension_hemisphere": 1,
    "energy_ascent": 1,
    "kuramoto": 1,
    "mean_shift": 3,
    "random_weights": 2,
    "long_context": 1,
    "pairing": 2,
}


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


@pytest.mark.parametrize("d", [2, 3, 5])
def test_renyi_centres_are_what_their_definition_says(d):
    tokens = tkf.uniform_sphere(60, d, seed=d)
    angle = np.arccos(np.clip(np.asarray(tokens.x @ tokens.x.T), -1, 1))
    for delta in (0.1, 0.5, 1.2):
        centres = []
        for i in range(tokens.n):
            if all(angle[i, j] > delta for j in centres):
                centres.append(i)
        strong = [i for i in range(tokens.n) if all(angle[i, j] > delta for j in range(i))]
        assert renyi_centres(tokens, delta).tolist() == centres
        assert renyi_centres(tokens, delta, strong=True).tolist() == strong
        assert set(strong) <= set(centres)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.pi, np.nan])
def test_renyi_centres_refuse_a_wrong_distance(delta):
    with pytest.raises(ValueError, match="delta"):
        renyi_centres(tkf.circle_tokens([0.0, 1.0]), delta)
