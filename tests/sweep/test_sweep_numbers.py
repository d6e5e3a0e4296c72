"""The numbers of a cell are those of the same run by itself, measured with plain loops."""

import itertools
import math

import numpy as np
import pytest
from sweeps import BETAS, PLAN, REPEATS, STOP, changed

import tokenfield as tkf
from tokenfield._kinds import is_ours
from tokenfield.config.observed import Observed, numbers_by_name
from tokenfield.sweep.batches import batches
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import read_plan

OBSERVABLES = [name for name, each in numbers_by_name().items() if is_ours(each)]
TOLERANCES = (1e-3, 1.0)
CLOSE = 1e-10  # far below the solver's tolerance: the same steps, but for rounding


def cosines(x):
    theta = np.asarray(x) / np.linalg.norm(x, axis=1, keepdims=True)
    return [float(theta[i] @ theta[j]) for i, j in itertools.combinations(range(len(theta)), 2)]


def fraction_above(x, threshold=0.999):
    return np.mean([cosine > threshold for cosine in cosines(x)])


def order_parameter(x):
    return np.linalg.norm(np.mean([v / np.linalg.norm(v) for v in np.asarray(x)], axis=0))


def softmax(beta, norm=None):
    return tkf.Transformer(tkf.Softmax(beta), norm or tkf.PostLN())


def start(found, k, r, n=6, d=3):
    return tkf.uniform_sphere(n, d, int(found.dataset["seed_used"].values[k, r]))


@pytest.fixture(scope="module")
def small():
    return tkf.sweep(PLAN)


def test_cells_are_the_runs_of_simulate(small):
    stopped = 0
    for k, r in itertools.product(range(len(BETAS)), range(REPEATS)):
        rule = tkf.order_above(STOP)
        run = tkf.simulate(softmax(BETAS[k]), start(small, k, r), 2.0, save_at=[0.0, 0.4, 2.0], stop_when=rule)
        cell = small.dataset.isel(beta=k, repeat=r)
        assert float(cell["r"]) == pytest.approx(order_parameter(run.final.x), abs=CLOSE)
        # A run that a rule has ended keeps its last state.
        states = [run.states[min(j, len(run.times) - 1)] for j in range(3)]
        assert cell["above"].values.tolist() == [fraction_above(state.x, 0.5) for state in states]
        assert float(cell["end_time"]) == pytest.approx(run.times[-1], abs=CLOSE)
        if run.events:
            stopped += 1
            assert float(cell["aligned"]) == pytest.approx(run.events[0].time, abs=CLOSE)
            assert float(cell["r"]) == pytest.approx(STOP, abs=CLOSE)
        else:
            assert np.isnan(cell["aligned"])
    assert 0 < stopped < len(BETAS) * REPEATS
    assert small.counts == {"cells": 12, "done": 12, "failed": 0}


@pytest.mark.parametrize(("n", "d", "norm"), [(6, 3, "post"), (4, 7, "pre"), (300, 2, "post")])
def test_a_cell_has_the_same_numbers_and_method_alone_in_any_batch_and_in_simulate(n, d, norm):
    """300 tokens on the circle use a series at the tolerance of the run, but not at tolerance 0."""
    record = {"r": "order_parameter", "length": {"observable": "mean_cosine", "times": [0.5, 1.0]}}
    run = {"t1": 1.0, "tokens": {"n": n, "d": d}, "norm": {"kind": norm}, "rtol": 1e-4}
    plan = {"run": run, "axes": {"beta": [1.0, 2.0]}, "repeats": 2, "record": record}
    found = [tkf.sweep(changed(plan, batch=batch)) for batch in (1, 2, 3)]
    for i, j in itertools.product(range(2), range(2)):
        model = softmax([1.0, 2.0][i], tkf.PostLN() if norm == "post" else tkf.PreLN())
        alone = tkf.simulate(model, start(found[0], i, j, n, d), 1.0, save_at=[0.5, 1.0], rtol=1e-4)
        cosine = [float(tkf.mean_cosine(state)) for state in alone.states]
        reductions = {300: ["series"], 4: ["span"]}.get(n, [])
        assert alone.config["reductions"] == reductions
        for cell in (each.dataset.isel(beta=i, repeat=j) for each in found):
            close = 0 if n == 300 else 1e-12  # large runs are not batched
            assert float(cell["r"]) == pytest.approx(float(tkf.order_parameter(alone.final)), rel=close, abs=0)
            np.testing.assert_allclose(cell["length"], cosine, rtol=close)
            assert cell["method_used"].item() == alone.config["method"] == "tsit5"
            assert cell["reductions_used"].item() == ", ".join(reductions)


@pytest.mark.slow
def test_every_quantity_at_the_end_and_on_a_grid_of_times():
    times = [0.0, 1.0, 2.0]
    record = {f"{name}_end": name for name in OBSERVABLES}
    record |= {f"{name}_series": {"observable": name, "times": times} for name in OBSERVABLES}
    record |= {f"within_{k}": {"observable": "clusters", "tol": tol} for k, tol in enumerate(TOLERANCES)}
    found = tkf.sweep(
        {
            "run": {"t1": 2.0, "tokens": {"n": 6, "d": 3}, "norm": {"kind": "pre"}},
            "axes": {"beta": [3.0, 6.0]},
            "record": record,
        }
    )
    differ = 0
    for k, beta in enumerate((3.0, 6.0)):
        model = softmax(beta, tkf.PreLN())
        run = tkf.simulate(model, start(found, k, 0), 2.0, save_at=times)
        for j, state in enumerate(run.states):
            x, counted = np.asarray(state.x), tkf.clusters(state)
            expected = {
                "fraction_above": fraction_above(x),
                "mean_cosine": np.mean(cosines(x)),
                "smallest_cosine": min(cosines(x)),
                "order_parameter": order_parameter(x),
                "mean_distance": np.mean([np.linalg.norm(a - b) for i, a in enumerate(x) for b in x[:i]]),
                "mean_length": np.mean([np.linalg.norm(v) for v in x]),
                "clusters": counted.count,
                "single_tokens": counted.single_tokens,
                "soft_cluster_count": float(tkf.soft_cluster_count(state)),
                "largest_cluster": max(counted.sizes) / 6,
                "effective_rank": float(tkf.effective_rank(state)),
                "energy": float(tkf.energy(state, model)),
                "normalized_energy": float(tkf.normalized_energy(state, model)),
            }
            assert expected.keys() == set(OBSERVABLES)
            for name, value in expected.items():
                series = found.dataset[f"{name}_series"].values[k, 0]
                assert series[j] == pytest.approx(value, rel=CLOSE, abs=CLOSE), name
                if j == 2:
                    assert float(found.dataset[f"{name}_end"][k, 0]) == series[j]
        counts = [tkf.clusters(run.final, tol).count for tol in TOLERANCES]
        assert [int(found.dataset[f"within_{j}"][k, 0]) for j in range(2)] == counts
        differ += counts[0] != counts[1]
    assert differ > 0
    assert float(found.dataset["mean_length_end"].min()) > 1.01


@pytest.mark.slow
def test_a_blow_up_is_an_event_and_leaves_no_value_after_it():
    times = [0.0, 0.05, 0.3]
    betas = [-1.0, 1.0, 0.5]
    found = tkf.sweep(
        {
            "run": {
                "t1": 0.3,
                "tokens": {"kind": "gaussian", "n": 6, "d": 2},
                "norm": {"kind": "none"},
                "attention": {"kind": "unnormalized"},
            },
            "axes": {"beta": betas},
            "repeats": 3,
            "record": {
                "length": {"observable": "mean_length", "times": times},
                "last": "mean_length",
                "bang": {"event": "blow-up"},
            },
        }
    )
    blown = 0
    for k, r in itertools.product(range(3), range(3)):
        state = tkf.gaussian_tokens(6, 2, int(found.dataset["seed_used"][k, r]))
        run = tkf.simulate(tkf.Transformer(tkf.Unnormalized(betas[k]), tkf.NoNorm()), state, 0.3, save_at=times)
        cell, events = found.dataset.isel(beta=k, repeat=r), run.events
        for j, time in enumerate(times):
            if events and events[0].time < time:
                assert np.isnan(cell["length"][j])
            else:
                # A neighbor that blows up does not change the steps of this run.
                length = np.linalg.norm(np.asarray(run.states[j].x), axis=1).mean()
                assert float(cell["length"][j]) == pytest.approx(length, rel=CLOSE)
        assert np.isnan(cell["last"]) == bool(events)
        if events:
            blown += 1
            assert float(cell["bang"]) == pytest.approx(events[0].time, rel=1e-9)
            assert float(cell["end_time"]) == float(cell["bang"])
        else:
            assert np.isnan(cell["bang"])
    assert 0 < blown < 9
    assert found.counts["failed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("dt", [None, 0.02])
def test_noisy_cells_are_single_runs_whatever_their_neighbors(dt):
    """By default the step follows from beta and kappa, and cells that differ in these do not run side by side: the one with the
    larger step would wait for the other."""
    kappas = [2.0, 200.0]
    plan = {
        "run": {"t1": 0.5, "tokens": {"n": 6, "d": 3}, "attention": {"beta": 2.0}} | ({"dt": dt} if dt else {}),
        "axes": {"kappa": kappas},
        "repeats": 2,
        "record": {"r": {"observable": "order_parameter", "times": [0.25, 0.5]}, "end": "order_parameter"},
    }
    found = tkf.sweep(plan)
    assert len(batches(Cells(read_plan(plan)))) == (1 if dt else 2)
    for k, r in itertools.product(range(2), range(2)):
        model = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN(), noise=tkf.SphereNoise(kappas[k]))
        seed = int(found.dataset["seed_used"][k, r])
        run = tkf.simulate(model, tkf.uniform_sphere(6, 3, seed), 0.5, seed=seed, save_at=[0.25, 0.5], dt=dt)
        expected = [order_parameter(state.x) for state in run.states]
        assert found.dataset["r"].values[k, r] == pytest.approx(expected, abs=CLOSE)
        assert float(found.dataset["end"][k, r]) == found.dataset["r"].values[k, r, -1]


@pytest.mark.slow
def test_a_rule_that_depends_on_beta_is_each_cell_s_own():
    found = tkf.sweep(
        changed(
            run__stop_when="energy-settled",
            run__t1=60.0,
            axes={"beta": [1.0, 2.0]},
            repeats=2,
            record={"settled": {"event": "energy_settled"}},
        )
    )
    assert float(found.dataset["settled"].min()) > 5
    for k, r in itertools.product(range(2), range(2)):
        run = tkf.simulate(softmax([1.0, 2.0][k]), start(found, k, r), 60.0, stop_when=tkf.energy_settled())
        assert float(found.dataset["settled"][k, r]) == pytest.approx(run.events[0].time, rel=1e-9)


def test_layers_are_those_of_the_discrete_model():
    found = tkf.sweep(
        {
            "run": {"depth": 4, "step": 0.5, "tokens": {"n": 6, "d": 3}},
            "axes": {"norm": ["pre", "post"], "beta": [1.0, 5.0]},
            "record": {"r": {"observable": "order_parameter", "times": [0.0, 1.0, 2.0]}, "end": "mean_cosine"},
        }
    )
    assert found.dataset["norm"].values.tolist() == ["pre", "post"]
    for i, j in itertools.product(range(2), range(2)):
        seed = int(found.dataset["seed_used"][i, j, 0])
        model = softmax([1.0, 5.0][j], [tkf.PreLN(), tkf.PostLN()][i])
        run = tkf.layers(model, tkf.uniform_sphere(6, 3, seed), 4, 0.5)
        expected = [order_parameter(run.states[k].x) for k in (0, 2, 4)]
        assert found.dataset["r"].values[i, j, 0] == pytest.approx(expected, abs=CLOSE)
        assert float(found.dataset["end"][i, j, 0]) == pytest.approx(np.mean(cosines(run.final.x)), abs=CLOSE)


def test_a_time_between_two_layers_fails_with_its_key():
    plan = {
        "run": {"depth": 2, "tokens": {"n": 6, "d": 3}},
        "axes": {"beta": [1.0]},
        "record": {"r": {"observable": "order_parameter", "times": [0.5]}},
    }
    assert "record.r.times: 0.5 is not a time" in tkf.sweep(plan).failed[0]["error"]


@pytest.mark.slow
def test_equiangular_cells_are_the_runs_of_one_number():
    betas, rhos, times = [1.0, 6.0], [0.1, 0.6], [0.0, 1.0, 2.0]
    plan = {
        "state": "equiangular",
        "run": {"t1": 2.0, "tokens": {"n": 6}, "norm": {"kind": "pre"}},
        "axes": {"beta": betas, "rho": rhos},
        "record": {"rho_t": {"observable": "mean_cosine", "times": times}, "length": "mean_length"},
    }
    found = tkf.sweep(plan).dataset
    for i, j in itertools.product(range(2), range(2)):
        run = tkf.simulate(softmax(betas[i], tkf.PreLN()), tkf.Equiangular(rhos[j], 6), 2.0, save_at=times)
        expected = [float(state.rho) for state in run.states]
        assert found["rho_t"].values[i, j, 0] == pytest.approx(expected, abs=CLOSE)
        assert float(found["length"][i, j, 0]) == pytest.approx(float(run.final.radius), abs=CLOSE)
    assert float(found["length"].min()) > 1.01
    failed = tkf.sweep(changed(plan, record={"rank": "effective_rank"})).failed
    assert len(failed) == 4
    assert "effective_rank is not defined for a state of type Equiangular" in failed[0]["error"]


@pytest.mark.parametrize("rho", [0.2, 0.95])
def test_quantities_of_equiangular_states_are_those_of_their_tokens(rho):
    tokens, state = tkf.equiangular_tokens(rho, 5, 5), tkf.Equiangular(rho, 5)
    for name in OBSERVABLES:
        quantity = Observed(observable=name, **({"threshold": 0.9} if name == "fraction_above" else {}))
        if quantity.in_loop:
            one, other = (quantity.measure(each, None) for each in (state, tokens))
            assert one == pytest.approx(other, abs=1e-12), name


@pytest.mark.slow
def test_gamma_is_beta_in_units_of_log_n():
    record = {"r": "order_parameter"}
    plan = changed(axes={"n": [6, 8], "gamma": [0.5, 2.0]}, record=record, repeats=1)
    cells = Cells(read_plan(plan))
    assert [cells[k].config.attention.beta for k in range(4)] == [g * math.log(n) for n in (6, 8) for g in (0.5, 2.0)]
    found = tkf.sweep(changed(plan, axes={"gamma": [0.5, 2.0]}, repeats=2))
    for k, r in itertools.product(range(2), range(2)):
        model, rule = softmax([0.5, 2.0][k] * math.log(6)), tkf.order_above(STOP)
        final = tkf.simulate(model, start(found, k, r), 2.0, stop_when=rule).final
        assert float(found.dataset["r"][k, r]) == pytest.approx(order_parameter(final.x), abs=CLOSE)


def test_fixed_steps_are_taken_as_asked():
    found = tkf.sweep(
        {
            "run": {"t1": 0.4, "method": "euler", "dt": 0.1, "tokens": {"n": 6, "d": 3}},
            "axes": {"beta": [2.0]},
            "record": {"r": "order_parameter"},
        }
    )
    x = np.asarray(start(found, 0, 0).x)
    for _ in range(4):
        weights = np.exp(2.0 * x @ x.T)
        drift = weights / weights.sum(1, keepdims=True) @ x
        x = x + 0.1 * (drift - (drift * x).sum(1, keepdims=True) * x)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert float(found.dataset["r"][0, 0]) == pytest.approx(order_parameter(x), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["pre", "peri"])
def test_the_energy_under_a_norm_with_lengths_is_that_of_simulate(tmp_path, norm):
    """Lengths grow without bound: at t = 400 the energy of the tokens themselves would overflow."""
    run = {"t1": 400.0, "norm": {"kind": norm}, "tokens": {"n": 6, "d": 3}}
    record = {"energy": "normalized_energy", "length": "mean_length"}
    found = tkf.sweep({"run": run, "axes": {"beta": [1.0, 3.0]}, "record": record, "repeats": 2}).dataset
    for k, beta in enumerate(found["beta"].values):
        for r in range(2):
            start = tkf.uniform_sphere(6, 3, int(found["seed_used"][k, r]))
            model = tkf.Transformer(tkf.Softmax(beta), tkf.PreLN() if norm == "pre" else tkf.PeriLN())
            expected = tkf.report.summary(tkf.simulate(model, start, 400.0))["energy"]
            assert float(found["energy"][k, r]) == pytest.approx(expected, rel=1e-5)
            assert 0 < expected <= 1
    assert float(found["length"].min()) > 50
