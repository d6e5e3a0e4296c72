"""Every claim of the atlas: what is claimed holds, and what was printed wrongly fails."""

import pytest

from tokenfield.atlas.runner import SECTIONS, all_claims

PRINTED = {
    "high_dimension_hemisphere": 1,
    "energy_ascent": 1,
    "kuramoto": 1,
    "backward_heat": 1,
    "mean_shift": 3,
    "random_weights": 2,
    "long_context": 1,
    "pairing": 2,
    "kde_mode_counts": 2,
    "blow_up": 1,
    "gaussian_blow_up": 1,
    "stability": 2,
    "sup_bounds": 1,
    "lipschitz_printed": 2,
    "real_collapse": 4,
    "real_energy": 6,
    "real_lipschitz": 1,
    "real_adversarial": 2,
}
WITHOUT_FIGURE = {"rescaled_equals_free"}
SLOW = {  # `make atlas` checks them too
    "alignment_phase",
    "backward_heat",
    "blow_up",
    "boolean_matrix",
    "chaos_in_time",
    "chaos_metastable",
    "circle_beta_down_to_minus_016",
    "collapse_to_zero",
    "common_noise_density",
    "density_layers",
    "equiangular_times",
    "first_cluster_counts",
    "first_clusters_of_many",
    "fisher_rao",
    "fixed_step_delay",
    "free_energy",
    "gaussian_blow_up",
    "gaussian_closed_form",
    "gaussian_cones",
    "gaussian_limit",
    "gaussian_rank",
    "gaussian_stays_gaussian",
    "high_dimension_curve",
    "hyperplanes",
    "kuramoto_density",
    "layer_steps",
    "layers_to_flow",
    "lipschitz_growth",
    "lost_middle",
    "masked_mean_field",
    "mckean_vlasov",
    "metastable_times",
    "mode_growth",
    "multiscale_phases",
    "normalization_laws",
    "one_cluster",
    "polytope",
    "porous_medium",
    "position_response",
    "propagation_of_chaos",
    "random_weights",
    "real_adversarial",
    "real_collapse",
    "renyi_centers",
    "rescaled_equals_free",
    "saddle_limit",
    "small_beta_contraction",
    "sphere_brownian",
    "sup_bounds",
    "support_radius",
    "text_statistics",
    "two_clusters",
}
CLAIMS = [
    pytest.param(claim, marks=pytest.mark.slow if claim.id in SLOW else (), id=claim.id) for claim in all_claims()
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim(claim):
    assert claim.section in SECTIONS
    assert claim.title
    assert claim.statement.endswith(".")
    assert claim.source
    evidence = claim.measure(True)
    if evidence.skipped:
        pytest.skip(evidence.skipped)
    for check in evidence.checks:
        assert check.holds is not check.printed, f"{check.what}: expected {check.predicted}, got {check.measured}"
    assert sum(check.printed for check in evidence.checks) == PRINTED.get(claim.id, 0)
    assert len(evidence.checks) > PRINTED.get(claim.id, 0)
    assert (evidence.figure is None) == (claim.id in WITHOUT_FIGURE)
    assert bool(evidence.caption) == (claim.id not in WITHOUT_FIGURE)
