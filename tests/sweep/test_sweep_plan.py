"""What a plan says, and what it may not say: every error names the key."""

import json
import math

import numpy as np
import pytest
from sweeps import PLAN, changed

from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import Plan, differences, read_plan

TOML = """
about = "a test"
repeats = 3

[run]
t1 = 2.0
[run.tokens]
n = 6
d = 3

[axes]
beta = [1, 2.5]
"norm.alpha" = {linspace = [0.5, 1.0, 3]}
kappa = {logspace = [0.1, 10, 3]}

[record]
r = "order_parameter"
above = {observable = "fraction_above", threshold = 0.5, times = {linspace = [0, 2, 5]}}
"""


def test_a_plan_file_gives_axes_repeats_and_times(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    plan = read_plan(path)
    assert plan.name == "mine"
    assert plan.shape == (2, 3, 3, 3)
    assert plan.count == 54
    assert plan.axes["norm.alpha"].expanded() == [0.5, 0.75, 1.0]
    assert plan.axes["kappa"].expanded() == pytest.approx([0.1, 1.0, 10.0], rel=1e-15)
    assert plan.record["above"].times.expanded() == [0.0, 0.5, 1.0, 1.5, 2.0]
    config = plan.config({"beta": 2.5, "norm.alpha": 0.75, "kappa": 10.0})
    assert (config.attention.beta, config.norm.alpha, config.noise.kappa) == (2.5, 0.75, 10.0)
    assert plan.points()[:2] == [(1, 0.5, plan.points()[0][2]), (1, 0.5, plan.points()[1][2])]


def test_overrides_replace_and_add_keys(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    plan = read_plan(path, {"run.rtol": 1e-8, "axes.beta": [7.0], "seed": 5, "run.attention.kind": "unnormalized"})
    assert plan.config({"beta": 7.0, "norm.alpha": 0.5, "kappa": 1.0}).rtol == 1e-8
    assert plan.axes["beta"].expanded() == [7.0]
    assert (plan.seed, plan.run["attention"]) == (5, {"kind": "unnormalized"})
    with pytest.raises(ValueError, match=r"--set run\.t1\.x: t1 is not a table"):
        read_plan(path, {"run.t1.x": 1})


def test_arrays_are_lists():
    assert read_plan(changed(axes={"beta": np.linspace(1, 2, 3)})).axes["beta"].expanded() == [1.0, 1.5, 2.0]


def test_infinity_and_not_a_number_survive_the_way_to_an_engine():
    plan = read_plan(changed(run__t1=math.inf, axes={"beta": [1.0, math.nan]}))
    again = Plan.model_validate_json(plan.model_dump_json(exclude_none=True))
    assert again.run["t1"] == math.inf
    assert np.isnan(again.axes["beta"].expanded()[1])
    assert differences(plan.canonical(), again.canonical()) == []
    assert Cells(again).ids() == Cells(plan).ids()


WRONG = {
    # unknown names, with the nearest one
    "axes.betta: unknown parameter: did you mean beta?": {"axes": {"betta": [1.0]}},
    "axes.tokens.m: unknown parameter: did you mean tokens.n?": {"axes": {"tokens.m": [1]}},
    "axes.save_at: unknown parameter": {"axes": {"save_at": [1]}},
    "record.r: unknown observable 'order_paramter': did you mean order_parameter?": {"record__r": "order_paramter"},
    "record.r: unknown observable 'zzz': known: clusters, effective_rank": {"record__r": "zzz"},
    "record.x.event: no run ends with 'order_parameter_0.7': did you mean order_parameter_0.75?": {
        "record__x": {"event": "order_parameter_0.7"}
    },
    "unknown key repeat: did you mean repeats?": {"repeat": 3},
    "unknown key record.above.threshhold: did you mean threshold?": {"record__above__threshhold": 0.5},
    "unknown key axes.beta.linspce: did you mean linspace?": {"axes__beta": {"linspce": [0, 1, 2]}},
    "unknown key run.tokens.dd: did you mean d?": {"run__tokens__dd": 3},
    "unknown key run.stop: did you mean step?": {"run__stop": "one-cluster"},
    # axes
    "axes: must name at least one parameter": {"axes": {}},
    "axes.beta: must have at least one value": {"axes": {"beta": []}},
    "axes.n: must have at least one value": {"axes": {"n": {"linspace": [1, 2, 0]}}},
    "axes.beta: has a value twice": {"axes": {"beta": [1.0, 2.0, 1.0]}},
    "axes.beta: give a list, linspace": {"axes": {"beta": 3.0}},
    "axes.beta: give a list, linspace = [first, last, count] or": {
        "axes": {"beta": {"linspace": [0, 1, 2], "values": [1]}}
    },
    "axes.beta: logspace needs ends above 0, got [0.0, 1.0]": {"axes": {"beta": {"logspace": [0, 1, 3]}}},
    "axes.beta.linspace.2: Input should be a valid integer": {"axes": {"beta": {"linspace": [0, 1, 2.5]}}},
    "axes.beta: linspace must be [first, last, count], got [1, 2]": {"axes": {"beta": {"linspace": [1, 2]}}},
    "axes.beta: logspace must be [first, last, count], got 3": {"axes": {"beta": {"logspace": 3}}},
    "axes.beta.values.1: Input should be a valid number": {"axes": {"beta": [1.0, [2.0]]}},
    "axes.beta: Input should be a valid number, unable to parse string as a number, got 'high'": {
        "axes": {"beta": ["high"]}
    },
    "axes.n: Input should be a valid integer": {"axes": {"n": [6.5]}},
    "axes.attention: must be one of hardmax, l2": {"axes": {"attention": ["softmaxx"]}},
    "axes: two of beta, attention.beta set the same parameter": {"axes": {"beta": [1.0], "attention.beta": [2.0]}},
    "axes: two of gamma, beta set the same parameter": {"axes": {"gamma": [1.0], "beta": [2.0]}},
    "axes.tokens.seed: seeds are made from the plan's seed: use repeats": {"axes": {"tokens.seed": [1, 2]}},
    "axes.beta: 1000000000000 values are more than a sweep may have": {"axes": {"beta": {"linspace": [0, 1, 10**12]}}},
    "axes: 25000000 cells are more than a sweep may have": {
        "axes": {name: {"linspace": [0, 1, 5000]} for name in ("beta", "rho")},
        "repeats": 1,
    },
    # the run
    "run: give either t1 (a flow) or depth (layers)": {"run__depth": 3},
    "run.rtol: layers do not use it: leave it out": {"run": {"depth": 3, "rtol": 1e-3}},
    "axes.step: applies only to discrete layers": {"axes": {"step": [0.5]}},
    "run.t1: Input should be a valid number": {"run__t1": "long"},
    "run.t1: must be finite and > 0, got nan": {"run__t1": float("nan")},
    "run.t1: must be finite and > 0, got -1.0": {"run__t1": -1.0},
    "axes.t1: must be finite and > 0, got 0.0": {"axes": {"t1": [0.0, 3.0]}, "record": {"r": "order_parameter"}},
    "run.rtol: must be finite and >= 0, got -1.0": {"run__rtol": -1.0},
    "run.atol: must be finite and > 0, got 0.0": {"run__atol": 0.0},
    "run.dt: must be finite and > 0, got inf": {"run__dt": float("inf")},
    "run.depth: must be a whole number >= 1, got -3": {"run": {"depth": -3}, "record": {"r": "order_parameter"}},
    "run.method: must be one of euler, heun": {"run__method": "rk4"},
    "name: must be a plain name, got '../../evil'": {"name": "../../evil"},
    "run.tokens: must be a table, got 3": {"run__tokens": 3, "axes": {"n": [6]}},
    "run.tokens.n: must be a whole number >= 1, got 0": {"run__tokens__n": 0},
    "axes.d: must be a whole number >= 1, got 0": {"axes": {"d": [0, 3]}},
    "run.tokens.seed: seeds are made from the plan's seed: set seed instead": {"run__tokens__seed": 3},
    "run.noise.seed: seeds are made from the plan's seed": {"run__noise": {"kappa": 1.0, "seed": 1}},
    "run.save_at: a sweep saves the quantities in record: use record.NAME.times": {"run__save_at": 5},
    "stop_when must be one of one-cluster": {"run__stop_when": "sometime"},
    # what is kept
    "record: must name at least one quantity": {"record": {}},
    "record.r: give either an observable or an event": {"record__r": {"times": [1.0]}},
    "record.r: mean_cosine takes no threshold": {"record__r": {"observable": "mean_cosine", "threshold": 0.5}},
    "record.aligned: an event has no times, threshold or tol": {"record__aligned__times": [1.0]},
    "record.r: give the name of an observable or a table, got 3": {"record__r": 3},
    "record.above.times: must lie within [0, 2], got 0 to 3": {"record__above__times": [0.0, 3.0]},
    "record.above.times: must lie within [0, 2], got -1 to 1": {"record__above__times": [-1.0, 1.0]},
    "record.above.times: must increase": {"record__above__times": [1.0, 0.5]},
    "record.above.times: must be finite numbers": {"record__above__times": ["noon"]},
    "record.above.times: must have at least one value": {"record__above__times": []},
    "record.beta: must be a plain name": {"record__beta": "mean_cosine"},
    "record.status: must be a plain name": {"record__status": "mean_cosine"},
    "record.../up: must be a plain name": {"record__../up": "mean_cosine"},
    # numbers
    "repeats: must be at least 1, got 0": {"repeats": 0},
    "repeats: Input should be a valid integer": {"repeats": "many"},
    "batch: must be at least 1, got 0": {"batch": 0},
    "seed: must be at least 0, got -1": {"seed": -1},
    "state: Input should be 'tokens' or 'equiangular', got 'gaussian'": {"state": "gaussian"},
}


@pytest.mark.parametrize("message", WRONG)
def test_errors_name_the_key(message):
    with pytest.raises(ValueError, match=r".") as error:
        read_plan(changed(**WRONG[message]))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_bad_value_far_down_an_axis_is_named_before_anything_runs():
    plan = read_plan(changed(axes={"attention": ["softmax", "softmaxx"]}))
    with pytest.raises(ValueError, match=r"axes\.attention: must be one of .*got 'softmaxx': did you mean 'softmax'\?"):
        _ = Cells(plan).configs
    plan = read_plan(changed(axes={"n": [4, 0]}))
    with pytest.raises(ValueError, match=r"axes\.n: must be a whole number >= 1, got 0"):
        _ = Cells(plan).configs


def test_the_shortest_run_bounds_the_times():
    record = {"r": {"observable": "order_parameter", "times": [1.5]}}
    assert read_plan(changed(record=record, axes={"t1": [2.0, 3.0]})).count == 8
    with pytest.raises(ValueError, match=r"record\.r\.times: must lie within \[0, 1\]"):
        read_plan(changed(record=record, axes={"t1": [3.0, 1.0]}))
    layers = {"depth": 3, "step": 0.5, "tokens": {"n": 6, "d": 3}}
    assert read_plan(changed(run=layers, record=record)).count == 12
    with pytest.raises(ValueError, match=r"record\.r\.times: must lie within \[0, 1\]"):
        read_plan(changed(run=layers | {"depth": 2}, record=record))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x = ", "bad.toml is not valid TOML"),
        (b"x = '\xff'", "bad.toml is not valid TOML"),
        (b"repeats = 1", "axes: is missing"),
    ],
)
def test_files_that_are_no_plans(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read_plan(path)


def test_whole_numbers_of_a_logarithmic_axis_are_whole():
    plan = read_plan(changed(axes={"n": {"logspace": [16, 1024, 7]}}, record={"r": "order_parameter"}))
    assert plan.axes["n"].expanded() == [16, 32, 64, 128, 256, 512, 1024]


@pytest.mark.parametrize("name", ["critical_kappa", "critical_gamma", "first_clusters"])
def test_the_curve_of_theory_may_be_spelled_with_hyphens_as_in_older_plans(name):
    assert read_plan(changed(theory=name.replace("_", "-"))).theory == read_plan(changed(theory=name)).theory == name


def test_differences_are_shown_key_by_key():
    old = read_plan(PLAN).canonical()
    new = read_plan(changed(run__t1=3.0, seed=4, run__rtol=1e-8)).canonical()
    assert differences(old, new) == ["run.t1: 2.0 → 3.0", "run.rtol: nothing → 1e-08", "seed: 0 → 4"]
    renamed = read_plan(changed(name="other", about="words", theory="critical_kappa"))
    assert differences(old, renamed.canonical()) == []
    assert json.loads(json.dumps(old)) == old
