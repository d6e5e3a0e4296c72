"""A solution as a trajectory is the one that `simulate` gives."""

import numpy as np
import pytest

import tokenfield as tkf

MODEL = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PreLN())
STARTS = {
    "tokens": (MODEL, tkf.uniform_sphere(6, 3, seed=0)),
    "angle": (MODEL, tkf.Equiangular(0.1, 7)),
    "gaussian": (tkf.Transformer(tkf.Softmax(beta=-0.5)), tkf.Gaussian([0.3, 0.1], [[0.7, 0.1], [0.1, 0.3]])),
}
TIMES = [0.0, 0.5, 2.0]


@pytest.mark.parametrize("name", STARTS)
def test_it_is_that_of_simulate(name):
    model, start = STARTS[name]
    solution = tkf.solve(model, start, 2.0, save_at=TIMES)
    assert solution.reason == "finished"
    ours = tkf.Trajectory.from_solution(solution, model)
    theirs = tkf.simulate(model, start, 2.0, save_at=TIMES)
    assert set(ours.dataset.data_vars) == set(theirs.dataset.data_vars)
    for variable in theirs.dataset.variables:
        np.testing.assert_allclose(ours.dataset[variable], theirs.dataset[variable], rtol=0, atol=1e-12)
    assert ours.config["model"] == theirs.config["model"]
    assert ours.dataset.attrs["steps"] == theirs.dataset.attrs["steps"]


def test_a_stop_is_its_last_state_and_an_event(tmp_path):
    solution = tkf.solve(MODEL, STARTS["angle"][1], 50.0, save_at=TIMES, stop_when=tkf.cosine_above(0.5))
    run = tkf.Trajectory.from_solution(solution)
    assert [event.kind for event in run.events] == ["stopped"]
    assert run.times[-1] == run.events[0].time == float(solution.event_time)
    assert float(run.final.rho) == pytest.approx(0.5, abs=1e-12)
    assert tkf.load(run.save(tmp_path / "run.zarr")).times.tolist() == run.times.tolist()
