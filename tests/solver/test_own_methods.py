"""A method defined here is as good as ours, in `solve` and in `simulate`."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import tokenfield as tkf
from tokenfield.driver.checkpoint import CheckpointError
from tokenfield.solver.base import FAILED, FINISHED, RUNNING, AbstractMethod, Carry, new_carry, next_target
from tokenfield.solver.coarsen import Coarsen
from tokenfield.solver.methods import runge_kutta
from tokenfield.solver.runge_kutta import RungeKutta
from tokenfield.solver.stages import HERMITE, Looped

MODEL = tkf.Transformer(tkf.Softmax(2.0), norm=tkf.PostLN())
START = tkf.Equiangular(0.1, 7)
TIMES = [0.0, 1.0, 2.0]


class Ralston2(diffrax.AbstractERK):
    """Ralston's method of order 2, with an error estimate by Euler's method."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([2 / 3]),), b_sol=np.array([0.25, 0.75]), b_error=np.array([0.75, -0.75]), c=np.array([2 / 3])
    )
    interpolation_cls: ClassVar[Any] = HERMITE

    def order(self, terms):
        return 2


class Midpoint(AbstractMethod):
    """The explicit midpoint method: `y + h v(t + h/2, y + h/2 v(t, y))`, from scratch; `weight` is 1/2."""

    dt: Float[Array, ""]
    weight: float = eqx.field(static=True, default=0.5)
    interpolates: ClassVar[bool] = False
    random: ClassVar[bool] = False
    discrete: ClassVar[bool] = False

    @property
    def name(self):
        return "midpoint"

    def recorded(self, t1, rtol, atol, max_steps):
        return {"t1": t1, "dt": self.dt, "weight": self.weight}

    @property
    def fixed_step(self):
        return self.dt

    def check(self, flow, t1, save_at):
        pass

    def for_derivatives(self):
        return self

    @property
    def continuous(self):
        return False

    def init(self, flow, settings, t, y):
        return new_carry(t, jnp.minimum(t + self.dt, next_target(settings, t)), flow.retract(y), None)

    def step(self, flow, settings, carry):
        t, y, h = carry.t, carry.y, carry.t_next - carry.t
        plus = lambda y, h, v: jax.tree.map(lambda a, b: a + h * b, y, v)  # noqa: E731
        half = plus(y, self.weight * h, flow.velocity(t, y))
        y = flow.retract(plus(y, h, flow.velocity(t + self.weight * h, half)))
        status = jnp.where(carry.t_next >= settings.t1, FINISHED, RUNNING).astype(int)
        after = jnp.minimum(carry.t_next + self.dt, next_target(settings, carry.t_next))
        return Carry(carry.t_next, after, y, None, status, carry.steps + 1, carry.rejected), y

    def no_step(self, y):
        return jax.tree.map(jnp.zeros_like, y)

    def at(self, flow, dense, t):
        return dense

    def why_failed(self, flow, t, y):
        return jnp.array(FAILED), t

    def fault(self, flow, t, y):
        return "it failed"


OWN = {
    "ralston2": lambda dt: RungeKutta(Looped(Ralston2()), 2, jnp.asarray(dt)),
    "midpoint": lambda dt: Midpoint(jnp.asarray(dt)),
}


@pytest.mark.parametrize("name", OWN)
def test_simulate_and_solve_take_it_and_record_it(name, tmp_path):
    exact = tkf.simulate(MODEL, START, 2.0, save_at=TIMES, rtol=1e-12, atol=1e-14).dataset["rho"].values
    errors = []
    for dt in (0.125, 0.0625):
        method = OWN[name](dt)
        run = tkf.simulate(MODEL, START, 2.0, save_at=TIMES, method=method, checkpoint=tmp_path / f"{name}{dt}")
        solution = tkf.solve(MODEL, START, 2.0, save_at=TIMES, method=method)
        np.testing.assert_allclose(run.dataset["rho"], solution.states.rho, rtol=0, atol=1e-13)
        assert (run.config["method"], run.config["dt"]) == (name, dt)
        assert run.dataset.attrs["steps"] == 2 / dt
        errors.append(np.abs(run.dataset["rho"].values - exact).max())
    assert 3.3 < errors[0] / errors[1] < 4.8  # order 2


def test_a_method_with_error_control():
    run = tkf.simulate(MODEL, START, 2.0, save_at=TIMES, method=RungeKutta(Looped(Ralston2()), 2), rtol=1e-8, atol=1e-8)
    exact = tkf.simulate(MODEL, START, 2.0, save_at=TIMES, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(run.dataset["rho"], exact.dataset["rho"], rtol=0, atol=1e-6)
    assert run.config["rtol"] == 1e-8


def test_methods_that_differ_share_no_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run"
    tkf.simulate(MODEL, START, 2.0, method=OWN["midpoint"](0.1), checkpoint=path)

    ours = Midpoint.step
    monkeypatch.setattr(Midpoint, "step", lambda self, *given: ours(Midpoint(self.dt, 0.4), *given))
    with pytest.raises(CheckpointError, match="belongs to another run"):
        tkf.simulate(MODEL, START, 2.0, method=OWN["midpoint"](0.1), checkpoint=path)


def test_layers_as_a_method_are_layers():
    tokens = tkf.uniform_sphere(6, 3, seed=0)
    ours = tkf.simulate(MODEL, tokens, 4.0, save_at=[0.0, 1.0, 4.0], method=tkf.Layers(0.5))
    theirs = tkf.layers(MODEL, tokens, 8, 0.5)
    np.testing.assert_array_equal(ours.dataset["x"], theirs.dataset["x"][[0, 2, 8]])
    assert ours.config == theirs.config
    with pytest.raises(ValueError, match="t1 must be a multiple of the step of Layers"):
        tkf.simulate(MODEL, tokens, 4.2, method=tkf.Layers(0.5))


def test_an_object_has_its_own_step_and_key():
    for run in (tkf.solve, tkf.simulate):
        with pytest.raises(ValueError, match="belong to a method given by its name"):
            run(MODEL, START, 1.0, method=OWN["midpoint"](0.1), dt=0.1)
        with pytest.raises(ValueError, match=r"merges tokens, .* use simulate\(..., method='coarsen'\)"):
            run(MODEL, tkf.uniform_sphere(6, 3, seed=0), 1.0, method=Coarsen(runge_kutta("dopri8")))
    noisy = tkf.Transformer(tkf.Softmax(2.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(4.0))
    with pytest.raises(ValueError, match="one of heun, euler for a model with noise, got RungeKutta"):
        tkf.simulate(noisy, tkf.uniform_sphere(6, 3, seed=0), 1.0, method=runge_kutta("tsit5"))
