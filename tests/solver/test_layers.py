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
