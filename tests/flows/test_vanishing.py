"""Lengths that reach 0 under Pre-LN and Peri-LN, against closed forms and an integration of `x' = A(x/|x|)` itself."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf

NORMS = {"pre": tkf.PreLN(), "peri": tkf.PeriLN()}
TIGHT = {"rtol": 1e-10, "atol": 1e-12, "save_at": 2}
N, D, T = 3, 3, 6.0


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def draw(seed):
    """`(model, state, velocity)` for random parameters: softmax of either sign of beta, `Linear(-1)`, any V, an MLP."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((N, D)), rng.uniform(0.2, 1, N)
    w /= w.sum()
    case, norm = seed % 4, ("pre", "peri")[seed // 4 % 2]
    beta = -1.0 if case == 1 else rng.uniform(-2, 2)
    V = {0: -np.eye(D), 1: np.eye(D)}.get(case, rng.standard_normal((D, D)))
    W1, W2 = rng.standard_normal((4, D)), 0.5 * (case == 3) * rng.standard_normal((D, 4))

    def velocity(x):
        theta = unit(x)
        s = beta * theta @ theta.T
        k = w * s if case == 1 else w * np.exp(s - s.max(1, keepdims=True))
        parts = [(k if case == 1 else k / k.sum(1, keepdims=True)) @ theta @ V.T]
        if case == 3:
            parts.append(np.tanh(theta @ W1.T) @ W2.T)
        return sum(map(unit, parts) if norm == "peri" else parts)

    head = (tkf.Linear if case == 1 else tkf.Softmax)(A=beta * np.eye(D), V=V)
    model = tkf.Transformer(head, NORMS[norm], tkf.MLP(W1, W2) if case == 3 else None)
    return model, tkf.Tokens(x, w), velocity


def cartesian(velocity, x):
    """The time at which a token is at 0 (infinite if none is by T), and the tokens at the end."""
    size, shape, near = lambda y: np.linalg.norm(y.reshape(shape), axis=1), x.shape, 1e-8
    hit = lambda t, y: size(y).min() - near  # noqa: E731
    hit.terminal = True
    right = lambda t, y: velocity(y.reshape(shape)).ravel()  # noqa: E731
    found = solve_ivp(right, (0, T), x.ravel(), method="DOP853", rtol=1e-12, atol=1e-15, events=hit)
    end = found.y[:, -1].reshape(shape)
    if found.status == 0:
        return math.inf, end
    first = size(end).argmin()
    return found.t[-1] + near / -(unit(end) * velocity(end))[first].sum(), end


@pytest.mark.slow(keep=5)
# Of these, 0, 9, 10, 28, 32 and 36 reach 0; the others pass it by.
@pytest.mark.parametrize("seed", [0, 1, 3, 6, 7, 9, 10, 11, 14, 18, 28, 32, 36, 39])
def test_a_token_at_zero_is_an_event_and_a_near_pass_is_none(seed):
    model, state, velocity = draw(seed)
    time, end = cartesian(velocity, np.asarray(state.x))
    run = tkf.simulate(model, state, T, **TIGHT)
    if time == math.inf:
        assert run.events == []
        np.testing.assert_allclose(run.final.x, end, rtol=0, atol=1e-8)
        return
    (event,) = run.events
    assert event.kind == "vanished"
    assert abs(event.time - time) < 1e-10 * time
    assert run.times[-1] == event.time
    assert np.linalg.norm(run.final.x, axis=1).min() < 1e-9
    np.testing.assert_allclose(run.final.x, end, rtol=0, atol=1e-7)


@pytest.mark.grid
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("offset", [1e-2, 1e-5, 1e-8, 1e-11, 0.0])
def test_a_straight_line_past_zero_or_through_it(norm, offset):
    """A token without weight sees one other, e: `x' = e`, so `x = (t - 1, offset)`."""
    state = tkf.Tokens([[1.0, 0.0], [-1.0, offset]], [1.0, 0.0])
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(0.0), NORMS[norm]), state, 2.0, save_at=[0.5, 0.99, 1.01, 2.0])
    if offset == 0:
        assert [event.kind for event in run.events] == ["vanished"]
        assert run.events[0].time == pytest.approx(1.0, rel=1e-12)
        return
    assert run.events == []
    exact = np.stack([run.times - 1, np.full(4, offset)], 1)
    np.testing.assert_allclose(run.dataset["x"].values[:, 1], exact, rtol=0, atol=2e-6)


@pytest.mark.grid
@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-11])
@pytest.mark.parametrize("r0", [0.1, 1.0, 30.0])
def test_one_token_reaches_zero_at_its_length(rtol, r0):
    """V = -v: `r' = -v` under Pre-LN, -1 under Peri-LN."""
    start = tkf.Tokens([[0.6 * r0, 0.8 * r0]])
    for norm, time in (("pre", r0 / 0.7), ("peri", r0)):
        run = tkf.simulate(tkf.Transformer(tkf.Softmax(1.0, V=-0.7), NORMS[norm]), start, 100.0, rtol=rtol, save_at=2)
        assert [event.kind for event in run.events] == ["vanished"]
        assert run.events[0].time == pytest.approx(time, rel=1e-10)


@pytest.mark.slow
def test_mix_ln_and_a_spiral():
    """Mix-LN has length 1 at tau. `V = -a + turn`: r' = -a while theta turns at the rate 1/r, infinitely often."""
    mix = tkf.simulate(tkf.Transformer(tkf.Softmax(1.0, V=-0.5), tkf.MixLN(1.5)), tkf.Tokens([[0.0, 1.0]]), 9.0)
    assert [event.kind for event in mix.events] == ["vanished"]
    assert mix.events[0].time == pytest.approx(1.5 + 2.0, rel=1e-10)
    spiral = tkf.Transformer(tkf.Softmax(1.0, V=[[-0.25, 1.0], [-1.0, -0.25]]), tkf.PreLN())
    run = tkf.simulate(spiral, tkf.Tokens([[0.0, 1.0]]), 9.0, save_at=[2.0])
    assert [event.kind for event in run.events] == ["vanished"]
    assert run.events[0].time == pytest.approx(4.0, rel=1e-10)
    phase = np.log(0.5) / 0.25  # theta' = -1/r
    np.testing.assert_allclose(run.state(0).x[0], [-0.5 * np.sin(phase), 0.5 * np.cos(phase)], atol=1e-8)


@pytest.mark.slow
def test_equiangular_tokens_reach_zero_when_their_tokens_do():
    for name, norm in NORMS.items():
        model = tkf.Transformer(tkf.Softmax(2.0, V=-1.0), norm)
        one = tkf.simulate(model, tkf.Equiangular(0.3, 4), 5.0).events
        (event,) = tkf.simulate(model, tkf.equiangular_tokens(0.3, 4), 5.0).events
        assert [each.kind for each in (*one, event)] == ["vanished", "vanished"], name
        assert one[0].time == pytest.approx(event.time, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["euler", "heun", "tsit5"])
def test_fixed_steps_end_at_zero_or_say_that_they_are_too_long(method):
    model = tkf.Transformer(tkf.Softmax(1.0, V=-1.0), tkf.PreLN())
    (event,) = tkf.simulate(model, tkf.Tokens([[1.0, 0.0]]), 5.0, method=method, dt=0.3).events
    assert (event.kind, event.time) == ("vanished", pytest.approx(1.0, rel=1e-12))
    passing = tkf.Tokens([[1.0, 0.0], [-1.0, 0.01]], [1.0, 0.0])
    with pytest.raises(tkf.SolverError, match=r"dt = 0\.06 is too large at t = 0\.9\d*, where a token passes near 0"):
        tkf.simulate(tkf.Transformer(tkf.Softmax(0.0), tkf.PreLN()), passing, 2.0, method=method, dt=0.06)


@pytest.mark.slow
def test_many_members_and_sweeps_have_the_event():
    """Lengths 1/2 and 2 with V = -1: one reaches 0 before t1 = 1, the other does not."""
    model = tkf.Transformer(tkf.Softmax(1.0, V=-1.0), tkf.PreLN())
    many = tkf.simulate_many(model, [tkf.Tokens([[0.5, 0.0]]), tkf.Tokens([[2.0, 0.0]])], 1.0)
    assert [[event.kind for event in events] for events in many.events] == [["vanished"], []]
    assert many.events[0][0].time == pytest.approx(0.5, rel=1e-10)
    assert many[1].final.x[0] == pytest.approx([1.0, 0.0], abs=1e-9)
    found = tkf.sweep(
        {
            "run": {"t1": 3.0, "norm": {"kind": "pre"}, "tokens": {"kind": "equiangular", "n": 4, "rho": 0.3}},
            "axes": {"beta": [2.0, 4.0], "attention.V": [-1.0, 1.0]},
            "state": "equiangular",
            "record": {"gone": {"event": "vanished"}, "last": "mean_length"},
        }
    ).dataset
    for k, j in np.ndindex(2, 2):
        beta, V = (2.0, 4.0)[k], (-1.0, 1.0)[j]
        run = tkf.simulate(tkf.Transformer(tkf.Softmax(beta, V=V), tkf.PreLN()), tkf.Equiangular(0.3, 4), 3.0)
        time = run.events[0].time if V < 0 else math.nan
        np.testing.assert_allclose(found["gone"].values[k, j, 0], time, rtol=1e-9)
        np.testing.assert_allclose(found["last"].values[k, j, 0], math.nan if V < 0 else run.final.radius, rtol=1e-5)


@pytest.mark.grid
@pytest.mark.parametrize(
    "norm", [tkf.PostLN(), tkf.PreLN(), tkf.PeriLN(), tkf.NGPT(), tkf.MixLN(2.0), tkf.SqrtScaling()]
)
@pytest.mark.parametrize("angle", [0.0, 0.3, 2.5])
def test_layers_end_where_a_norm_meets_zero(norm, angle):
    """`x + A(x) = 0` for V = -1 up to rounding: there is no direction, and rounding must not make one up."""
    model = tkf.Transformer(tkf.Softmax(1.0, V=-1.0), norm)
    run = tkf.layers(model, tkf.Tokens([[np.cos(angle), np.sin(angle)]]), 3)
    assert [(event.kind, event.time) for event in run.events] == [("vanished", 1.0)]
    assert len(run.times) == 1
    passed = tkf.layers(model, tkf.Tokens([[np.cos(angle), np.sin(angle)]]), 3, step=0.7)
    assert passed.events == []
    assert np.abs(np.linalg.norm(passed.final.x)) > 0.05


def test_a_context_that_vanishes_ends_the_run_of_both():
    """The encoder's only token has `r' = -1`; the decoder's does not vanish."""
    context, encoder = tkf.Tokens([[1.5, 0.0]]), tkf.Transformer(tkf.Softmax(V=-1.0), tkf.PreLN())
    model = tkf.Transformer(tkf.Softmax(1.0), tkf.PreLN(), context=context, encoder=encoder)
    run = tkf.simulate(model, tkf.Tokens([[0.6, 0.8]]), 3.0)
    assert [event.kind for event in run.events] == ["vanished"]
    assert run.events[0].time == pytest.approx(1.5, rel=1e-10)
