"""Observables of stacked states: one value for each state, as a loop gives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import tokens

import tokenfield as tkf
from tokenfield.observables import cluster_count, largest_cluster

MODEL = tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PostLN())
OF_TOKENS = [
    tkf.order_parameter,
    tkf.mean_cosine,
    tkf.mean_length,
    tkf.smallest_cosine,
    tkf.pairwise_cosines,
    tkf.effective_rank,
    lambda s: cluster_count(s, 0.9),
    lambda s: largest_cluster(s, 0.9),
    lambda s: tkf.mean_distance(s),
    lambda s: tkf.fraction_above(s, 0.2),
    lambda s: tkf.soft_cluster_count(s, 0.9),
    lambda s: tkf.energy(s, 1.3),
    lambda s: tkf.normalized_energy(s, tkf.Transformer(tkf.Softmax(1.3), tkf.PreLN(gain=0.8))),
]
OF_ANGLES = [tkf.order_parameter, tkf.mean_cosine, tkf.mean_length, lambda s: tkf.energy(s, 1.3)]
OF_DENSITIES = [tkf.order_parameter, lambda s: tkf.normalized_energy(s, 1.3)]
STATES = {
    "tokens": (OF_TOKENS, [tokens(n=6, seed=k, unit=False) for k in range(4)], "n=6, d=3"),
    "gaussian": (
        [tkf.effective_rank, lambda s: tkf.effective_rank(s, centered=True)],
        [tkf.Gaussian([k, 1.0], [[1.0 + k, 0.2], [0.2, 0.5]]) for k in range(4)],
        "",
    ),
    "angle": (OF_ANGLES, [tkf.Equiangular(0.2 * k, 5, radius=1.0 + k) for k in range(4)], "n=5"),
    "circle": (OF_DENSITIES, [tkf.CircleDensity.uniform(6).perturbed(k, 0.1) for k in range(4)], "modes=6"),
    "sphere": (OF_DENSITIES, [tkf.SphereDensity.uniform(5).perturbed(k, 0.1) for k in range(4)], "modes=5"),
    "zonal": (OF_DENSITIES, [tkf.ZonalDensity.uniform(6, d=5).perturbed(k, 0.1) for k in range(4)], "modes=6, d=5"),
}


def stacked(states):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


@pytest.mark.parametrize("name", STATES)
def test_they_are_a_loop_over_the_states(name):
    observables, states, shape = STATES[name]
    pile = stacked(states)
    assert (pile.batch_shape, states[0].batch_shape) == ((4,), ())
    assert shape in repr(pile)
    for k, measure in enumerate(observables):
        expected = np.array([measure(state) for state in states])
        assert np.ptp(expected, axis=0).max() > 0, k
        np.testing.assert_allclose(measure(pile), expected, rtol=1e-13, atol=1e-15)


def test_of_a_stack_of_stacks_they_have_both_axes():
    pair = stacked([stacked(STATES["angle"][1]), stacked(STATES["angle"][1][::-1])])
    found = tkf.mean_length(pair)
    np.testing.assert_array_equal(found, [[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]])


@pytest.mark.parametrize("measure", [tkf.order_parameter, tkf.effective_rank])
def test_they_can_be_compiled_and_differentiated(measure):
    pile = stacked(STATES["tokens"][1])
    slopes = jax.jit(jax.grad(lambda state: jnp.sum(measure(state) * jnp.arange(4.0))))(pile)
    for k, state in enumerate(STATES["tokens"][1]):
        np.testing.assert_allclose(slopes.x[k], k * jax.grad(measure)(state).x, rtol=1e-12, atol=1e-14)


def test_states_of_a_solution_after_its_end_are_nan():
    times = [0.0, 0.5, 40.0]
    solution = tkf.solve(MODEL, tkf.Equiangular(0.1, 7), 50.0, save_at=times, stop_when=tkf.cosine_above(0.5))
    found = tkf.mean_cosine(solution.states)
    np.testing.assert_array_equal(found, solution.states.rho)
    np.testing.assert_array_equal(np.isnan(found), [False, False, True])


@pytest.mark.parametrize(
    "measure", [lambda s: tkf.fraction_above(s, -1.0), lambda s: cluster_count(s, 0.9), tkf.effective_rank]
)
def test_states_with_a_nan_have_no_value(measure):
    pile = stacked(STATES["tokens"][1])
    pile = eqx.tree_at(lambda s: s.x, pile, pile.x.at[0].set(jnp.nan).at[2, 1, 1].set(jnp.nan))
    found = measure(pile)
    np.testing.assert_array_equal(np.isnan(found), [True, False, True, False])
    np.testing.assert_array_equal(found[1::2], [measure(STATES["tokens"][1][k]) for k in (1, 3)])


def test_an_overflow_has_its_reason():
    pile = stacked([tkf.Tokens([[1.0, 0.0]]), tkf.Tokens([[30.0, 0.0]])])
    with pytest.raises(ValueError, match="overflows"):
        tkf.energy(pile, 1.0)


def test_stacked_tokens_know_their_sizes():
    pile = stacked(STATES["tokens"][1])
    assert (pile.n, pile.d, repr(pile)) == (6, 3, "Tokens(batch_shape=[4], n=6, d=3)")
    assert stacked(STATES["gaussian"][1]).d == 2


@pytest.mark.parametrize(
    "measure",
    [
        tkf.clusters,
        tkf.leaders,
        lambda s: tkf.wasserstein(s, s),
        lambda s: tkf.velocity_field(MODEL, s, s.x),
        lambda s: tkf.solve(MODEL, s, 1.0),
        lambda s: tkf.simulate(MODEL, s, 1.0),
        lambda s: tkf.layers(MODEL, s, 2),
        lambda s: tkf.lipschitz.local(MODEL, s),
        lambda s: tkf.lipschitz.influence(MODEL, s, 2),
    ],
)
def test_functions_of_one_state_refuse_a_stack(measure):
    with pytest.raises(ValueError, match=r"takes one state, got a stack of shape \(4,\)"):
        measure(stacked(STATES["tokens"][1]))
