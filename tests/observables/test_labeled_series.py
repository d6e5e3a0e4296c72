"""Observables along runs: labeled, and equal to a loop over the states."""

import numpy as np
import pytest

import tokenfield as tkf

MODEL = tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PostLN())
SCALARS = {
    "order_parameter": (),
    "mean_cosine": (),
    "mean_length": (),
    "smallest_cosine": (),
    "fraction_above": (0.5,),
    "soft_cluster_count": (0.1,),
    "energy": (MODEL,),
    "normalized_energy": (MODEL,),
}


@pytest.fixture(scope="module")
def run():
    return tkf.simulate(MODEL, tkf.uniform_sphere(5, 3, seed=0), 2.0, save_at=[0.0, 0.5, 2.0], progress=False)


@pytest.fixture(scope="module")
def runs():
    starts = [tkf.Equiangular(rho, 6) for rho in (0.0, 0.5, 0.9)]
    return tkf.simulate_many(MODEL, starts, 2.0, save_at=5, stop_when=tkf.cosine_above(0.8), progress=False)


@pytest.mark.parametrize("name", [*SCALARS, "effective_rank"])
def test_of_a_run_they_are_a_loop_over_its_states(name, run):
    measure, options = getattr(tkf, name), SCALARS.get(name, ())
    series = measure(run, *options)
    assert series.name == name
    assert series.dims == ("time",)
    assert series.attrs.keys() == {"long_name", "units"}
    np.testing.assert_array_equal(series["time"], run.times)
    np.testing.assert_array_equal(series, [measure(state, *options) for state in run.states])


def test_pairs_have_their_own_axis(run):
    series = tkf.pairwise_cosines(run)
    assert series.dims == ("time", "pair")
    np.testing.assert_array_equal(series, [tkf.pairwise_cosines(state) for state in run.states])


@pytest.mark.parametrize("name", SCALARS)
def test_of_many_runs_they_are_a_loop_over_members_and_nan_after_their_ends(name, runs):
    measure, options = getattr(tkf, name), SCALARS[name]
    series = measure(runs, *options)
    assert series.dims == ("member", "time")
    np.testing.assert_array_equal(series["time"], runs.times)
    ended = 0
    for k, member in enumerate(runs):
        for j, time in enumerate(runs.times):
            if time <= member.times[-1]:
                assert float(series[k, j]) == measure(member.state(j), *options)
            else:
                assert np.isnan(series[k, j])
                ended += 1
    assert 0 < ended < series.size - 3


def test_members_may_have_their_own_models(runs):
    models = [tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in (1.0, 2.0, 3.0)]
    series = tkf.normalized_energy(runs, models)
    for k, model in enumerate(models):
        assert float(series[k, 0]) == tkf.normalized_energy(runs[k].state(0), model)
    with pytest.raises(ValueError, match="one entry for each of the 3 members, got 2"):
        tkf.normalized_energy(runs, models[:2])
