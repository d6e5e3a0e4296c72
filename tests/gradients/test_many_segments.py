"""Weights by layer: segments that differ only in their numbers are one program, in values and in derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

RNG = np.random.default_rng(0)
A, V = (jnp.asarray(0.3 * RNG.normal(size=(24, 3, 3))) for _ in range(2))
START = tkf.uniform_sphere(5, 3, seed=0)
OPTIONS = {"rtol": 1e-10, "atol": 1e-12, "method": "dopri8", "max_steps": 64}  # see `SHORT` in compare.py


def run(V, depth, norm=tkf.PreLN(), t1=None, **options):
    layers = [tkf.Transformer(tkf.Softmax(A=a, V=v), norm=norm) for a, v in zip(A[:depth], V[:depth], strict=True)]
    model = tkf.by_layer(layers).continuous()
    return tkf.solve(model, START, depth if t1 is None else t1, **OPTIONS, **options)


def loops(depth):
    """The number of loops in the program of a run."""
    program = str(jax.make_jaxpr(lambda V: run(V, depth).final.x)(V))
    return program.count("while[")


def test_the_program_does_not_grow_with_the_number_of_layers():
    assert loops(24) == loops(3)
    assert 0 < loops(1) < loops(3)


@pytest.mark.parametrize("norm", [tkf.PreLN(), tkf.PostLN()])
def test_states_are_those_of_simulate(norm):
    times = np.array([0.0, 0.5, 1.0, 2.25, 3.0, 4.5])
    found = run(V, 5, norm, 4.5, save_at=times)
    layers = [tkf.Transformer(tkf.Softmax(A=a, V=v), norm=norm) for a, v in zip(A[:5], V[:5], strict=True)]
    expected = tkf.simulate(tkf.by_layer(layers).continuous(), START, 4.5, save_at=times, **OPTIONS)
    np.testing.assert_allclose(found.states.x, expected.dataset["x"], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.times, times)


def test_a_stop_between_layers():
    """Later segments do not run, and the time has the derivative of the layer in which the run stops."""
    moved = lambda state: ((state.x[0] - START.x[0]) ** 2).sum()  # noqa: E731
    level = moved(run(V, 5, tkf.PostLN(), 2.5).final)
    when = lambda state: moved(state) - level  # noqa: E731
    stop = lambda V: run(V, 5, tkf.PostLN(), 4.5, stop_when=when).event_time  # noqa: E731
    time = float(stop(V))
    assert 1.0 < time <= 2.5 + 1e-8
    slope = jax.grad(stop)(V)
    last = int(time)
    assert float(jnp.abs(slope[last]).max()) > 1e-3
    np.testing.assert_array_equal(slope[last + 1 :], 0.0)
    e = jnp.zeros_like(V).at[last, 1, 2].set(1e-5)
    assert float(slope[last, 1, 2]) == pytest.approx(float(stop(V + e) - stop(V - e)) / 2e-5, rel=1e-6)


def test_derivatives_by_the_weights_of_one_layer():
    end = lambda V: run(V, 4).final.x[0, 0]  # noqa: E731
    slope = jax.grad(end)(V)
    np.testing.assert_array_equal(slope[4:], 0.0)
    for layer in range(4):
        e = jnp.zeros_like(V).at[layer, 1, 2].set(1.0)
        forward = float(jax.jvp(end, (V,), (e,))[1])
        assert forward == pytest.approx(float(slope[layer, 1, 2]), rel=1e-9)
        assert forward == pytest.approx(float(end(V + 1e-5 * e) - end(V - 1e-5 * e)) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("method", [None, "tsit5"])
def test_a_number_for_each_layer(method):
    """Models by layer with beta as a number run in `simulate` too: clusters are not followed."""
    model = tkf.by_layer([tkf.Transformer(tkf.Softmax(beta=b), tkf.PostLN()) for b in (1.0, 2.0)]).continuous()
    found = tkf.simulate(model, START, 2.0, save_at=[2.0], **OPTIONS | {"method": method, "max_steps": 999})
    np.testing.assert_allclose(found.final.x, tkf.solve(model, START, 2.0, **OPTIONS).final.x, rtol=0, atol=1e-9)


def test_noise_for_each_layer(tmp_path):
    layers = [tkf.Transformer(tkf.Softmax(b), tkf.PostLN(), noise=tkf.SphereNoise(10.0 * b)) for b in (1.0, 2.0)]
    model = tkf.by_layer(layers).continuous()
    found = tkf.simulate(model, START, 2.0, seed=3, dt=0.1)
    assert found.dataset.attrs["kappa"] == [10.0, 20.0]
    found.save(tmp_path / "run.zarr")
    assert tkf.load(tmp_path / "run.zarr").dataset.attrs["kappa"] == [10.0, 20.0]
    many = tkf.simulate_many(model, START, 2.0, seeds=[3, 4], dt=0.1)
    np.testing.assert_allclose(many[0].final.x, found.final.x, rtol=0, atol=1e-12)
