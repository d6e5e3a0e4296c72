"""The method of a run is chosen from the run alone: it gives the same numbers by itself, among others and in a sweep."""

import itertools
import json
import math

import numpy as np
import pytest

import tokenfield as tkf

SA = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
STARTS = [tkf.circle_tokens([0, 0.3, 1.0, 2.6]), tkf.circle_tokens([0, 0.5, 1.1, 2.6])]


def test_members_of_long_runs_are_coarsened_as_they_are_alone():
    runs = tkf.simulate_many(SA, STARTS, 1e6)
    for run, start in zip(runs, STARTS, strict=True):
        alone = tkf.simulate(SA, start, 1e6)
        assert alone.config["method"] == "coarsen"
        np.testing.assert_array_equal(run.dataset["x"], alone.dataset["x"])
        assert [(event.kind, event.time) for event in run.events] == [
            (event.kind, event.time) for event in alone.events
        ]


@pytest.mark.slow
def test_a_stop_rule_keeps_the_plain_method():
    options = {"stop_when": tkf.order_above(0.9)}
    runs = tkf.simulate_many(SA, STARTS[:1], 600.0, **options)
    assert json.loads(runs.dataset.attrs["config"])["method"] == "tsit5"
    assert tkf.simulate(SA, STARTS[0], 600.0, **options).config["method"] == "tsit5"


def test_cells_of_a_sweep_have_the_methods_and_merges_of_single_runs(tmp_path):
    betas, ends = [4.0, 9.0], [10.0, 1e6]
    plan = {
        "name": "waits",
        "run": {
            "attention": {"kind": "softmax"},
            "norm": {"kind": "post"},
            "tokens": {"kind": "circle", "angles": [0.0, 0.3, 1.0, 2.6]},
        },
        "axes": {"t1": ends, "beta": betas},
        "record": {"merge": {"event": "merge"}, "r": "order_parameter"},
    }
    tkf.sweep(plan, tmp_path)
    found = tkf.sweep.SweepResult.open(tmp_path)
    assert not found.failed
    for t1, beta in itertools.product(ends, betas):
        cell = found.dataset.sel(t1=t1, beta=beta).isel(repeat=0)
        alone = tkf.simulate(tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN()), STARTS[0], t1)
        merge = next((event.time for event in alone.events if event.kind == "merge"), math.nan)
        assert cell["merge"].item() == pytest.approx(merge, rel=1e-12, nan_ok=True)
        assert cell["method_used"].item() == alone.config["method"] == ("coarsen" if t1 > 500 else "tsit5")
        assert cell["reductions_used"].item() == ", ".join(alone.config["reductions"])


@pytest.mark.parametrize(
    ("start", "t1", "reductions"),
    [
        (tkf.uniform_sphere(4, 9, seed=0), 1.0, ["span"]),
        (tkf.uniform_sphere(2000, 2, seed=0), 0.1, ["series"]),
        (tkf.uniform_sphere(4, 9, seed=0), 1e6, ["span", "coarsening"]),
        (tkf.uniform_sphere(9, 4, seed=0), 1.0, []),
    ],
)
def test_results_record_the_reductions(start, t1, reductions):
    assert tkf.simulate(SA, start, t1, save_at=2).config["reductions"] == reductions


def test_clusters_that_need_more_time_than_a_double_can_hold_are_not_followed():
    """The speed is V = 1e-320."""
    model = tkf.Transformer(tkf.Softmax(beta=1.0, V=1e-320), norm=tkf.PostLN())
    assert tkf.simulate(model, STARTS[0], 1e3, save_at=2).config["method"] == "tsit5"
