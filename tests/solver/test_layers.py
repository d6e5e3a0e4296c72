"""Layers act at multiples of their step, and nowhere else."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver import discrete
from tokenfield.flows.layers import layer_flow

MODEL = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN())
START = tkf.uniform_sphere(5, 3, seed=0)


def test_states_are_those_after_each_layer():
    found = tkf.solve(MODEL, START, 1.5, method=tkf.Layers(0.5), save_at=[0.0, 0.5, 1.5])
    stack = tkf.layers(MODEL, START, depth=3, step=0.5)
    np.testing.assert_allclose(found.states.x, stack.dataset["x"].values[[0, 1, 3]], atol=1e-14)


def test_a_layer_that_ends_at_a_save_time_up_to_rounding_is_saved():
    """100 x 0.29 = 28.999999999999996; one token under V = -0.01 is multiplied by 1 - 0.0029 in each layer."""
    model = tkf.Transformer(tkf.Softmax(1.0, V=-0.01))
    found = tkf.solve(model, tkf.Tokens([[1.0]]), 58.0, method=tkf.Layers(0.29), save_at=[29.0, 58.0])
    np.testing.assert_allclose(found.states.x[:, 0, 0], (1 - 0.0029) ** np.array([100, 200]), rtol=1e-13)
    np.testing.assert_array_equal(found.times, [29.0, 58.0])


def test_rules_that_need_a_velocity_are_refused():
    with pytest.raises(ValueError, match="stop_when needs the velocity of the state, which Layers do not have"):
        tkf.solve(MODEL, START, 1.0, method=tkf.Layers(), stop_when=tkf.energy_settled())


@pytest.mark.parametrize(("t1", "save_at", "name"), [(2.5, None, "t1"), (2.0, [0.0, 0.5, 2.0], "save_at")])
def test_times_between_layers_are_refused(t1, save_at, name):
    with pytest.raises(ValueError, match=f"{name} must be a multiple of the step of Layers, 1"):
        tkf.solve(MODEL, START, t1, method=tkf.Layers(1.0), save_at=save_at)


def test_a_model_of_all_layers_is_checked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(discrete, "layer_flow", lambda *given: asked.append(given[1]) or layer_flow(*given))
    other = tkf.Transformer(tkf.Softmax(3.0), tkf.PostLN())
    tkf.layers(MODEL, START, depth=3, step=0.5)
    tkf.layers([MODEL, other, MODEL], START, step=0.5)
    assert [id(model) for model in asked] == [id(model) for model in (MODEL, MODEL, other)]
