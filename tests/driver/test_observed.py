"""Runs of which only numbers are kept: members that take turns, and batches that shrink, are the same runs."""

import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver.observed import observe_many

TIMES = np.linspace(0.0, 6.0, 7)


class Order(eqx.Module):
    def __call__(self, state):
        return jnp.linalg.norm(state.weights @ state.x)


def observed(count, width, rtol=1e-9):
    models = [tkf.Transformer(tkf.Softmax(beta=beta), tkf.PostLN()) for beta in (0.5, 6.0)]
    starts = [tkf.uniform_sphere(4, 2, seed=k) for k in range(count)]
    own = [models[k % 5 == 0] for k in range(count)]
    rule = tkf.one_cluster()
    seen = observe_many(own, starts, 6.0, Order(), save_at=TIMES, stop_when=rule, rtol=rtol, atol=1e-12, width=width)
    return own, starts, seen


@pytest.fixture(scope="module")
def together():
    return observed(72, None)  # most of them end early: the others go on in a batch of 18


@pytest.mark.slow
@pytest.mark.parametrize("width", [5, 16])
def test_members_that_take_turns_are_those_that_run_together(together, width):
    _, _, all_at_once = together
    _, _, seen = observed(72, width)
    assert seen.events == all_at_once.events
    assert 20 < sum(event is not None for event in seen.events) < 72
    np.testing.assert_array_equal(seen.counts, all_at_once.counts)
    np.testing.assert_allclose(seen.end_time, all_at_once.end_time, atol=1e-8)
    np.testing.assert_allclose(seen.saved, all_at_once.saved, atol=1e-9)
    np.testing.assert_allclose(seen.last, all_at_once.last, atol=1e-9)


def test_members_are_the_single_runs(together):
    models, starts, seen = together
    for k in (0, 1, 35, 71):
        run = tkf.simulate(
            models[k], starts[k], 6.0, save_at=TIMES, stop_when=tkf.one_cluster(), rtol=1e-9, atol=1e-12, progress=False
        )
        assert seen.events[k] == (run.events[0].kind if run.events else None)
        assert seen.end_time[k] == pytest.approx(run.times[-1], abs=1e-8)
        order = [tkf.order_parameter(state) for state in run.states][: seen.counts[k]]
        np.testing.assert_allclose(seen.saved[k][: seen.counts[k]], order, atol=1e-8)
        assert float(seen.last[k]) == pytest.approx(tkf.order_parameter(run.final), abs=1e-8)


@pytest.mark.slow
def test_a_loose_tolerance_still_finds_the_moment_of_a_stop_well_within_it():
    _, _, seen = observed(12, None, rtol=1e-3)
    stopped = [k for k, event in enumerate(seen.events) if event == "one_cluster"]
    assert len(stopped) > 3
    for k in stopped:
        cosines = tkf.pairwise_cosines(tkf.Tokens(seen.states.x[k]))
        assert cosines.min() == pytest.approx(0.999, abs=1e-6)


def test_noise_is_not_dropped():
    model = tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(4.0))
    with pytest.raises(ValueError, match="observe_many takes no seeds: use simulate_many for a model with noise"):
        observe_many([model], [tkf.uniform_sphere(4, 3, seed=0)], 1.0, Order(), save_at=TIMES)


BITS = """
import hashlib
import numpy as np
import tokenfield as tkf
from tokenfield.driver.observed import observe_many

models = [tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in np.linspace(0.5, 6.0, 16)]
starts = [tkf.uniform_sphere(64, 64, seed=k) for k in range(16)]
seen = observe_many(models, starts, 3.0, tkf.order_parameter, save_at=np.linspace(0.0, 3.0, 4))
print(hashlib.sha256(seen.saved.tobytes() + np.asarray(seen.last).tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_members_have_the_same_bits_with_one_thread_and_with_two():
    """In processes of their own that compile as users do, and everything by themselves."""
    settings = {"XLA_FLAGS": "", "JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": str(Path(__file__).parents[2])}
    found = set()
    for threads in ("1", "2"):
        environment = os.environ | settings | {"NPROC": threads}
        command = [sys.executable, "-c", BITS]
        found.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1
