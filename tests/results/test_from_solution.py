"""A solution as a trajectory is the one that `simulate` gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

MODEL = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PreLN())
STARTS = {
    "tokens": (MODEL, tkf.uniform_sphere(6, 3, seed=0)),
    "angle": (MODEL, tkf.Equiangular(0.1, 7)),
    "rescaled tokens": (
        tkf.Transformer(tkf.Softmax(1.0, V=np.diag([1.0, 0.5, -0.2])), tkf.Rescaled()),
        tkf.uniform_sphere(6, 3, seed=0),
    ),
    "gaussian": (tkf.Transformer(tkf.Softmax(beta=-0.5)), tkf.Gaussian([0.3, 0.1], [[0.7, 0.1], [0.1, 0.3]])),
}
TIMES = [0.0, 0.5, 2.0]


@pytest.mark.parametrize("name", STARTS)
def test_it_is_that_of_simulate(name):
    model, start = STARTS[name]
    options = {
        "rtol": 1e-5,
        "atol": 1e-8,
        "max_steps": 999,
        "stop_when": tkf.order_above(1.0) if name == "angle" else None,
    }
    solution = tkf.solve(model, start, 2.0, save_at=TIMES, **options)
    assert solution.reason == "finished"
    ours = tkf.Trajectory.from_solution(solution, model)
    theirs = tkf.simulate(model, start, 2.0, save_at=TIMES, **options)
    assert set(ours.dataset.data_vars) == set(theirs.dataset.data_vars)
    for variable in theirs.dataset.variables:
        np.testing.assert_allclose(ours.dataset[variable], theirs.dataset[variable], rtol=0, atol=1e-12)
    assert ours.config == theirs.config | {"reductions": []}
    assert ours.dataset.attrs["steps"] == theirs.dataset.attrs["steps"]


def test_a_stop_is_its_last_state_and_an_event(tmp_path):
    solution = tkf.solve(MODEL, STARTS["angle"][1], 50.0, save_at=TIMES, stop_when=tkf.cosine_above(0.5))
    run = tkf.Trajectory.from_solution(solution)
    assert [event.kind for event in run.events] == ["cosine_0.5"]
    assert run.times[-1] == run.events[0].time == float(solution.event_time)
    assert float(run.final.rho) == pytest.approx(0.5, abs=1e-12)
    assert tkf.load(run.save(tmp_path / "run.zarr")).times.tolist() == run.times.tolist()


def test_an_event_has_the_name_that_simulate_gives_it():
    def far(state):
        return state.rho - 0.5

    for rule in (far, lambda state: state.rho > 0.5, tkf.order_above(0.9)):
        ours = tkf.Trajectory.from_solution(tkf.solve(MODEL, STARTS["angle"][1], 50.0, stop_when=rule), MODEL)
        theirs = tkf.simulate(MODEL, STARTS["angle"][1], 50.0, stop_when=rule)
        assert [event.kind for event in ours.events] == [event.kind for event in theirs.events]
        assert ours.config["stop_when"] == theirs.config["stop_when"]


def test_layers_and_noise_record_their_settings():
    layers = tkf.solve(MODEL, STARTS["angle"][1], 2.0, method=tkf.Layers(step=0.5))
    ours, theirs = tkf.Trajectory.from_solution(layers, MODEL), tkf.layers(MODEL, STARTS["angle"][1], 4, 0.5)
    assert ours.config == theirs.config | {"stop_when": None}
    noisy = tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(), noise=tkf.SphereNoise(4.0))
    key = jax.random.key(7)
    config = tkf.Trajectory.from_solution(tkf.solve(noisy, STARTS["tokens"][1], 1.0, dt=0.25, key=key)).config
    assert (config["method"], config["dt"], config["t1"]) == ("heun", 0.25, 1.0)
    assert config["key"] == jax.random.key_data(key).tolist()


def test_settings_are_arrays_of_one_program():
    """They may be traced, and a function as a stop rule does not leave the program."""
    traces = []

    @jax.jit
    @jax.vmap
    def run(rtol, level):
        traces.append(None)
        return tkf.solve(MODEL, STARTS["angle"][1], 2.0, rtol=rtol, stop_when=lambda s: s.rho - level)

    for values in ([1e-4, 1e-6], [1e-5, 1e-7]):
        runs = run(jnp.asarray(values), jnp.array([0.3, 0.4]))
        np.testing.assert_array_equal(runs.settings["rtol"], values)
    assert len(traces) == 1
    one = tkf.Trajectory.from_solution(jax.tree.map(lambda leaf: leaf[1], runs), MODEL)
    assert (one.config["method"], one.config["rtol"], one.config["max_steps"]) == ("tsit5", 1e-7, 4096)
    assert one.config["stop_when"]["kind"] == "When"
