"""Waits of any length: against quadrature, high precision, the plain integrator; and what must not change."""

import math

import mpmath
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver.clusters import ClusterSettings, Epoch, Snapshot, located, merge_rule
from tokenfield.driver.collapse import group_tokens
from tokenfield.driver.smooth import Options
from tokenfield.solver.coarsen import Coarsen
from tokenfield.solver.methods import runge_kutta

STAIRCASE = 0.5 * np.array([0, 0.5, 2, 4, 7]) * math.log(2000) / math.sqrt(2000)


def sphere_model(beta, attention=tkf.Softmax, **options):
    return tkf.Transformer(attention(beta, **options), norm=tkf.PostLN())


def pair(rho, weights=None):
    return tkf.Tokens([[1.0, 0.0], [rho, math.sqrt(1 - rho**2)]], weights=weights)


def merges(traj):
    return [event for event in traj.events if event.kind == "merge"]


@pytest.mark.grid
@pytest.mark.parametrize("beta", [10.0, 20.0, 50.0, 100.0, 300.0, 700.0, 3000.0])
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.8)])
def test_two_clusters_merge_when_the_quadrature_says(beta, weights):
    run = tkf.simulate(sphere_model(beta), pair(0.3, weights), math.inf)
    (event,) = merges(run)
    exact = tkf.theory.pair_merge_time(0.3, 1 - math.log(2) / beta, beta, weights, log=True)
    assert event.detail["log_time"] == pytest.approx(exact, abs=1e-9)
    assert abs(math.expm1(event.detail["log_time"] - exact)) <= event.detail["relative_error"]
    assert event.detail["masses"] == list(weights)
    assert event.detail["energy_before"] == pytest.approx(weights[0] ** 2 + weights[1] ** 2, abs=1e-12)
    assert event.detail["energy_after"] == pytest.approx(1, abs=1e-6)
    assert run.log_times[-1] >= event.detail["log_time"]
    assert np.isfinite(run.times).all()
    assert np.isfinite(event.time)
    assert math.log(event.time) + run.log_time_unit == pytest.approx(event.detail["log_time"], abs=1e-9)


@pytest.mark.parametrize("beta", [5.0, 40.0, 900.0])
def test_two_clusters_of_the_unnormalized_flow(beta):
    run = tkf.simulate(sphere_model(beta, tkf.Unnormalized, V=2.0), pair(0.3, (0.3, 0.7)), math.inf, method="coarsen")
    (event,) = merges(run)
    exact = tkf.theory.pair_merge_time(0.3, 1 - math.log(2) / beta, beta, (0.3, 0.7), "unnormalized", log=True)
    assert event.detail["log_time"] == pytest.approx(exact - math.log(2), abs=1e-9)


@pytest.mark.parametrize("masses", [(1 / 3, 1 / 3, 1 / 3), (0.5, 0.2, 0.3)])
def test_three_bodies_against_high_precision(masses):
    beta, angles = 5.0, [0.0, 1.0, 2.6]
    start = tkf.Tokens(tkf.circle_tokens(angles).x, np.array(masses))
    run = tkf.simulate(sphere_model(beta), start, math.inf, method="coarsen", rtol=1e-9)
    event = merges(run)[0]
    i, j = event.detail["clusters"][0][0], event.detail["clusters"][1][0]
    with mpmath.workdps(18):  # right to 1e-15: a million times the accuracy that is asked for

        def field(t, theta):
            cosines = [[mpmath.cos(a - b) for b in theta] for a in theta]
            weights = [[m * mpmath.exp(beta * c) for c, m in zip(row, masses, strict=True)] for row in cosines]
            pull = [
                [w * mpmath.sin(b - a) for w, b in zip(row, theta, strict=True)]
                for row, a in zip(weights, theta, strict=True)
            ]
            return [mpmath.fsum(p) / mpmath.fsum(w) for p, w in zip(pull, weights, strict=True)]

        theta = mpmath.odefun(field, 0, [mpmath.mpf(a) for a in angles], tol=mpmath.mpf(10) ** -13)(event.time)
        gap = beta * (1 - mpmath.cos(theta[i] - theta[j]))
    assert float(gap) == pytest.approx(math.log(2), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("attention", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize(("n", "d"), [(7, 2), (6, 3), (5, 9), (80, 3)])
def test_agrees_with_the_plain_integrator(attention, n, d):
    beta = 6.0
    t1 = 60.0 if attention is tkf.Softmax else 60.0 * math.exp(-beta) * 4
    rng = np.random.default_rng(n)
    weights = rng.uniform(0.5, 1.5, n)
    state = tkf.Tokens(tkf.uniform_sphere(n, d, seed=n).x, weights / weights.sum())
    times = t1 * np.array([0.05, 0.3, 1.0])
    coarse = tkf.simulate(sphere_model(beta, attention), state, t1, save_at=times, method="coarsen", rtol=1e-8)
    plain = tkf.simulate(
        sphere_model(beta, attention), state, t1, save_at=times, rtol=1e-11, atol=1e-13, method="dopri8"
    )
    assert np.allclose(coarse.times, times, rtol=1e-12)
    assert np.abs(coarse.dataset["x"].values - plain.dataset["x"].values).max() < 1e-6
    assert len(set(coarse.dataset["cluster"].values[-1])) < n


def test_staircase_of_the_published_case():
    run = tkf.simulate(sphere_model(4000.0), tkf.circle_tokens(STAIRCASE), math.inf)
    found = merges(run)
    assert [sorted(map(tuple, event.detail["clusters"])) for event in found] == [
        [(0,), (1,)],
        [(0, 1), (2,)],
        [(3,), (4,)],
        [(0, 1, 2), (3, 4)],
    ]
    plateaus = [event.detail["energy_before"] for event in found]
    assert plateaus == pytest.approx([5 / 25, 7 / 25, 11 / 25, 13 / 25], abs=1e-12)
    assert run.config["method"] == "coarsen"
    assert run.dataset.attrs["steps"] < 300
    energy = [tkf.normalized_energy(state, 4000.0) for state in run.states]
    assert np.diff(energy).min() > -2e-12  # cosines are rounded, and beta multiplies that
    assert np.diff(run.log_times).min() >= 0


@pytest.mark.parametrize("tolerance", [1e-4, 1e-5, 1e-6, 1e-7])
def test_merge_times_do_not_depend_on_the_merging_tolerance(tolerance):
    run = lambda delta: merges(  # noqa: E731
        tkf.simulate(
            sphere_model(500.0), tkf.circle_tokens(STAIRCASE), math.inf, merge_tolerance=delta, method="coarsen"
        )
    )
    for event, reference in zip(run(tolerance), run(1e-8), strict=True):
        moved = abs(math.expm1(event.detail["log_time"] - reference.detail["log_time"]))
        assert moved <= event.detail["relative_error"]
        assert event.detail["relative_error"] < 1e-4


@pytest.mark.slow
def test_mass_is_conserved_and_many_tokens_come_down_to_one():
    n = 300
    run = tkf.simulate(sphere_model(30.0), tkf.uniform_sphere(n, 2, seed=1), math.inf)
    assert run.events[-1].kind == "one_cluster"
    for event in merges(run):
        assert sum(event.detail["masses"]) <= 1 + 1e-15
    assert abs(sum(merges(run)[-1].detail["masses"]) - 1) <= 1e-15
    assert sum(merges(run)[-1].detail["sizes"]) == n
    assert np.abs(np.linalg.norm(run.dataset["x"].values, axis=-1) - 1).max() < 1e-12
    energy = [tkf.normalized_energy(state, 30.0) for state in run.states]
    assert np.diff(energy).min() > -1e-13


def test_balanced_starts_are_found_and_can_be_left():
    triangle = tkf.circle_tokens(2 * np.pi * np.arange(3) / 3)
    run = tkf.simulate(sphere_model(4.0), triangle, math.inf, method="coarsen")
    assert run.events[-1].kind == "stationary"
    assert "perturbed" in run.events[-1].detail["message"]
    antipodal = tkf.simulate(sphere_model(4.0), tkf.circle_tokens([0.0, np.pi]), 1e4)
    assert antipodal.events[-1].kind == "stationary"
    left = tkf.simulate(sphere_model(4.0), tkf.perturbed(triangle, 1e-5, seed=3), math.inf)
    assert left.events[-1].kind == "one_cluster"
    assert np.abs(np.asarray(tkf.perturbed(triangle, 1e-5).x) - np.asarray(triangle.x)).max() < 1e-4


@pytest.mark.parametrize("tol", [1e-3, 0.2, 1e-10])
@pytest.mark.parametrize(("beta", "weights"), [(4.0, (0.5, 0.5)), (200.0, (0.2, 0.8)), (3000.0, (0.5, 0.5))])
def test_two_clusters_are_one_when_the_rule_says_so(beta, weights, tol):
    run = tkf.simulate(
        sphere_model(beta),
        pair(0.3, weights),
        math.inf,
        rtol=1e-9,
        stop_when=tkf.one_cluster(tol),
        merge_tolerance=1e-7,
    )
    exact = tkf.theory.pair_merge_time(0.3, 1 - tol, beta, weights, log=True)
    assert run.events[-1].kind == "one_cluster"
    assert run.log_times[-1] == pytest.approx(exact, abs=1e-8)
    assert math.log(run.events[-1].time) + run.log_time_unit == pytest.approx(exact, abs=1e-8)
    gap = ((run.final.x[0] - run.final.x[1]) ** 2).sum() / 2
    assert float(gap) == pytest.approx(tol, rel=1e-6)
    # Half of the energy step comes before the stop, or after it; after a long wait both are at the same time.
    assert len(merges(run)) == (math.log(2) / beta > tol or beta > 10)


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("attention", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize(
    ("rule", "n"),
    [
        (tkf.one_cluster(), 5),
        (tkf.one_cluster(0.3, metric="distance"), 5),
        (tkf.at_most_clusters(2, 0.01), 5),
        (tkf.at_most_clusters(3, 0.05), 60),
        (tkf.at_most_clusters(40, 0.002), 60),
        (tkf.one_cluster(1.99), 5),
    ],
)
def test_a_rule_stops_where_it_stops_the_plain_integrator(attention, rule, n):
    model, start = sphere_model(2.0, attention), tkf.uniform_sphere(n, 3, seed=3)
    plain = tkf.simulate(model, start, 1e4, stop_when=rule, method="dopri8", rtol=1e-11, atol=1e-13)
    for t1 in (math.inf, 1.5 * plain.times[-1] + 1.0):
        coarse = tkf.simulate(model, start, t1, stop_when=rule, method="coarsen")
        assert [event.kind for event in coarse.events if event.kind != "merge"] == [plain.events[-1].kind]
        assert coarse.events[-1].time == pytest.approx(plain.events[-1].time, rel=1e-7)
        assert coarse.times[-1] == pytest.approx(plain.times[-1], rel=1e-7)
        assert np.abs(np.asarray(coarse.final.x) - np.asarray(plain.final.x)).max() < 1e-6
        assert all(event.time <= coarse.times[-1] for event in coarse.events)
    if plain.times[-1] > 0:
        early = tkf.simulate(model, start, plain.times[-1] / 2, stop_when=rule, method="coarsen")
        assert "cluster" not in "".join(event.kind for event in early.events)


def test_the_time_of_an_end_does_not_depend_on_what_is_saved():
    model, start = sphere_model(4.0), tkf.uniform_sphere(6, 3, seed=0)
    end = tkf.simulate(model, start, math.inf).events[-1]
    later = tkf.simulate(model, start, math.inf, save_at=[1e6])
    assert later.times[-1] == 1e6
    assert later.events[-1].kind == end.kind == "one_cluster"
    assert later.events[-1].time == pytest.approx(end.time, rel=1e-12)
    antipodal = tkf.circle_tokens([0.0, np.pi])
    for t1, times in ((math.inf, None), (1e4, None), (1e4, [5.0, 70.0])):
        run = tkf.simulate(sphere_model(2.0), antipodal, t1, save_at=times, method="coarsen")
        assert [(event.kind, event.time) for event in run.events] == [("stationary", 0.0)]


def test_a_run_that_no_longer_moves_is_saved_to_its_end_with_a_rule_too():
    start = tkf.circle_tokens([0.3, -0.3, np.pi + 0.3, np.pi - 0.3])
    rule = tkf.one_cluster()
    run = tkf.simulate(sphere_model(4.0), start, 1e4, save_at=[3.0, 50.0, 9e3, 1e4], stop_when=rule, method="coarsen")
    assert run.times == pytest.approx([3.0, 50.0, 9e3, 1e4], rel=1e-12)
    assert run.events[-1].kind == "stationary"
    assert run.events[-1].time < 50


def test_a_rule_about_less_than_the_merging_tolerance_is_refused():
    with pytest.raises(ValueError, match=r"one_cluster holds only once clusters are replaced.*larger tol.*below 1e-06"):
        tkf.simulate(sphere_model(4.0), pair(0.3), math.inf, stop_when=tkf.one_cluster(1e-13))


def test_saved_and_loaded(tmp_path):
    run = tkf.simulate(sphere_model(3000.0), pair(0.3), math.inf)
    loaded = tkf.load(run.save(tmp_path / "run.zarr"))
    assert np.array_equal(loaded.log_times, run.log_times)
    assert run.log_time_unit > 2000
    assert [event.time for event in loaded.events] == [event.time for event in run.events]
    plain = tkf.simulate(sphere_model(3.0), pair(0.3), 1.0, save_at=3)
    assert plain.log_times == pytest.approx([-np.inf, math.log(0.5), 0.0])


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (sphere_model(100.0), {"merge_tolerance": 0.1}, "merge_tolerance = 0.1 would merge clusters .* at most 0.01"),
        (tkf.Transformer(tkf.Softmax(2.0), tkf.PreLN()), {}, "needs the unit sphere"),
        (sphere_model(2.0, tkf.ReLU), {}, "needs Softmax or Unnormalized"),
        (sphere_model(-2.0), {}, "only for beta > 0"),
        (sphere_model(2.0, V=-1.0), {}, "only for V > 0"),
        (sphere_model(2.0, causal=True), {}, "causal mask"),
        (sphere_model(2.0), {"dt": 0.1}, "takes no dt"),
        (sphere_model(2.0), {"stop_when": tkf.order_above(0.9)}, "stops at one_cluster"),
        (sphere_model(2.0), {"save_at": 5}, "save_at must be a list of times when t1 is infinite"),
    ],
)
def test_what_coarsening_refuses(model, options, words):
    with pytest.raises(ValueError, match=words):
        tkf.simulate(model, pair(0.3), math.inf, method="coarsen", **options)


def test_long_runs_are_coarsened_without_being_asked():
    model, state = sphere_model(4.0), pair(0.3)
    run = tkf.simulate(model, state, 2000.0)
    assert run.config["method"] == "coarsen"
    assert np.allclose(run.times, np.linspace(0, 2000, 101))
    assert tkf.simulate(model, state, 20.0).config["method"] == "tsit5"
    assert tkf.simulate(model, state, 2000.0, stop_when=tkf.one_cluster()).config["method"] == "tsit5"
    plain = tkf.simulate(model, state, 2000.0, method="tsit5", rtol=1e-10, atol=1e-12)
    assert np.abs(plain.dataset["x"].values - run.dataset["x"].values).max() < 1e-6


def test_other_methods_refuse_its_options():
    with pytest.raises(ValueError, match="merge_tolerance = 1e-05 belongs to method 'coarsen'"):
        tkf.simulate(sphere_model(2.0), pair(0.3), 1.0, merge_tolerance=1e-5)
    with pytest.raises(ValueError, match=r"t1 must be finite, .* 'coarsen' or left out, got 'tsit5'"):
        tkf.simulate(sphere_model(2.0), pair(0.3), math.inf, method="tsit5")
    with pytest.raises(ValueError, match="method 'coarsen' moves Tokens, got Equiangular"):
        tkf.simulate(sphere_model(2.0), tkf.Equiangular(0.0, 4), 1.0, method="coarsen")


NOISY = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN(), noise=tkf.SphereNoise(3.0))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (sphere_model(-2.0), "beta > 0, got beta = -2"),
        (sphere_model(0.0), "beta > 0, got beta = 0"),
        (sphere_model(2.0, V=-1.5), "V > 0, got V = -1.5"),
        (sphere_model(2.0, V=np.eye(2)), "isotropic attention"),
        (sphere_model(lambda t: 2.0 + t), "does not change with time"),
        (sphere_model(2.0, causal=True), "causal mask"),
        (sphere_model(2.0, tkf.ReLU), "needs Softmax or Unnormalized attention, got ReLU"),
        (tkf.Transformer(tkf.MultiHead([tkf.Softmax(2.0)]), tkf.PostLN()), "got MultiHead"),
        (tkf.Transformer(tkf.Softmax(2.0), tkf.PreLN()), "unit sphere, norm=PostLN"),
        (tkf.Transformer(tkf.Softmax(2.0)), "unit sphere, norm=PostLN"),
        (tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN(), mlp=tkf.MLP(np.eye(2), np.eye(2))), "an MLP"),
        (tkf.Transformer(tkf.Unnormalized(2.0), tkf.PostLN(), fisher_rao=1.0), "fisher_rao"),
        (NOISY, "noise"),
    ],
)
def test_an_infinite_time_is_refused_with_the_reason(model, words):
    with pytest.raises(ValueError, match=f"t1 must be finite, got inf.*{words}"):
        tkf.simulate(model, pair(0.3), math.inf, seed=0 if model is NOISY else None)


def test_an_infinite_time_says_what_may_stop_it():
    with pytest.raises(ValueError, match=r"t1 must be finite, got inf.* needs Tokens, got Equiangular"):
        tkf.simulate(sphere_model(2.0), tkf.Equiangular(0.0, 4), math.inf)
    with pytest.raises(ValueError, match="takes no dt"):
        tkf.simulate(sphere_model(2.0), pair(0.3), math.inf, dt=0.1)
    with pytest.raises(ValueError, match="stops at one_cluster"):
        tkf.simulate(sphere_model(2.0), pair(0.3), math.inf, stop_when=tkf.order_above(0.9))


def test_groups_are_joined_only_if_they_are_narrow():
    line = np.stack([np.arange(50) * 0.9e-3, np.ones(50)], 1)
    assert group_tokens(line, 1e-3).max() == 49
    tight = np.concatenate([np.full((30, 2), 0.5) + 1e-5 * np.random.default_rng(0).random((30, 2)), np.eye(2)])
    groups = group_tokens(tight, 1e-3)
    assert len(set(groups[:30])) == 1
    assert len(set(groups)) == 3


@pytest.mark.parametrize("max_steps", [3, 1000])
def test_the_search_for_the_time_of_a_merge_takes_at_most_max_steps(max_steps):
    """From a snapshot long before the merge, as if no other had been recorded."""
    beta, weights = 10.0, np.array([0.5, 0.5])
    options = Options(math.inf, np.zeros(0), 0.0, 0.0, Coarsen(runge_kutta("dopri8")), None, max_steps)
    settings = ClusterSettings(beta, 0.0, True, 1e-11, 1e-6, options)
    start, epoch = Snapshot(-math.inf, 0, np.asarray(pair(0.3).x)), Epoch(weights, np.arange(2))
    apart, reach = np.pad([1.0, -1.0], (0, 6)), math.sqrt(2 * math.log(2) / beta)  # the clusters are padded to 8
    search = lambda: located(settings, start, epoch, lambda flow: merge_rule(flow, 0.0, math.inf, apart, reach))  # noqa: E731
    if max_steps == 3:
        with pytest.raises(tkf.SolverError, match="max_steps = 3 steps were not enough to locate 'merge'"):
            search()
        return
    exact = tkf.theory.pair_merge_time(0.3, 1 - math.log(2) / beta, beta, (0.5, 0.5), log=True)
    assert search().log_t == pytest.approx(exact, abs=1e-9)
