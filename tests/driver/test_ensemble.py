"""Many runs at once are the runs one by one."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver import batch


@pytest.mark.slow
def test_members_are_the_single_runs():
    model = tkf.Transformer(tkf.Softmax(4.0), tkf.MixLN(2.0))
    starts = [tkf.Equiangular(rho, 16) for rho in (0.0, 0.4, 0.97)]
    rule = tkf.cosine_above(0.98)
    runs = tkf.simulate_many(model, starts, 6.0, save_at=7, stop_when=rule)
    assert len(runs) == 3
    for run, start in zip(runs, starts, strict=True):
        single = tkf.simulate(model, start, 6.0, save_at=7, stop_when=rule)
        assert np.array_equal(run.times, single.times) or np.allclose(run.times, single.times, rtol=1e-12)
        assert np.allclose(run.dataset["rho"].values, single.dataset["rho"].values, rtol=0, atol=1e-11)
        assert [event.kind for event in run.events] == [event.kind for event in single.events]
    assert np.isnan(runs.dataset["rho"].values[2, -1])
    assert runs.events[2][0].time == pytest.approx(runs.dataset["end_time"].values[2])


def test_members_with_their_own_models_blow_up_at_their_own_times():
    rng = np.random.default_rng(0)
    A = [rng.standard_normal((2, 2)) for _ in range(6)]
    cov = np.array([[0.7, 0.1], [0.1, 0.3]])
    models = [tkf.Transformer(tkf.Softmax(A=a)) for a in A]
    runs = tkf.simulate_many(models, [tkf.Gaussian(None, cov)] * 6, 3.0)
    predicted = [tkf.theory.gaussian_blowup_time(a, None, cov) for a in A]
    assert any(time < 3 for time in predicted)
    assert any(time > 3 for time in predicted)
    for events, a, time, run in zip(runs.events, A, predicted, runs, strict=True):
        if time < 3:
            assert events[0].kind == "blow_up"
            assert events[0].time == pytest.approx(time, rel=1e-6)
        else:
            assert not events
            exact = tkf.theory.gaussian_closed_form(a, None, cov, 3.0)
            assert np.abs(np.asarray(run.final.cov) - exact).max() < 1e-4 * np.abs(exact).max()


def test_only_members_that_blow_up_run_again(monkeypatch):
    """They run again at tolerances that locate the blow-up. The numbers of the others are those that they have alone."""
    taken, real = [], batch.run_members

    def run_members(*arguments):
        ends = real(*arguments)
        taken.append(np.asarray(ends.carry.steps + ends.carry.rejected))
        return ends

    monkeypatch.setattr(batch, "run_members", run_members)
    models = [tkf.Transformer(tkf.Softmax(A=a * np.eye(2))) for a in (-1.0, 2.0, 0.5, 0.1)]
    start = tkf.Gaussian(None, np.array([[0.7, 0.1], [0.1, 0.3]]))
    runs = tkf.simulate_many(models, [start] * 4, 1.0, save_at=5)
    blown = [bool(events) for events in runs.events]
    assert blown == [tkf.theory.gaussian_blowup_time(a * np.eye(2), None, start.cov) < 1 for a in (-1.0, 2.0, 0.5, 0.1)]
    assert [(again > 0).tolist() for again in taken] == [[True] * 4, blown]
    assert 0 < sum(blown) < 4
    for run, model, steps in zip(runs, models, taken[0], strict=True):
        single = tkf.simulate(model, start, 1.0, save_at=np.linspace(0, 1, 5))
        assert run.events or steps == single.dataset.attrs["steps"] + single.dataset.attrs["rejected_steps"]
        np.testing.assert_allclose(run.dataset["cov"], single.dataset["cov"], rtol=1e-9)
        assert [event.time for event in run.events] == pytest.approx([event.time for event in single.events], rel=1e-12)


def test_tokens_in_many_dimensions_are_brought_back_from_their_span():
    model = tkf.Transformer(tkf.Softmax(3.0), tkf.PostLN())
    starts = [tkf.uniform_sphere(4, 9, seed=k) for k in range(2)]
    runs = tkf.simulate_many(model, starts, 1.0, save_at=3)
    for run, start in zip(runs, starts, strict=True):
        single = tkf.simulate(model, start, 1.0, save_at=3)
        assert np.abs(run.dataset["x"].values - single.dataset["x"].values).max() < 1e-12


@pytest.mark.parametrize(
    ("model", "states", "words"),
    [
        (tkf.Transformer(tkf.Softmax()), [], "states must hold at least one"),
        (
            [tkf.Transformer(tkf.Softmax())],
            [tkf.Gaussian(None, np.eye(2))] * 2,
            "one Transformer or one for each of the 2",
        ),
        (
            tkf.Transformer(tkf.Softmax()),
            [tkf.Gaussian(None, np.eye(2)), tkf.Gaussian(None, np.eye(3))],
            "of one kind and of equal shapes",
        ),
        (
            [tkf.Transformer(tkf.Softmax(V=lambda t: t)), tkf.Transformer(tkf.Softmax(V=lambda t: 2 * t))],
            [tkf.Gaussian(None, np.eye(2))] * 2,
            "of one kind and of equal shapes",
        ),
        (tkf.Softmax(), [tkf.Gaussian(None, np.eye(2))], "model must be a Transformer, got Softmax: wrap it"),
        ([3], [tkf.Gaussian(None, np.eye(2))], "model must be a Transformer, got int"),
    ],
)
def test_what_cannot_run_side_by_side(model, states, words):
    with pytest.raises(ValueError, match=words):
        tkf.simulate_many(model, states, 1.0)


@pytest.mark.slow
def test_members_that_coarsen_share_a_unit_of_time_and_have_their_own_settings():
    models = [tkf.Transformer(tkf.Unnormalized(beta), tkf.PostLN()) for beta in (40.0, 50.0)]
    starts = [tkf.uniform_sphere(4, 3, seed=k) for k in range(2)]
    with pytest.raises(ValueError, match="different time units"):
        tkf.simulate_many(models, starts, 1000.0)
    models = [tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in (4.0, 5.0)]
    runs = tkf.simulate_many(models, starts, 1000.0, save_at=3)
    for k, model in enumerate(models):
        alone = tkf.simulate(model, starts[k], 1000.0, save_at=3)
        assert runs[k].config["model"] == alone.config["model"]
        assert runs[k].config["method"] == alone.config["method"] == "coarsen"
        assert runs[k].config["reductions"] == alone.config["reductions"]
        assert runs[k].energy_beta == alone.energy_beta


@pytest.mark.slow
def test_members_that_use_a_series_give_the_numbers_that_they_have_alone():
    """One stops between save times, one runs to the end."""
    models = [tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in (1.0, 0.5)]
    starts = [tkf.circle_tokens(np.linspace(-spread, spread, 3000)) for spread in (0.5, 1.5)]
    rule, times = tkf.cosine_above(0.97), [0.0, 0.5, 1.0]
    runs = tkf.simulate_many(models, starts, 1.0, save_at=times, stop_when=rule)
    ended = []
    for k, model in enumerate(models):
        alone = tkf.simulate(model, starts[k], 1.0, save_at=times, stop_when=rule)
        assert runs[k].config["reductions"] == alone.config["reductions"] == ["series"]
        assert runs[k].times.tolist() == alone.times.tolist()
        np.testing.assert_array_equal([s.x for s in runs[k].states], [s.x for s in alone.states])
        assert [event.time for event in runs[k].events] == [event.time for event in alone.events]
        ended.append(len(alone.events))
    assert sorted(ended) == [0, 1]


def test_methods_for_densities_only():
    with pytest.raises(ValueError, match="lawson"):
        tkf.simulate_many(
            tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN()), [tkf.uniform_sphere(4, 3, seed=0)], 1.0, method="lawson"
        )


def test_members_have_the_columns_and_the_events_of_single_runs():
    """Rescaled tokens with `scaled`, `log_scale` and the message of an event; one member ends at the end of the run."""
    rng = np.random.default_rng(13)
    V, B, x = rng.standard_normal((3, 3)), rng.standard_normal((3, 3)), rng.uniform(-1, 1, (5, 3))
    model = tkf.Transformer(tkf.Softmax(A=B @ B.T / 3, V=V), tkf.Rescaled())
    t1, states = 25.0, [tkf.Tokens(x), tkf.Tokens(x[::-1] + 0.1)]
    runs = tkf.simulate_many(model, states, t1, save_at=[0.0, 2.0, t1])
    for member, state in zip(runs, states, strict=True):
        alone = tkf.simulate(model, state, t1, save_at=[0.0, 2.0, t1])
        assert set(member.dataset.data_vars) == set(alone.dataset.data_vars) > {"scaled", "log_scale"}
        assert [(event.kind, event.detail) for event in member.events] == [(e.kind, e.detail) for e in alone.events]
        assert "less than rounding" in member.events[0].detail["message"]
        assert len(member.times) == len(alone.times) == 3
        for name in ("scaled", "log_scale"):
            np.testing.assert_allclose(member.dataset[name], alone.dataset[name], rtol=1e-5, atol=1e-8)
