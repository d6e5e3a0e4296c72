"""Gaussian data: maps against quadrature, flows against closed forms, properties over random matrices."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tokenfield as tkf
from tokenfield.flows.affine import affine, attend
from tokenfield.flows.gaussian import root

RNG = np.random.default_rng(11)
A2, V2, Q2, K2 = (RNG.standard_normal((2, 2)) for _ in range(4))
MEAN2 = np.array([0.3, -0.2])
COV2 = np.array([[0.5, 0.1], [0.1, 0.3]])
TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def quadrature(mean, L, order):
    """Nodes and weights that integrate polynomials against `N(mean, L L^T)`."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(*[nodes] * len(mean), indexing="ij"), -1).reshape(-1, len(mean))
    weight = np.prod(np.stack(np.meshgrid(*[weights] * len(mean), indexing="ij"), -1), -1).reshape(-1)
    return mean + grid @ L.T, weight / weight.sum(), grid


def affine_map(attention, mean, cov):
    L = root(jnp.asarray(cov))
    at_mean, on_root = attend(attention, jnp.zeros(()), jnp.asarray(mean), L)
    return np.asarray(at_mean), np.asarray(on_root), np.asarray(L)


CASES = {
    "softmax": (lambda A, V, Q, K: tkf.Softmax(A=A, V=V), lambda y, w, A, V, Q, K: naive_softmax(y, w, A, V)),
    "l2": (lambda A, V, Q, K: tkf.L2(Q=Q, K=K, V=V, beta=0.7), lambda y, w, A, V, Q, K: naive_l2(y, w, Q, K, V)),
    "linear": (lambda A, V, Q, K: tkf.Linear(A=A, V=V), lambda y, w, A, V, Q, K: naive_linear(y, w, A, V)),
}


def naive_softmax(y, w, A, V):
    return lambda x: V @ ((w * np.exp(y @ (A @ x))) @ y) / (w * np.exp(y @ (A @ x))).sum()


def naive_l2(y, w, Q, K, V):
    def at(x):
        k = w * np.exp(-0.7 * ((Q @ x - y @ K.T) ** 2).sum(-1))
        return V @ (k @ y) / k.sum()

    return at


def naive_linear(y, w, A, V):
    return lambda x: V @ ((w * (y @ (A @ x))) @ y)


@pytest.mark.parametrize("kernel", CASES)
@pytest.mark.parametrize("d", [1, 2])
def test_map_of_a_gaussian_against_quadrature(kernel, d):
    A, V, Q, K = (M[:d, :d] for M in (A2, V2, Q2, K2))
    mean, cov = MEAN2[:d], COV2[:d, :d]
    build, reference = CASES[kernel]
    at_mean, on_root, L = affine_map(build(A, V, Q, K), mean, cov)
    y, w, _ = quadrature(mean, L, 80)
    attention_at = reference(y, w, A, V, Q, K)
    for xi in RNG.standard_normal((4, d)):
        assert np.abs(at_mean + on_root @ xi - attention_at(mean + L @ xi)).max() < 1e-8


@pytest.mark.parametrize(("d", "order"), [(1, 90), (2, 26)])
def test_sinkhorn_map_against_brute_force_on_a_grid(d, order):
    A, V = 0.6 * A2[:d, :d], V2[:d, :d]
    mean, cov = MEAN2[:d], COV2[:d, :d]
    at_mean, on_root, L = affine_map(tkf.Sinkhorn(A=A, V=V), mean, cov)
    y, w, grid = quadrature(mean, L, order)
    kept = w > 1e-30
    y, w, grid = y[kept], w[kept] / w[kept].sum(), grid[kept]
    gamma = alternate(y @ A.T @ y.T, w) @ (w[:, None] * y) @ V.T
    near = np.abs(grid).max(axis=1) < 2
    assert near.sum() >= 10
    assert np.abs(at_mean + grid[near] @ on_root.T - gamma[near]).max() < 1e-8


def alternate(s, w):
    """`k = e^{s_ij + f_i + g_j}` with rows and columns of mean 1 under w, normalized in turn."""
    f, kernel = np.ones(len(w)), np.exp(s - s.max())
    for _ in range(10_000):
        g = 1 / (kernel.T @ (w * f))
        f, before = 1 / (kernel @ (w * g)), f
        if np.abs(f / before - 1).max() < 1e-14:
            return f[:, None] * kernel * g
    raise AssertionError("Sinkhorn's alternation did not converge")


@pytest.mark.parametrize("size", [1.0, 1e6, 1e9])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("rows", [3, 1])
def test_maps_keep_their_digits_for_large_and_nearly_singular_covariances(size, condition, rows):
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    L, mean = size * left @ np.diag([1, condition**-0.5, 1 / condition]) @ right, rng.standard_normal(3)
    Q, K, A = rng.standard_normal((rows, 3)), rng.standard_normal((rows, 3)), rng.standard_normal((3, 3))
    with mpmath.workdps(80):
        q, k, a, root_, m = (mpmath.matrix(each.tolist()) for each in (Q, K, A, L, mean[:, None]))
        cov, b = root_ * root_.T, mpmath.mpf(0.7)
        solve = (mpmath.eye(3) + 2 * b * cov * k.T * k) ** -1
        l2 = solve * 2 * b * cov * k.T * q * root_, solve * (m + 2 * b * cov * k.T * q * m)
        M = root_.T * a * root_
        values, vectors = mpmath.eigsy(M.T * M)
        factor = vectors * mpmath.diag([2 / (1 + mpmath.sqrt(1 + 4 * v)) for v in values]) * vectors.T
        exact = [np.array(each.tolist(), float) for each in (*l2, root_ * M * factor)]
    at = lambda head: affine(head, jnp.zeros(()), jnp.asarray(mean), jnp.asarray(L))  # noqa: E731
    found, sinkhorn = at(tkf.L2(0.7, Q=Q, K=K)), at(tkf.Sinkhorn(A=A))
    allowed = 100 * np.finfo(float).eps * condition  # what rounding L itself does: no method can do better by much
    for mine, true in zip((found.on_root, found.at_mean[:, None], sinkhorn.on_root), exact, strict=True):
        assert np.linalg.norm(np.asarray(mine) - true) < allowed * np.linalg.norm(true)


def test_heads_add_up_with_their_output_maps():
    W = RNG.standard_normal((2, 2))
    heads = [tkf.Softmax(A=A2, V=V2), tkf.Sinkhorn(A=A2.T), tkf.L2(Q=Q2, K=K2)]
    at_mean, on_root, _ = affine_map(tkf.MultiHead(heads, [W, -0.3, None]), MEAN2, COV2)
    parts = [affine_map(head, MEAN2, COV2) for head in heads]
    assert np.allclose(at_mean, W @ parts[0][0] - 0.3 * parts[1][0] + parts[2][0], rtol=0, atol=1e-14)
    assert np.allclose(on_root, W @ parts[0][1] - 0.3 * parts[1][1] + parts[2][1], rtol=0, atol=1e-14)


def random_covariance(d, rng, rank=None):
    factor = rng.standard_normal((d, rank or d))
    return factor @ factor.T / d


@pytest.mark.parametrize("rank", [4, 2])
def test_flow_against_the_closed_form(rank):
    rng = np.random.default_rng(rank)
    A, cov = rng.standard_normal((4, 4)), random_covariance(4, rng, rank)
    t = 0.8 * tkf.theory.gaussian_blowup_time(A, 0.7, cov)
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(A=A, V=0.7)), tkf.Gaussian(None, cov), t, save_at=3, **TIGHT)
    for time, state in zip(run.times, run.states, strict=True):
        exact = tkf.theory.gaussian_closed_form(A, 0.7, cov, time)
        assert np.abs(np.asarray(state.cov) - exact).max() < 1e-9 * np.abs(exact).max()
        assert np.linalg.matrix_rank(np.asarray(state.cov), tol=1e-9) == rank


def test_mean_against_the_closed_form():
    values, A = np.array([0.5, 0.2, 0.9]), np.diag([-1.0, 0.4, 0.3])
    turn = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
    cov, A, mean = turn @ np.diag(values) @ turn.T, turn @ A @ turn.T, RNG.standard_normal(3)
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(A=A)), tkf.Gaussian(mean, cov), 1.0, save_at=2, **TIGHT)
    exact = tkf.theory.gaussian_mean(A, mean, cov, 1.0)
    assert np.abs(np.asarray(run.final.mean) - exact).max() < 1e-9
    diagonal = np.diag(turn.T @ A @ turn)
    by_hand = np.e * np.sqrt(1 / (1 / values - 2 * diagonal) / values) * (turn.T @ mean)
    assert np.allclose(turn.T @ exact, by_hand, rtol=1e-12)


def test_values_in_one_dimension():
    run = lambda attention, s, t: tkf.simulate(  # noqa: E731
        tkf.Transformer(attention), tkf.Gaussian(None, [[s]]), t, save_at=2, **TIGHT
    ).final.cov[0, 0]
    assert run(tkf.L2(Q=[[-0.6]], K=[[0.8]], V=1.1), 0.9, 1.0) == pytest.approx(0.4357743954, abs=1e-10)
    assert run(tkf.Sinkhorn(A=[[0.7]]), 1.0, 2.0) == pytest.approx(24.40185777, abs=1e-8)


def test_limit_of_the_published_case():
    q = np.array([[0.40632365, 0.91372922]])
    cov = np.array([[0.7, 0.1], [0.1, 0.3]])
    star = np.array([[0.3792475, -0.1686465], [-0.1686465, 0.0749949]])
    A = -q.T @ q / np.sqrt(2)
    assert np.abs(tkf.theory.gaussian_limit(A, None, cov) - star).max() < 1e-7
    for attention in (tkf.Softmax(A=A), tkf.L2(Q=q, K=-q, beta=2**-0.5)):
        final = tkf.simulate(tkf.Transformer(attention), tkf.Gaussian(None, cov), 1e9, save_at=2, **TIGHT).final
        assert np.abs(np.asarray(final.cov) - star).max() < 1e-7
        assert tkf.theory.gaussian_stationarity(attention, tkf.theory.gaussian_limit(A, None, cov)) < 1e-14
        assert tkf.theory.gaussian_stationarity(attention, cov) > 0.1


def test_linear_attention_moves_the_moments_of_any_tokens_in_the_same_way():
    tokens = tkf.gaussian_tokens(40, 2, seed=3, mean=MEAN2, cov=0.2 * COV2)
    x = np.asarray(tokens.x)
    start = tkf.Gaussian(x.mean(0), np.cov(x.T, bias=True))
    model = tkf.Transformer(tkf.Linear(A=A2, V=V2))
    gauss = tkf.simulate(model, start, 0.5, save_at=2, **TIGHT).final
    moved = np.asarray(tkf.simulate(model, tokens, 0.5, save_at=2, **TIGHT).final.x)
    assert np.abs(moved.mean(0) - np.asarray(gauss.mean)).max() < 1e-10
    assert np.abs(np.cov(moved.T, bias=True) - np.asarray(gauss.cov)).max() < 1e-10


@pytest.mark.parametrize(
    ("attention", "cov", "time"),
    [
        (tkf.Softmax(1.0), [[1.0, 0.5], [0.5, 1.0]], 1 / 3),
        (tkf.L2(Q=[[0.0, 1.0]], K=[[1.0, 0.0]], V=[[0.0, 0.0], [0.0, 1.0]]), [[1.0, 0.5], [0.5, 1.0]], 3.0),
        (tkf.Linear(A=[[0.0, 3.0], [0.0, 0.0]], V=-1.0), [[1.0, -0.2], [-0.2, 2.0]], None),
    ],
)
def test_blow_up_is_an_event_with_the_right_time(attention, cov, time):
    if time is None:  # linear attention without a mean moves Sigma as softmax does
        time = tkf.theory.gaussian_blowup_time([[0.0, 3.0], [0.0, 0.0]], -1.0, cov)
        assert np.isfinite(time)
    run = tkf.simulate(tkf.Transformer(attention), tkf.Gaussian(None, cov), 10.0)
    (event,) = run.events
    assert event.kind == "blow_up"
    assert event.time == pytest.approx(time, rel=1e-6)


def test_noise_against_the_riccati_solution_from_a_singular_start():
    kappa, t = 3.0, 0.7
    model = tkf.Transformer(tkf.Softmax(A=[[1.0]], V=-1.0), noise=tkf.EuclideanNoise(kappa))
    for s0 in (0.0, 0.4):
        final = tkf.simulate(model, tkf.Gaussian([1.0], [[s0]]), t, save_at=2, **TIGHT).final
        exact = np.tanh(2 * t / np.sqrt(kappa) + np.arctanh(s0 * np.sqrt(kappa))) / np.sqrt(kappa)
        assert float(final.cov[0, 0]) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("attention", [tkf.Sinkhorn(A=A2, V=V2), tkf.L2(Q=Q2, K=K2, V=-1.0)])
def test_weak_noise_tends_to_no_noise(attention):
    state = tkf.Gaussian(MEAN2, COV2)

    def final(noise):
        return tkf.simulate(tkf.Transformer(attention, noise=noise), state, 0.5, save_at=2, **TIGHT).final

    plain, weak, stronger = (final(noise) for noise in (None, tkf.EuclideanNoise(1e6), tkf.EuclideanNoise(1e5)))
    difference = lambda other: np.asarray(other.cov - plain.cov)  # noqa: E731
    assert np.allclose(difference(stronger), 10 * difference(weak), rtol=1e-3)
    assert np.linalg.eigvalsh(difference(weak)).min() > 0
    assert np.abs(difference(weak)).max() < 1e-5


def test_parameters_that_change_with_time():
    A, cov = np.array([[0.3, 0.2], [0.2, -0.5]]), np.array([[0.5, 0.1], [0.1, 0.4]])
    model = tkf.Transformer(tkf.Softmax(A=A, V=lambda t: jnp.cos(3 * t)))
    final = tkf.simulate(model, tkf.Gaussian(None, cov), 0.6, save_at=2, **TIGHT).final
    exact = np.linalg.inv(np.linalg.inv(cov) - 2 * A * np.sin(1.8) / 3)
    assert np.abs(np.asarray(final.cov) - exact).max() < 1e-10


@pytest.mark.slow
def test_many_dimensions_keep_symmetry_and_positivity():
    rng = np.random.default_rng(5)
    d = 512
    A, cov = -random_covariance(d, rng) + 0.02 * rng.standard_normal((d, d)) / d**0.5, random_covariance(d, rng)
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(A=A)), tkf.Gaussian(rng.standard_normal(d), cov), 1.0, save_at=2)
    final = np.asarray(run.final.cov)
    assert (final == final.T).all()
    assert np.linalg.eigvalsh(final)[0] > -1e-15 * np.linalg.norm(final, 2)
    exact = tkf.theory.gaussian_closed_form(A, None, cov, 1.0)
    assert np.linalg.norm(final - exact) < 1e-5 * np.linalg.norm(exact)


matrices = lambda d: arrays(float, (d, d), elements=st.floats(-1.5, 1.5, width=32))  # noqa: E731
KERNELS = {
    "softmax": lambda A, V: tkf.Softmax(A=A, V=V),
    "sinkhorn": lambda A, V: tkf.Sinkhorn(A=A, V=V),
    "linear": lambda A, V: tkf.Linear(A=A, V=V),
    "l2": lambda A, V: tkf.L2(Q=A, K=V, V=A),
}


def covariance_velocity(attention, mean, L):
    at_mean, on_root = attend(attention, jnp.zeros(()), jnp.asarray(mean), jnp.asarray(L))
    flux = np.asarray(on_root) @ np.asarray(L).T
    return np.asarray(at_mean), flux + flux.T


@settings(max_examples=25, deadline=None, derandomize=True)
@given(matrices(3), matrices(3), matrices(3), matrices(3), st.sampled_from(sorted(KERNELS)))
def test_the_flow_turns_with_the_axes_and_does_not_depend_on_the_factor(A, V, L, turn, kernel):
    O = np.linalg.qr(turn + 4 * np.eye(3))[0]  # noqa: E741
    mean = L[0] - V[1]
    at_mean, velocity = covariance_velocity(KERNELS[kernel](A, V), mean, L)
    scale = 1 + np.abs(velocity).max() + np.abs(at_mean).max()
    _, same = covariance_velocity(KERNELS[kernel](A, V), mean, L @ O)
    assert np.abs(same - velocity).max() < 1e-11 * scale
    turned = KERNELS[kernel](O @ A @ O.T, O @ V @ O.T)
    at_turned, velocity_turned = covariance_velocity(turned, O @ mean, O @ L)
    assert np.abs(at_turned - O @ at_mean).max() < 1e-11 * scale
    assert np.abs(velocity_turned - O @ velocity @ O.T).max() < 1e-11 * scale


@settings(max_examples=25, deadline=None, derandomize=True)
@given(matrices(3), matrices(3), matrices(3))
def test_sinkhorn_grows_at_most_exponentially(A, V, L):
    _, velocity = covariance_velocity(tkf.Sinkhorn(A=50 * A, V=V), L[0], L)
    norm = lambda M: np.linalg.norm(M, 2)  # noqa: E731
    assert norm(velocity) <= 2 * norm(V) * norm(L @ L.T) * (1 + 1e-12) + 1e-12


@pytest.mark.slow
@settings(max_examples=15, deadline=None, derandomize=True)
@given(matrices(3), matrices(3), st.sampled_from(sorted(KERNELS)))
def test_runs_keep_covariances_positive_and_of_the_same_range(A, L, kernel):
    L[:, 2] = L[:, 0] + L[:, 1]  # rank at most 2
    run = tkf.simulate(tkf.Transformer(KERNELS[kernel](0.3 * A, 0.3 * A.T)), tkf.Gaussian(None, L @ L.T), 0.2)
    cov = np.asarray(run.final.cov)
    assert (cov == cov.T).all()
    values = np.linalg.eigvalsh(cov)
    assert values[0] >= -1e-13 * max(values[-1], 1e-300)
    assert values[0] <= 1e-12 * max(values[-1], 1e-300)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: tkf.Gaussian(None, [[1.0, 0.2], [0.1, 1.0]]), "cov must be symmetric"),
        (lambda: tkf.Gaussian(None, [[1.0, 2.0], [2.0, 1.0]]), "cov must have no negative eigenvalue, got -1"),
        (lambda: tkf.Gaussian(None, [[1.0, 2.0]]), "cov must be a square matrix"),
        (lambda: tkf.Gaussian([1.0], np.eye(2)), r"mean must have shape \(2,\)"),
        (lambda: tkf.Gaussian([1.0, np.nan], np.eye(2)), "mean must be finite"),
        (lambda: tkf.EuclideanNoise(0.0), "kappa must be finite and > 0"),
        (lambda: tkf.Transformer(tkf.Softmax(), noise=3.0), "noise must be a noise"),
        (lambda: tkf.theory.gaussian_limit(1.0, None, np.eye(2)), "blows up at t = 0.5"),
        (lambda: tkf.theory.gaussian_closed_form(1.0, None, np.eye(2), 0.6), "before the blow-up at 0.5"),
        (lambda: tkf.theory.gaussian_closed_form(A2, V2, COV2, 0.1), "V must commute"),
        (lambda: tkf.theory.gaussian_mean(A2, MEAN2, COV2, 0.1), "A must be symmetric and commute"),
    ],
)
def test_bad_input(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            tkf.Transformer(tkf.Softmax(), tkf.PostLN()),
            "under PostLN a Gaussian .* have one: CircleDensity, Equiangular, SphereDensity, Tokens, ZonalDensity",
        ),
        (tkf.Transformer(tkf.ReLU()), "ReLU attention on a Gaussian is not affine .* have one: Tokens"),
        (tkf.Transformer(tkf.Softmax(causal=True)), "causal"),
        (tkf.Transformer(tkf.Softmax(), mlp=tkf.MLP(np.eye(2), np.eye(2))), "MLP"),
        (tkf.Transformer(tkf.Softmax(V=np.ones((3, 2)))), "V must map R.2 to itself"),
        (tkf.Transformer(tkf.Softmax(A=np.eye(3))), "A must have shape"),
    ],
)
def test_models_that_do_not_keep_gaussians(model, words):
    with pytest.raises(ValueError, match=words):
        tkf.simulate(model, tkf.Gaussian(None, np.eye(2)), 1.0)


def test_noise_that_does_not_fit_is_refused_with_what_works():
    space = tkf.Transformer(tkf.Softmax(), noise=tkf.EuclideanNoise(1.0))
    sphere = tkf.Transformer(tkf.Softmax(), tkf.PostLN(), noise=tkf.SphereNoise(1.0))
    with pytest.raises(tkf.NoClosedEquation, match="have one: Gaussian, Tokens"):
        tkf.simulate(space, tkf.Equiangular(0.0, 3), 1.0)
    with pytest.raises(tkf.NoClosedEquation, match="have one: CircleDensity, SphereDensity, Tokens, ZonalDensity"):
        tkf.simulate(sphere, tkf.Gaussian(None, np.eye(2)), 1.0)
    with pytest.raises(ValueError, match="layers has no noise"):
        tkf.layers(space, tkf.gaussian_tokens(3, 2), 1)


def test_rank_bound():
    assert tkf.theory.gaussian_rank_bound(np.diag([1.0, -1.0, -2.0])) == 1
    assert tkf.theory.gaussian_rank_bound(np.diag([1.0, 0.0, 0.0, -2.0])) == 3
    assert tkf.theory.gaussian_rank_bound([[0.0, 1.0], [-1.0, 0.0]]) == 2


def test_sampled_tokens_have_the_law():
    tokens = np.asarray(tkf.Gaussian(MEAN2, COV2).sample(200_000, seed=1).x)
    assert np.abs(tokens.mean(0) - MEAN2).max() < 0.006
    assert np.abs(np.cov(tokens.T) - COV2).max() < 0.006
