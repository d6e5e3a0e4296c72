"""`solve` under jit and vmap, its result as a pytree, and `simulate` beside it."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

from . import tokens
from .compare import error
from .test_densities import build as circle

FINE = {"rtol": 1e-9, "atol": 1e-11}
START = tkf.uniform_sphere(6, 3, seed=2)
BETAS = np.linspace(0.1, 9.0, 64)


def run(beta, start=START, **options):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    return tkf.solve(model, start, 2.0, **options)


def test_vmap_is_many_runs():
    """Sixty-four betas side by side, each as if it were alone: the states, the times of stops, the steps."""
    stop = {"stop_when": tkf.cosine_above(0.5), "save_at": np.linspace(0, 2, 5)}
    together = jax.jit(jax.vmap(lambda beta: run(beta, **stop)))(jnp.asarray(BETAS))
    alone = jax.jit(lambda beta: run(beta, **stop))
    stopped = 0
    for k, beta in enumerate(BETAS):
        one = alone(beta)
        np.testing.assert_allclose(together.final.x[k], one.final.x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(together.states.x[k], one.states.x, rtol=0, atol=1e-12)  # NaN where NaN
        np.testing.assert_allclose(together.event_time[k], one.event_time, rtol=1e-12)
        assert int(together.status[k]) == int(one.status)
        assert int(together.stats["steps"][k]) == int(one.stats["steps"])
        stopped += bool(np.isfinite(one.event_time))
    assert 0 < stopped < len(BETAS)  # both ends are met


def test_vmap_of_gradients():
    number = lambda beta: run(beta, **FINE).final.x[0, 0]  # noqa: E731
    together = jax.jit(jax.vmap(jax.grad(number)))(jnp.asarray(BETAS[:8]))
    alone = jax.jit(jax.grad(number))
    assert error(together, [alone(beta) for beta in BETAS[:8]]) < 1e-11


def test_jit_compiles_once_for_many_values():
    traces = []

    @jax.jit
    def final(beta, x):
        traces.append(None)
        return run(beta, tkf.Tokens(x)).final.x

    ends = [final(beta, tkf.uniform_sphere(6, 3, seed=k).x) for k, beta in enumerate([0.5, 2.0, 7.0])]
    assert len(traces) == 1
    assert all(np.isfinite(end).all() for end in ends)


def test_solve_by_itself_compiles_once_for_many_values():
    """Outside of jit too: later calls with other numbers of the same shapes trace and compile nothing."""
    run(1.0)
    seen = []
    listener = lambda event, seconds, **more: seen.append(event)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        jax.jit(lambda x: x + 1)(1.0)
        assert any("compile" in event for event in seen)  # a program of its own is seen
        seen.clear()
        for beta in (0.5, 2.5, 7.0):
            run(beta)
        assert [event for event in seen if "compile" in event] == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)


def test_the_end_of_a_run_may_be_traced():
    """`d x(t_1) / d t_1` is the velocity."""
    final = lambda t1: tkf.solve(tkf.Transformer(tkf.Softmax(2.0), norm=tkf.PostLN()), START, t1, **FINE).final.x  # noqa: E731
    x, v = (np.asarray(a) for a in jax.jit(lambda t: jax.jvp(final, (t,), (1.0,)))(1.5))
    drift = tokens.rows(2 * x[None] @ x.T, np.full((1, 6), 1 / 6))[0] @ x
    assert error(v, tokens.tangent(x, drift)) < 1e-7


STATES = {
    "tokens": lambda: (tkf.Transformer(tkf.Softmax(3.0), norm=tkf.PostLN()), START),
    "free tokens": lambda: (tkf.Transformer(tkf.L2(0.5)), START),
    "rescaled tokens": lambda: (
        tkf.Transformer(tkf.Softmax(1.0, V=np.diag([1.0, 0.5, -0.2])), norm=tkf.Rescaled()),
        START,
    ),
    "equiangular": lambda: (tkf.Transformer(tkf.Softmax(3.0), norm=tkf.MixLN(0.5)), tkf.Equiangular(0.1, 8)),
    "gaussian": lambda: (
        tkf.Transformer(tkf.Softmax(A=[[0.0, 1.0], [-2.0, -1.0]])),
        tkf.Gaussian([0.5, 0.2], [[0.7, 0.1], [0.1, 0.3]]),
    ),
    "noisy gaussian": lambda: (
        tkf.Transformer(tkf.Softmax(A=[[0.0, 1.0], [-2.0, -1.0]]), noise=tkf.EuclideanNoise(4.0)),
        tkf.Gaussian([0.5, 0.2], [[0.7, 0.1], [0.1, 0.3]]),
    ),
    "circle": lambda: circle([0.3, 1.0, None]),
    "noisy circle": lambda: circle([0.3, 1.0, 0.2]),
    "zonal": lambda: (
        tkf.Transformer(tkf.Softmax(2.0), norm=tkf.PostLN()),
        tkf.ZonalDensity.from_function(lambda t: np.exp(0.5 * t), 24, 4),
    ),
    "sphere": lambda: (
        tkf.Transformer(tkf.Unnormalized(1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(20.0)),
        tkf.SphereDensity.from_function(lambda x: np.exp(x[:, 0] + 0.3 * x[:, 2]), 32),
    ),
}


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", STATES)
def test_solve_is_simulate(name):
    """The same states at the same times, to the tolerance of both."""
    model, start = STATES[name]()
    times = np.linspace(0, 0.8, 5)
    ours = tkf.solve(model, start, 0.8, save_at=times, **FINE)
    theirs = tkf.simulate(model, start, 0.8, save_at=times, progress=False, **FINE)
    assert ours.reason == "finished"
    assert np.isinf(ours.event_time)
    np.testing.assert_array_equal(ours.times, times)
    for k, state in enumerate(theirs.states):
        mine = jax.tree.map(lambda a, k=k: a[k], ours.states)
        if hasattr(state, "resized"):
            state = state.resized(mine.modes)
        for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(state), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
    for a, b in zip(jax.tree.leaves(ours.final), jax.tree.leaves(ours.states), strict=True):
        np.testing.assert_allclose(a, b[-1], rtol=1e-12, atol=1e-12)


def test_a_solution_is_a_pytree():
    solution = run(3.0, save_at=np.linspace(0, 2, 3))
    leaves, tree = jax.tree.flatten(solution)
    again = jax.tree.unflatten(tree, leaves)
    np.testing.assert_array_equal(again.states.x, solution.states.x)
    assert solution.states.x.shape == (3, 6, 3)
    assert solution.final.x.shape == (6, 3)
    only = run(3.0)
    assert only.times.shape == (1,)
    assert only.states.x.shape == (1, 6, 3)
    assert int(only.stats["steps"]) > 0


def test_how_runs_end():
    """Names of the ends, their times, and NaN for what was never reached."""
    times = np.linspace(0, 40, 9)
    model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
    stopped = tkf.solve(model, tkf.Equiangular(0.0, 32), 40.0, save_at=times, stop_when=tkf.cosine_above(0.999))
    assert stopped.reason == "stopped"
    assert abs(float(stopped.event_time) - 5.27028) < 1e-4
    assert np.isnan(stopped.times[2:]).all()
    np.testing.assert_array_equal(stopped.times[:2], times[:2])
    assert abs(float(stopped.final.rho) - 0.999) < 1e-9
    free = tkf.Transformer(tkf.Softmax(A=np.eye(1)))
    blown = tkf.solve(free, tkf.Gaussian(None, [[0.5]]), 3.0, **FINE)
    assert blown.reason == "blow_up"
    assert abs(float(blown.event_time) - 1.0) < 1e-6  # 1 / lambda_max(Sigma_0 M) with M = 2
    few = tkf.solve(model, tkf.Equiangular(0.0, 32), 40.0, max_steps=5)
    assert few.reason == "max_steps"


@pytest.mark.slow
@pytest.mark.parametrize(
    "adjoint", [diffrax.RecursiveCheckpointAdjoint(), diffrax.DirectAdjoint()], ids=["checkpoints", "direct"]
)
def test_adjoints_agree(adjoint):
    """All of them differentiate the same steps."""
    number = lambda beta, adjoint: run(beta, adjoint=adjoint, max_steps=256).final.x[0, 0]  # noqa: E731
    exact = jax.jit(jax.jacfwd(lambda beta: number(beta, diffrax.ForwardMode())))(2.0)
    found = jax.jit(jax.grad(lambda beta: number(beta, adjoint)))(2.0)
    assert abs(found / exact - 1) < 1e-10
