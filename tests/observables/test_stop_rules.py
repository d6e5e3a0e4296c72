"""Stop rules: a margin that is 0 where the observable reaches its level."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import tokens

import tokenfield as tkf
from tokenfield.stop_rule import When, as_rule

MODEL = tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PostLN())


def margin(rule, state, model=MODEL, velocity=None):
    return as_rule(rule).resolve(model, state).margin(jnp.zeros(()), state, velocity)


def holds(rule, state, model=MODEL):
    return bool(as_rule(rule).resolve(model, state)(jnp.zeros(()), state, None))


def test_margins_are_those_of_the_observables():
    state, angle = tokens(n=6), tkf.Equiangular(0.3, 6)
    for each in (state, angle):
        assert margin(tkf.order_above(0.4), each) == pytest.approx(tkf.order_parameter(each) - 0.4, abs=1e-15)
        assert margin(tkf.cosine_above(0.1), each) == pytest.approx(tkf.mean_cosine(each) - 0.1, abs=1e-15)
    assert margin(tkf.one_cluster(0.2), angle) == pytest.approx(0.2 - 0.7, abs=1e-15)
    assert holds(tkf.at_most_clusters(6, 0.2), angle)
    tiny = tkf.Equiangular(1.0, 6, gap=1e-13)
    assert margin(tkf.cosine_above(1 - 2e-13), tiny) == pytest.approx(1e-13, rel=1e-2)


def test_the_margin_of_one_cluster_is_what_is_left_of_the_reach():
    """(r^2 - D^2)/2r, D the largest distance: by hand, and as all pairs say."""
    far = tkf.Tokens([[0.0, 0.0], [0.3, 0.0], [0.3, 0.4]])
    for tol in (0.6, 0.45, 0.2):
        reach = tol * (1 - 1e-9)
        largest = 0.5  # token 0 is also the center
        expected = (reach**2 - largest**2) / (2 * reach)
        assert margin(tkf.one_cluster(tol, "distance"), far) == pytest.approx(expected, rel=1e-12)
    pair = tkf.circle_tokens([0.0, 0.2])
    assert margin(tkf.one_cluster(0.02, "cosine"), pair) == pytest.approx(
        (0.04 - 4 * math.sin(0.1) ** 2) / 0.4, rel=1e-6
    )
    slope = jax.grad(lambda x: margin(tkf.one_cluster(0.6, "distance"), tkf.Tokens(x)))(far.x)
    np.testing.assert_allclose(slope, np.array([[0.3, 0.4], [0.0, 0.0], [-0.3, -0.4]]) / 0.6, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-2, 1e-6])
def test_the_margin_of_a_small_cluster_is_as_exact_as_its_size(scale):
    """In exact arithmetic, far from the origin: a product of the points themselves would lose all digits of 1e-6."""
    x = np.array([5.0, -3.0, 2.0]) + scale * np.random.default_rng(0).standard_normal((9, 3))
    exact = [[Fraction(float(number)) for number in row] for row in x]
    square = max(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for one in exact for other in exact)
    tol = 1.01 * float(square) ** 0.5
    reach = tol * (1 - 1e-9)
    expected = float((Fraction(reach) ** 2 - square) / (2 * Fraction(reach)))
    assert margin(tkf.one_cluster(tol, "distance"), tkf.Tokens(x)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_cluster_rules_agree_with_clusters_and_have_finite_derivatives(k):
    rng, agreed, rule = np.random.default_rng(k), [], tkf.at_most_clusters(k, 0.05, "distance")
    found = jax.jit(jax.value_and_grad(lambda x: margin(rule, tkf.Tokens(x))))
    for _ in range(60):
        count = rng.integers(1, 5)
        x = rng.standard_normal((count, 3))[rng.integers(0, count, 12)]
        x += 10 ** rng.uniform(-4, -1) * rng.standard_normal((12, 3))
        value, slope = found(x)
        agreed.append(len(tkf.clusters(tkf.Tokens(x), 0.05, "distance").sizes) <= k)
        assert (float(value) >= 0) == agreed[-1]
        assert np.isfinite(slope).all()
    assert 0 < sum(agreed) < 60


def test_clusters_that_touch_have_a_negative_margin():
    """Five points in a row, each within reach of the next: two balls hold them, but they are one wide component."""
    row = tkf.Tokens(np.array([[0.0], [0.9], [1.8], [2.7]]))
    assert tkf.clusters(row, 1.0, "distance").single_tokens == 4
    assert margin(tkf.at_most_clusters(2, 1.0, "distance"), row) < 0
    apart = tkf.Tokens(np.array([[0.0], [0.9], [2.0], [2.7]]))
    assert margin(tkf.at_most_clusters(2, 1.0, "distance"), apart) == pytest.approx((1 - 0.81) / 2, rel=1e-7)


@pytest.mark.parametrize("gain", [None, 2.0])
def test_the_margin_of_a_settled_energy_is_the_rate_left(gain):
    """d log Ebar/dt of two tokens that move towards each other, by hand. A gain g multiplies beta by g^2 d."""
    angle, speed, model = 0.7, 0.3, tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PreLN(gain=gain))
    beta = 2.0 if gain is None else 2.0 * gain**2 * 2
    state = tkf.circle_tokens([0.0, angle])
    moving = tkf.Tokens(np.array([[0.0, 0.0], [speed * math.sin(angle), -speed * math.cos(angle)]]), state.weights)
    e = math.exp(beta * (math.cos(angle) - 1))
    rate = beta * math.sin(angle) * speed * e / (1 + e)
    found = margin(tkf.energy_settled(0.5), state, model, lambda: moving)
    assert float(found) == pytest.approx(0.5 - rate, rel=1e-12)


def test_functions_of_the_state_are_margins_if_they_are_real():
    state = tokens(n=5)
    real = lambda s: s.x[:, 0] + 0.25  # noqa: E731
    assert margin(real, state) == pytest.approx(np.min(np.asarray(state.x)[:, 0]) + 0.25, rel=1e-15)
    assert When(real).resolve(MODEL, state).differentiable
    assert not When(lambda s: s.x[0, 0] > 0).resolve(MODEL, state).differentiable
    assert holds(lambda s: s.x[:, 0] > -2, state)
    assert not holds(lambda s: s.x[:, 0] > np.asarray(state.x)[0, 0], state)
    assert holds(lambda s: 0.0, state)
    assert all(rule.differentiable for rule in (tkf.one_cluster(), tkf.order_above(0.5), tkf.energy_settled()))
    with pytest.raises(ValueError, match=r"stop_when must return a bool, or a real number .* got dtype int64"):
        margin(lambda s: 3, state)
    with pytest.raises(
        ValueError, match=r"stop_when must return a bool, or a real number .* not a valid JAX array type"
    ):
        margin(lambda s: "late", state)
    with pytest.raises(ValueError, match=r"stop_when must use jax\.numpy"):
        margin(lambda s: bool(s.x[0, 0] > 0), state)


def test_the_cosine_of_one_token_is_refused():
    for state in (tkf.Tokens([[1.0, 0.0]]), tkf.Tokens([[1.0, 0.0], [0.0, 1.0]], weights=[1.0, 0.0])):
        with pytest.raises(ValueError, match="needs at least two tokens of positive weight"):
            tkf.simulate(MODEL, state, 1.0, stop_when=tkf.cosine_above(0.9))


def test_a_nan_stops_nothing():
    assert not holds(lambda s: jnp.nan * s.x[0, 0], tokens())


@pytest.mark.slow
def test_a_run_stops_where_a_real_function_reaches_zero():
    """As where the condition that it is at least 0 first holds, and where an observable reaches its level."""
    start = tkf.circle_tokens([0.0, 1.0])
    rules = (
        lambda s: tkf.order_parameter(s) - 0.97,
        lambda s: tkf.order_parameter(s) >= 0.97,
        tkf.order_above(0.97),
    )
    ends = [tkf.simulate(MODEL, start, 5.0, stop_when=rule, save_at=2, progress=False).times[-1] for rule in rules]
    assert ends[0] == pytest.approx(ends[2], rel=1e-13)
    assert ends[1] == pytest.approx(ends[2], rel=1e-13)
    assert 0 < ends[2] < 5


@pytest.mark.slow
def test_a_rule_of_coordinates_sees_those_of_the_start():
    """With d > n runs use coordinates in the span of the tokens, in which such a rule would mean something else."""
    start = tkf.uniform_sphere(3, 8, seed=0)
    model = tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN())
    goal = 0.5 * float(start.x[0, 0] + tkf.simulate(model, start, 5.0).final.x[0, 0])
    sign = np.sign(goal - float(start.x[0, 0]))
    rule = lambda state: sign * (state.x[0, 0] - goal)  # noqa: E731
    stopped = tkf.simulate(model, start, 5.0, stop_when=rule)
    assert abs(float(stopped.final.x[0, 0]) - goal) < 1e-12
    assert 0 < stopped.events[0].time < 5
    (member,) = tkf.simulate_many(model, [start], 5.0, stop_when=rule)
    assert abs(member.events[0].time - stopped.events[0].time) < 1e-9


def test_an_ensemble_shares_one_rule():
    models = [tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in (1.0, 2.0)]
    starts = [tkf.uniform_sphere(4, 3, seed=k) for k in range(2)]
    with pytest.raises(ValueError, match="depends on the model"):
        tkf.simulate_many(models, starts, 1.0, stop_when=tkf.energy_settled(1e-3))


def test_cosine_rule_while_one_token_takes_all_the_weight():
    """Its weight grows until the others are below rounding beside it."""
    model = tkf.Transformer(tkf.Unnormalized(3.0), tkf.PostLN(), fisher_rao=40.0)
    start = tkf.Tokens(tkf.circle_tokens([0.0, 1.6, 3.9]).x, weights=[0.5, 0.3, 0.2])
    run = tkf.simulate(model, start, 0.6, stop_when=tkf.cosine_above(0.5), rtol=1e-9)
    w, x = (np.asarray(values, np.longdouble) for values in (run.final.weights, run.final.x))
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    mean = sum(w[i] * w[j] * (x[i] @ x[j]) for i, j in pairs) / sum(w[i] * w[j] for i, j in pairs)
    assert run.events[-1].kind == "cosine_0.5"
    assert float(mean) == pytest.approx(0.5, abs=1e-8)
    assert (w**2).sum() > 1 - 1e-12
