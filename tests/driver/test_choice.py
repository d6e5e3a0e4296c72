"""The method of a run is chosen from the run alone: it gives the same numbers by itself, among others and in a sweep."""

import json

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


def test_cells_of_a_sweep_have_the_merges_of_single_runs():
    betas = [4.0, 9.0]
    plan = {
        "name": "waits",
        "run": {
            "t1": 1e6,
            "attention": {"kind": "softmax"},
            "norm": {"kind": "post"},
            "tokens": {"kind": "circle", "angles": [0.0, 0.3, 1.0, 2.6]},
        },
        "axes": {"beta": betas},
        "record": {"merge": {"event": "merge"}, "r": "order_parameter"},
    }
    found = tkf.sweep(plan)
    assert not found.failed
    for beta, merge in zip(betas, found.dataset["merge"].values.ravel(), strict=True):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        alone = tkf.simulate(model, STARTS[0], 1e6)
        assert merge == pytest.approx(alone.events[0].time, rel=1e-12)


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
