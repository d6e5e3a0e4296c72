"""Merges, the states between them, and tokens of weight 0: properties of random runs, and SciPy's integrator."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf


def model(beta, softmax=True):
    return tkf.Transformer((tkf.Softmax if softmax else tkf.Unnormalized)(beta), norm=tkf.PostLN())


def plain(x, w, beta, t, softmax=True):
    """The tokens at time t, by LSODA; time in units of `e^{-beta}` for unnormalized attention."""

    def velocity(_, flat):
        y = flat.reshape(x.shape)
        s = beta * (y @ y.T - 1)
        s = s - np.where(w > 0, s, -np.inf).max(1, keepdims=True) if softmax else s
        k = w * np.exp(s)
        pull = k @ y / (k.sum(1, keepdims=True) if softmax else 1)
        return (pull - (pull * y).sum(1, keepdims=True) * y).ravel()

    return solve_ivp(velocity, (0, t), x.ravel(), method="LSODA", rtol=1e-10, atol=1e-12).y[:, -1].reshape(x.shape)


def start(seed, low=3.0, high=50.0):
    """Tokens at random; of every other seed two are within reach of each other."""
    rng = np.random.default_rng(seed)
    n, d, beta = int(rng.integers(3, 9)), int(rng.integers(2, 4)), math.exp(rng.uniform(math.log(low), math.log(high)))
    x, w = rng.standard_normal((n, d)), rng.uniform(0.2, 1.0, n)
    if seed % 2:
        x[1] = x[0] + np.linalg.norm(x[0]) * rng.uniform(0.01, 0.5) / math.sqrt(beta) * rng.standard_normal(d)
    if seed % 4 == 3:
        x[2] = x[0]
    return x / np.linalg.norm(x, axis=1, keepdims=True), w / w.sum(), beta


def merges(run):
    return [event for event in run.events if event.kind == "merge"]


@pytest.mark.slow
@pytest.mark.parametrize("softmax", [True, False])
def test_merges_and_states_are_in_order(softmax):
    for seed in range(8):
        x, w, beta = start(seed)
        run = tkf.simulate(model(beta, softmax), tkf.Tokens(x, w), math.inf)
        found, final = merges(run), len(set(run.dataset["cluster"].values[-1]))
        assert run.events[-1].kind == "one_cluster"
        assert len(found) == len(w) - final == len(w) - 1
        times = [event.detail["log_time"] for event in found]
        assert times == sorted(times)
        clusters = {frozenset([k]) for k in range(len(w))}
        energies = []
        for event in found:
            a, b = map(frozenset, event.detail["clusters"])
            energies.append(sum(sum(w[list(c)]) ** 2 for c in clusters))
            assert event.detail["energy_before"] == pytest.approx(energies[-1], abs=1e-12)
            clusters = (clusters - {a, b}) | {a | b}  # both must be there
            assert len(clusters) == len(w) - len(energies)
            assert event.detail["energy_after"] == pytest.approx(sum(sum(w[list(c)]) ** 2 for c in clusters), abs=1e-12)
            assert sorted(event.detail["masses"]) == pytest.approx(
                sorted([sum(w[list(a)]), sum(w[list(b)])]), abs=1e-12
            )
            assert 0.5 <= event.detail["energy_fraction"] <= 1
        assert energies == sorted(energies)
        states = tkf.metastable_states(run)
        assert states[0].log_start == -math.inf
        assert states[-1].log_end == math.inf
        assert states[-1].number == 1
        for state in states:
            assert state.log_start < state.log_end
            assert state.lifetime > 0
            assert sum(state.sizes) == len(w)
            assert sum(state.masses) == pytest.approx(1, abs=1e-12)
            assert min(abs(state.energy - e) for e in [*energies, 1.0]) < 1e-12
        for one, two in itertools.pairwise(states):
            assert one.log_end == two.log_start
            assert one.number > two.number
        shown = {state.number for state in states}
        assert shown == {len(w) - k for k in range(len(w)) if k in (0, len(w) - 1) or times[k - 1] < times[k]} - (
            {len(w)} if times[0] == -math.inf else set()
        )


@pytest.mark.slow
def test_merge_times_are_when_the_plain_flow_is_there():
    checked = 0
    for seed in range(6):
        x, w, beta = start(seed, 3.0, 9.0)
        run = tkf.simulate(model(beta), tkf.Tokens(x, w), math.inf)
        times = [event.time for event in merges(run)]
        for event in merges(run):
            a, b = event.detail["clusters"]
            if event.time == 0:
                assert np.array_equal(x[a[0]], x[b[0]])
            elif event.time < 300 and times.count(event.time) == 1:
                y = plain(x, w, beta, event.time)
                gap = w[a] @ y[a] / w[a].sum() - w[b] @ y[b] / w[b].sum()
                fraction = math.exp(-0.5 * beta * (gap @ gap))
                assert fraction == pytest.approx(event.detail["energy_fraction"], abs=1e-6)
                checked += 1
    assert checked > 12


def test_tokens_that_start_within_reach():
    run = tkf.simulate(model(6.0), tkf.circle_tokens([0, 0.3, 1.0, 2.6]), math.inf)
    first = merges(run)[0]
    assert first.detail["tokens"] == [0, 1]
    assert first.detail["energy_fraction"] == pytest.approx((1 + math.exp(-6 * (1 - math.cos(0.3)))) / 2, abs=1e-9)
    assert [state.sizes for state in tkf.metastable_states(run)] == [(1, 1, 1, 1), (2, 1, 1), (3, 1), (4,)]
    for draw in (tkf.plotting.staircase, tkf.plotting.merge_tree):
        assert draw(run) is not None
    twins = tkf.simulate(model(6.0), tkf.circle_tokens([0, 0, 1.0, 2.6]), math.inf)
    assert merges(twins)[0].time == 0
    assert tkf.metastable_states(twins)[0].sizes == (2, 1, 1)
    for draw in (tkf.plotting.staircase, tkf.plotting.merge_tree):
        assert draw(twins) is not None
    late = tkf.simulate(model(6.0), tkf.circle_tokens([0, 0.3, 1.0, 2.6]), 2000.0, save_at=[2000.0])
    assert tkf.metastable_states(late) == tkf.metastable_states(run)  # whatever was saved


def test_a_plain_run_has_no_state_at_its_start():
    for beta, gap in ((6.0, 0.01), (20.0, 0.03), (3.0, 0.0)):
        tokens = tkf.circle_tokens([0, gap, 1.0, 2.6])
        for state in tkf.metastable_states(tkf.simulate(model(beta), tokens, 30.0, save_at=61)):
            assert -math.inf < state.log_start < state.log_end
            assert state.lifetime > 0


@pytest.mark.slow
@pytest.mark.parametrize("softmax", [True, False])
def test_tokens_of_weight_zero_follow_and_merge(softmax):
    for seed in range(6):
        x, w, beta = start(seed, 3.0, 20.0)
        rng = np.random.default_rng(seed)
        w = np.where(np.isin(np.arange(len(w)), rng.choice(len(w), rng.integers(1, len(w) - 1), False)), 0, w)
        w = w / w.sum()
        t1 = 2000.0 if softmax else 2000.0 * math.exp(-beta)
        times = t1 * np.array([0.001, 0.02, 1.0])
        run = tkf.simulate(model(beta, softmax), tkf.Tokens(x, w), t1, save_at=times, method="coarsen")
        assert run.dataset.attrs["steps"] < 1500
        for state, t in zip(run.states, times, strict=True):
            exact = plain(x, w, beta, t if softmax else t * math.exp(beta), softmax)
            assert np.asarray(state.x) == pytest.approx(exact, abs=2e-6)
        energy = [event.detail["energy_after"] - event.detail["energy_before"] for event in merges(run)]
        masses = [event.detail["masses"] for event in merges(run)]
        assert energy == pytest.approx([2 * a * b for a, b in masses], abs=1e-12)


def test_a_token_of_weight_zero_ends_in_a_cluster():
    start = tkf.Tokens([[1, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8]], [0, 0.5, 0.5])
    run = tkf.simulate(model(5.0), start, t1=1000.0)
    assert len(merges(run)) == 2
    assert run.dataset.attrs["steps"] < 100
    exact = plain(np.asarray(start.x), np.asarray(start.weights), 5.0, 1000.0)
    assert np.asarray(run.final.x) == pytest.approx(exact, abs=1e-8)
    assert tkf.metastable_states(run)[-1].masses == (1.0,)


@pytest.mark.parametrize("beta", [40.0, 2000.0])
@pytest.mark.parametrize("softmax", [True, False])
def test_long_waits_with_tokens_of_weight_zero(beta, softmax):
    """The weighted tokens merge when they would without the others; two of weight 0 that coincide are one."""
    angles, weights = [0.0, 0.4, 1.1, 0.15, 2.0, 2.0], np.array([0.3, 0.3, 0.4, 0.0, 0.0, 0.0])
    run = tkf.simulate(model(beta, softmax), tkf.Tokens(tkf.circle_tokens(angles).x, weights), math.inf)
    alone = tkf.simulate(model(beta, softmax), tkf.Tokens(tkf.circle_tokens(angles[:3]).x, weights[:3]), math.inf)
    heavy = [event.detail["log_time"] for event in merges(run) if min(event.detail["masses"]) > 0]
    assert heavy == pytest.approx([event.detail["log_time"] for event in merges(alone)], abs=1e-6)
    assert len(merges(run)) == 5
    assert run.events[-1].kind == "one_cluster"
    assert np.ptp(np.asarray(run.final.x), axis=0).max() < 1e-12
    assert np.asarray(run.final.x)[0] == pytest.approx(np.asarray(alone.final.x)[0], abs=1e-6)


def test_balanced_tokens_and_one_of_weight_zero():
    """It comes to rest although it is in no cluster, and the run says that nothing moves."""
    corners = 2 * np.pi * np.arange(3) / 3
    tokens = tkf.Tokens(tkf.circle_tokens([*corners, 0.4]).x, np.array([1, 1, 1, 0]) / 3)
    run = tkf.simulate(model(4.0), tokens, math.inf)
    assert run.events[-1].kind == "stationary"
    exact = plain(np.asarray(tokens.x), np.asarray(tokens.weights), 4.0, 20.0)
    assert np.asarray(run.final.x)[3] == pytest.approx(exact[3], abs=1e-6)


def test_times_that_were_asked_for_are_those_times():
    """Runs count in log t, and `e^(log t)` is not t: a run to t1 ends at t1 to the last bit."""
    rng = np.random.default_rng(7)
    model = tkf.Transformer(tkf.Softmax(beta=6.0), norm=tkf.PostLN())
    for _ in range(3):
        asked = np.sort(10 ** rng.uniform(-1, 3.5, 6))
        run = tkf.simulate(
            model, tkf.circle_tokens([0.0, 0.3, 1.0, 2.6]), asked[-1] + 2000, save_at=[*asked, asked[-1] + 2000]
        )
        np.testing.assert_array_equal(run.times, [*asked, asked[-1] + 2000])
        assert tkf.simulate(model, tkf.circle_tokens([0.0, 0.3, 1.0]), asked[-1] + 2000).times[-1] == asked[-1] + 2000
