"""A state defined here is as good as ours: it is simulated, saved and loaded, alone and in an ensemble."""

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import tokenfield as tkf
from tokenfield.flows import AbstractFlow, Segment, segments
from tokenfield.flows.base import _OBSTACLES, Limits, largest_length, obstacle
from tokenfield.results.datasets import register_table, to_table
from tokenfield.results.table import table
from tokenfield.states.base import AbstractState


class Angle(AbstractState):
    """The angle between two opposite pairs of tokens."""

    angle: Float[Array, "*batch"]
    kind: ClassVar[str] = "angle"
    title: ClassVar[str] = "angle"

    @property
    def batch_shape(self):
        return jnp.shape(self.angle)


class AngleFlow(AbstractFlow):
    """`a' = -sin a`, with the solution `tan(a/2) = tan(a_0/2) e^{-t}`."""

    def pack(self, state):
        return jnp.asarray(state.angle, float)

    def unpack(self, y):
        return Angle(y)

    def velocity(self, t, y):
        return -jnp.sin(y)

    def retract(self, y):
        return y

    def relative_size(self, change, y0, y1, rtol, atol):
        return largest_length(change[None, None]) / (atol + rtol * jnp.abs(y0))

    @property
    def limits(self):
        return Limits()

    @property
    def log_time_unit(self):
        return jnp.zeros(())


@segments.register(Angle)
def _(state, model):
    return (Segment(math.inf, AngleFlow()),)


@pytest.fixture(autouse=True)
def forgotten_afterwards(monkeypatch):
    """Errors of other tests do not name this state."""
    monkeypatch.setattr("tokenfield.flows.base._OBSTACLES", {**_OBSTACLES})
    obstacle(Angle)(lambda model: None)


register_table(
    Angle,
    lambda states, times: table(times, {}, angle=("time", states.angle)),
    lambda dataset, index: Angle(jnp.asarray(dataset["angle"].values[index])),
)
MODEL = tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN())
TIMES = [0.0, 0.5, 2.0]


def exact(start):
    return 2 * np.arctan(np.tan(start / 2) * np.exp(-np.asarray(TIMES)))


def test_it_is_simulated_saved_and_loaded(tmp_path):
    run = tkf.simulate(MODEL, Angle(jnp.array(2.0)), 2.0, save_at=TIMES, rtol=1e-10, atol=1e-12)
    again = tkf.load(run.save(tmp_path / "run.zarr"))
    solution = tkf.solve(MODEL, Angle(jnp.array(2.0)), 2.0, save_at=TIMES, rtol=1e-10, atol=1e-12)
    for traj in (run, again, tkf.Trajectory.from_solution(solution)):
        assert traj.dataset.attrs["state"] == f"{__name__}:Angle"
        assert isinstance(traj.final, Angle)
        np.testing.assert_allclose([float(state.angle) for state in traj.states], exact(2.0), rtol=1e-9)
    np.testing.assert_allclose(run.dataset["angle"], exact(2.0), rtol=1e-9)


def test_members_of_an_ensemble_are_such_states():
    runs = tkf.simulate_many(
        MODEL, [Angle(jnp.array(a)) for a in (1.0, 2.0)], 2.0, save_at=TIMES, rtol=1e-10, atol=1e-12
    )
    for member, start in zip(runs, (1.0, 2.0), strict=True):
        np.testing.assert_allclose([float(state.angle) for state in member.states], exact(start), rtol=1e-9)


def test_a_state_without_a_table_is_named():
    class Other(AbstractState):
        kind: ClassVar[str] = "other"

        @property
        def batch_shape(self):
            return ()

    with pytest.raises(TypeError, match="type Other have no table: give them one with register_table"):
        to_table(Other(), np.zeros(1))
