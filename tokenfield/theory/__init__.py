"""Theoretical predictions, without simulation. Every function returns plain numbers or arrays and cites its formula."""

from .._lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "layers_of_gaussians": "gaussian_layers gaussian_steps GaussianSteps",
        "gaussian": "gaussian_closed_form gaussian_mean gaussian_blowup_time gaussian_limit gaussian_rank_bound "
        "gaussian_stationarity",
        "equiangular": "initial_velocity time_to_cosine terminal_law fit_terminal_law TerminalLaw",
        "modes": "log_multiplier growth_rates first_clusters",
        "mode_counts": "kde_modes_circle kde_modes_line kde_modes_line_limit",
        "leading_directions": "alignment alignment_path Alignment",
        "multiscale": "multiscale_phases collapse_time Phase",
        "pairs": "pair_merge_time pair_merge_time_asymptotic",
        "saddles": "saddle_to_saddle pair_cosine SaddleMerge",
        "noise": "critical_kappa beta_star transition",
        "stationary": "stationary_states StationaryState",
        "branches": "branch fold first_order_point Branch",
        "phases": "phase_diagram",
        "long_context": "layer_contraction residual_layer_contraction critical_gamma layer_contraction_limit "
        "causal_contraction",
        "long_context_depth": "iterated_contraction iterated_contraction_limit orthogonal_threshold",
        "attention_scales": "SCALES attention_scale choose_gamma GammaChoice",
        "nearly_equiangular": "nearly_equiangular_threshold nearly_equiangular_limit nearly_equiangular_contraction",
        "layer_curves": "equiangular_layers LayerCurve",
        "layer_steps": "critical_steps period_two CriticalSteps PeriodTwo",
        "density_layers": "density_steps layer_factors fold_step DensitySteps",
        "row_moments": "softmax_moments SoftmaxMoments",
        "random_weights": "random_attention random_weight_layers random_weight_tail",
        "response": "position_response recency_ends lost_time layer_influence token_influence",
        "response_fit": "fit_influence InfluenceFit",
        "prediction": "predict Prediction Predictions",
    },
)
