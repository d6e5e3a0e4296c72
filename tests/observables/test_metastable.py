"""Plateaus, leaders, and the limit of large beta against runs at finite beta."""

import math

import numpy as np
import pytest

import tokenfield as tkf

STAIRCASE = tkf.circle_tokens(0.5 * np.array([0, 0.5, 2, 4, 7]) * math.log(2000) / math.sqrt(2000))


def run(beta, state=STAIRCASE, attention=tkf.Softmax):
    return tkf.simulate(tkf.Transformer(attention(beta), tkf.PostLN()), state, math.inf, method="coarsen")


@pytest.fixture(scope="module")
def steep():
    return run(4000.0)


@pytest.mark.slow
def test_plateaus_of_a_coarsened_run(steep):
    states = tkf.metastable_states(steep)
    assert [state.sizes for state in states] == [(1,) * 5, (2, 1, 1, 1), (3, 1, 1), (3, 2), (5,)]
    assert [state.energy for state in states] == pytest.approx([0.2, 0.28, 0.44, 0.52, 1.0])
    times = [event.detail["log_time"] for event in steep.events if event.kind == "merge"]
    assert [state.log_end for state in states] == [*times, math.inf]
    assert states[2].log_lifetime == pytest.approx(times[2] + math.log1p(-math.exp(times[1] - times[2])))
    assert states[-1].lifetime == math.inf
    assert states[0].end == pytest.approx(math.exp(times[0]))
    assert states[3].number == 2


def test_plateaus_of_a_plain_run():
    circle = tkf.circle_tokens([0.06219714, 0.21432297, 1.81912262, 2.91107101, -3.09524835])  # the published case
    model = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())
    plain = tkf.metastable_states(tkf.simulate(model, circle, 400.0, method="tsit5", save_at=401))
    coarse = tkf.metastable_states(run(4.0, circle))[-2:]
    assert [state.sizes for state in plain[-2:]] == [state.sizes for state in coarse]
    assert plain[-2].end == pytest.approx(coarse[-2].end, rel=0.02)
    assert plain[-1].lifetime == math.inf


def test_pictures(steep, tmp_path):
    for draw in (tkf.plotting.staircase, tkf.plotting.merge_tree, tkf.plotting.space_time):
        draw(steep).savefig(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 5_000
    plain = tkf.simulate(tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN()), STAIRCASE, 1.0, save_at=2)
    with pytest.raises(ValueError, match="needs a run with merges"):
        tkf.plotting.merge_tree(plain)


def test_runs_tend_to_the_limit_of_large_beta(steep):
    limit = tkf.theory.saddle_to_saddle(STAIRCASE)
    merges = [event.detail for event in steep.events if event.kind == "merge"]
    assert [tuple(sorted(merge["tokens"])) for merge in merges] == [step.tokens for step in limit]
    errors = []
    for beta in (500.0, 2000.0, 8000.0):
        times = [event.detail["log_time"] for event in run(beta).events if event.kind == "merge"]
        last = limit[-1]
        prefactor = math.log(
            beta * (1 - last.cosine**2) * (last.masses[0] / last.masses[1] + last.masses[1] / last.masses[0])
        )
        errors.append(abs((times[-1] + prefactor) / beta - last.exponent))
    assert errors[0] > 1.8 * errors[1] > 3.2 * errors[2]  # like beta^(-1/2), as the place where unequal clusters meet
    assert errors[2] < 1e-3


@pytest.mark.parametrize(("attention", "share"), [("softmax", 0.64 / 0.68), ("unnormalized", 0.8)])
def test_the_pair_of_the_limit_meets_where_its_masses_say(attention, share):
    state = tkf.Tokens(tkf.circle_tokens([0.0, 1.0]).x, weights=[0.2, 0.8])
    (step,) = tkf.theory.saddle_to_saddle(state, attention)
    assert math.atan2(step.place[1], step.place[0]) == pytest.approx(share)
    assert step.cosine == pytest.approx(math.cos(1.0))
    kernel = tkf.Softmax if attention == "softmax" else tkf.Unnormalized
    x = np.asarray(run(400.0, state, kernel).final.x)[0]
    assert math.atan2(x[1], x[0]) == pytest.approx(share, abs=0.02)


def test_pair_in_rescaled_time_solves_its_equation():
    h, masses = 1e-6, (0.3, 0.7)
    slope = (tkf.theory.pair_cosine(0.4 + h, 0.2, masses) - tkf.theory.pair_cosine(0.4 - h, 0.2, masses)) / (2 * h)
    rho = tkf.theory.pair_cosine(0.4, 0.2, masses)
    assert slope == pytest.approx((3 / 7 + 7 / 3) * (1 - rho**2), rel=1e-8)
    assert tkf.theory.pair_cosine(0.0, 0.2) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (tkf.circle_tokens([0.0, 1.0, 2.0]), "equally close"),
        (tkf.circle_tokens([0.0, np.pi]), "antipodal"),
        (tkf.Tokens([[2.0, 0.0], [0.0, 1.0]]), "length 1"),
    ],
)
def test_starts_without_a_limit(state, words):
    with pytest.raises(ValueError, match=words):
        tkf.theory.saddle_to_saddle(state)


def test_leaders_by_their_definition():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 2))
    x[7] = x[3]
    A = np.array([[1.0, 0.3], [-0.2, 0.8]])
    expected = []
    for i in range(60):
        best = max(float(A @ x[i] @ x[j]) for j in range(60))
        chosen = [j for j in range(60) if A @ x[i] @ x[j] >= best - 1e-12]
        if all(np.array_equal(x[j], x[i]) for j in chosen):
            expected.append(i)
    assert tkf.leaders(tkf.Tokens(x), A).tolist() == expected
    assert expected


def test_leaders_stand_still_and_near_ties_lead_nowhere():
    tokens = tkf.gaussian_tokens(40, 2, seed=1)
    lead = tkf.leaders(tokens)
    moved = tkf.layers(tkf.Transformer(tkf.Hardmax(rule="self")), tokens, depth=5, step=0.3)
    x = np.asarray(tokens.x)
    directions = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)  # noqa: E731
    assert np.allclose(directions(np.asarray(moved.final.x)[lead]), directions(x[lead]), atol=1e-12)
    tie = tkf.Tokens([[1.0, 0.0], [1.0, 1e-13], [0.0, 0.5]])
    assert tkf.leaders(tie).tolist() == [0, 1, 2]  # 0 and 1 are at one place, to within the tolerance
    above = tkf.Tokens([[1.0, 0.0], [1.0, 0.5]])
    assert tkf.leaders(above).tolist() == [1]  # token 0 ties with token 1, so it does not lead
    with pytest.raises(ValueError, match="A must have shape"):
        tkf.leaders(above, np.eye(3))
