"""The ready plans: figure 3 beside the equiangular curve, the others on small slices beside theory."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.sweep.plan import Spaced, read_plan, ready
from tokenfield.sweep.predicted import aligned_times, curve, threshold


@pytest.mark.slow
def test_in_1024_dimensions_the_transition_is_on_the_equiangular_curve_within_one_cell():
    name, step, betas = "figure3", 0.1, [0.1, 3.0, 5.0, 6.0, 6.5, 6.9, 7.0]
    assert np.diff(read_plan(name).axes["beta"].expanded()) == pytest.approx(step)
    found = tkf.sweep(name, overrides={"axes.d": [1024], "axes.beta": betas, "repeats": 4})
    aligned = found.mean("aligned").sel(d=1024)
    times = aligned["time_aligned"].values
    cell = times[1] - times[0]
    predicted = {
        shift: aligned_times(moved(found.plan, shift), {"d": 1024}, "beta", 0.999) for shift in (-step, 0, step)
    }
    assert (predicted[step] < times[-1]).sum() >= 3
    for k, values in enumerate(aligned.values):
        seen = times[np.argmax(values > 0.5)] if values.max() > 0.5 else times[-1] + cell / 2
        # the cell in which half of the pairs have met touches one that the curve passes
        assert min(predicted[-step][k] - cell, times[-1]) <= seen <= predicted[step][k] + cell
        early, late = times < predicted[-step][k] - cell, times > predicted[step][k] + cell
        assert values[early].max() < 0.1
        assert (values[late] > 0.9).all()


@pytest.mark.slow
def test_equiangular_starts_collapse_when_the_curve_says_so():
    tight = {"run.rtol": 1e-9, "run.atol": 1e-11, "run.tokens.kind": "equiangular", "repeats": 1, "axes.d": [32]}
    found = tkf.sweep("figure3-unnormalized", overrides={**tight, "axes.beta": [5.0, 7.0]})
    exact = aligned_times(found.plan, {"d": 32}, "beta", 0.999)
    np.testing.assert_allclose(found.dataset["collapse"].values[0, :, 0], exact, rtol=1e-7)


def moved(plan, shift):
    """The plan with every beta moved."""
    return plan.model_copy(
        update={"axes": plan.axes | {"beta": Spaced(values=[b + shift for b in plan.axes["beta"].expanded()])}}
    )


def test_one_layer_on_long_contexts_is_the_formula():
    found = tkf.sweep("long-context", overrides={"axes.n": [16, 64], "axes.gamma": [0.0, 2.0, 3.5]})
    for n in (16, 64):
        exact = curve(found.plan, {"n": n}, "gamma", "mean_cosine")
        np.testing.assert_allclose(found.mean("cosine").sel(n=n), exact, atol=1e-12)
    assert threshold(found.plan, {"n": 16}, "gamma") == pytest.approx(2.0)


@pytest.mark.slow
def test_normalizations_in_256_dimensions_are_near_their_reductions():
    found = tkf.sweep("norms", overrides={"axes.beta": [1.0], "repeats": 1, "record.cosine.times": [0.0, 1.0, 3.0]})
    from tokenfield.sweep.predicted import cosine_curve

    for norm in found.dataset["norm"].values:
        exact = cosine_curve(found.plan, {"norm": str(norm), "beta": 1.0}, np.array([0.0, 1.0, 3.0]))
        seen = found.dataset["cosine"].sel(norm=norm, beta=1.0, repeat=0).values
        assert seen[1:] == pytest.approx(exact[1:], abs=0.06)  # cosines at the start are of size 1/16
        assert exact[2] > exact[1] + 0.2
    assert np.ptp(found.dataset["cosine"].values[:, 0, 0, 1]) > 0.1  # the rules differ by more than that


def test_every_ready_plan_is_valid_and_says_what_it_is_for():
    assert {"figure3", "norms", "first-clusters", "noisy-order-parameter", "long-context"} <= set(ready())
    for name in ready():
        assert read_plan(name).about.endswith(".")
