"""Observables against naive loops and closed forms."""

import itertools
import time

import jax.numpy as jnp
import naive
import numpy as np
import pytest
from cases import KERNELS, gamma, tokens
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import tokenfield as tkf
from tokenfield.observables.clustering import _by_cells, _flood


def test_energy_and_order_agree_with_naive_loops():
    state = tokens(n=9)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    for beta in (0.3, 4.0):
        assert tkf.energy(state, beta) == pytest.approx(naive.energy(x, w, beta), rel=1e-13)
        assert tkf.energy(state, tkf.Softmax(beta)) == pytest.approx(naive.energy(x, w, beta), rel=1e-13)
        assert tkf.normalized_energy(state, beta) == pytest.approx(naive.normalized_energy(x, w, beta), rel=1e-13)
    assert tkf.order_parameter(state) == pytest.approx(naive.order_parameter(x, w), rel=1e-13)
    pairs = [(w[i] * w[j], x[i] @ x[j]) for i, j in itertools.permutations(range(9), 2)]
    mean = sum(a * c for a, c in pairs) / sum(a for a, _ in pairs)
    assert tkf.mean_cosine(state) == pytest.approx(mean, rel=1e-12)


def test_attention_matrix_under_a_pre_norm_is_that_of_normalized_tokens():
    state, gain, beta = tokens(), np.array([1.0, 0.5, 2.0]), 1.3
    x, w = np.asarray(state.x), np.asarray(state.weights)
    read = gain * x / np.sqrt((x * x).mean(1, keepdims=True) + 0.1)
    P = w * np.exp(beta * read @ read.T)
    model = tkf.Transformer(tkf.Softmax(beta), tkf.PreNorm(tkf.RMSNorm(gain, eps=0.1)))
    np.testing.assert_allclose(tkf.attention_matrix(state, model), P / P.sum(1, keepdims=True), rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_energies_under_a_norm_are_those_of_directions(seed):
    """However long the tokens are; with a gain, of what attention reads."""
    rng = np.random.default_rng(seed)
    n, d, beta = int(rng.integers(3, 9)), int(rng.integers(2, 6)), float(rng.uniform(0.2, 4))
    theta, w = rng.standard_normal((n, d)), rng.dirichlet(np.ones(n))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    state, gain = tkf.Tokens(theta * 10 ** rng.uniform(-2, 4, (n, 1)), w), float(rng.uniform(0.3, 1.5))
    for norm, read in ((tkf.PreLN(), 1.0), (tkf.PeriLN(), 1.0), (tkf.PostLN(), 1.0), (tkf.PreLN(gain), gain**2 * d)):
        model = tkf.Transformer(tkf.Softmax(beta), norm)
        assert tkf.normalized_energy(state, model) == pytest.approx(
            naive.normalized_energy(theta, w, beta * read), rel=1e-12
        )
        assert tkf.energy(state, model) == pytest.approx(naive.energy(theta, w, beta * read), rel=1e-12)
    with pytest.raises(ValueError, match="gain differs between coordinates"):
        tkf.normalized_energy(state, tkf.Transformer(tkf.Softmax(beta), tkf.PreLN(np.linspace(1, 2, d))))


def test_an_energy_that_overflows_is_refused():
    far = tkf.Tokens(100 * np.eye(3))
    with pytest.raises(ValueError, match="normalized_energy overflows for tokens of length 100"):
        tkf.normalized_energy(far, 1.0)


def test_energy_of_a_general_symmetric_form():
    """A = c V symmetric: E = (1/2c) ∬ e^{<Ax,y>}, whose gradient is the unnormalized drift."""
    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, -0.7]])
    state = tokens(unit=False)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    attention = tkf.Unnormalized(A=A, V=A / 3)
    expected = sum(w[i] * w[j] * np.exp(x[i] @ A @ x[j]) for i in range(7) for j in range(7)) / 6
    assert tkf.energy(state, attention) == pytest.approx(expected, rel=1e-13)
    h, step = 1e-6, np.zeros_like(x)
    step[2, 1] = h
    slope = (tkf.energy(tkf.Tokens(x + step, w), attention) - tkf.energy(tkf.Tokens(x - step, w), attention)) / (2 * h)
    assert slope / w[2] == pytest.approx(gamma(attention, state)[2, 1], rel=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_multiples_of_the_identity_have_both_energies_however_they_are_written(seed):
    """A = a I, V = v I: the gradient of the energy is the unnormalized drift, and the normalized energy is that of beta = a."""
    rng = np.random.default_rng(seed)
    a, v = rng.uniform(0.2, 4) * rng.choice([-1, 1]), rng.uniform(0.2, 4) * rng.choice([-1, 1])
    state, rho = tokens(n=7, seed=seed), rng.uniform(-0.1, 0.9)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    step = 1e-6 * rng.standard_normal(x.shape)
    together = tkf.Equiangular(rho, 5)
    cloud = tkf.equiangular_tokens(rho, 5, 5)
    for A in ({"beta": a}, {"A": a * np.eye(3)}, {"Q": np.eye(3), "K": a * np.eye(3)}):
        for V in (v, v * np.eye(3)):
            model = tkf.Unnormalized(**A, V=V)
            slope = (tkf.energy(tkf.Tokens(x + step, w), model) - tkf.energy(tkf.Tokens(x - step, w), model)) / 2
            assert slope == pytest.approx(w @ (step * gamma(model, state)).sum(1), rel=1e-7)
            for attention in (model, tkf.Softmax(**A, V=V)):
                assert tkf.normalized_energy(state, attention) == pytest.approx(
                    naive.normalized_energy(x, w, a), rel=1e-12
                )
                assert tkf.normalized_energy(together, attention) == pytest.approx(
                    tkf.normalized_energy(cloud, a), rel=1e-12
                )
                assert tkf.energy(together, attention) == pytest.approx(v * tkf.energy(cloud, a), rel=1e-12)
    still = tkf.Softmax(beta=0.0, V=v)
    assert tkf.energy(state, still) == pytest.approx(v * tkf.energy(state, 0.0), rel=1e-13)
    with pytest.raises(ValueError, match="normalized_energy needs isotropic attention"):
        tkf.normalized_energy(state, tkf.Softmax(A=np.diag([1.0, 2, 3]), V=np.diag([2.0, 4, 6])))


@pytest.mark.parametrize(
    "attention",
    [
        tkf.Softmax(A=[[0.0, 1.0, 0], [-1, 0, 0], [0, 0, 1]]),
        tkf.Softmax(A=np.diag([1.0, 2, 3])),
        tkf.ReLU(),
        tkf.Softmax(causal=True),
    ],
)
def test_models_without_an_energy_are_refused(attention):
    with pytest.raises(ValueError, match="energy"):
        tkf.energy(tokens(), attention)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unit", [True, False])
def test_clusters_agree_with_naive_union_find(seed, unit):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((4, 2)) if seed % 2 else np.array([[1.0, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    x = centers[rng.integers(0, 4, 40)] + rng.uniform(0, 0.05) * rng.standard_normal((40, 2))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) if unit else x
    tol = 1e-3 if unit else 0.05
    found = tkf.clusters(tkf.Tokens(x), tol)
    reference = naive.clusters(x, tol, metric="sphere" if unit else "euclidean")
    same = lambda labels: np.asarray(labels)[:, None] == np.asarray(labels)[None, :]  # noqa: E731
    np.testing.assert_array_equal(same(found.labels), same(reference))
    np.testing.assert_array_equal(found.sizes, np.sort(np.bincount(reference))[::-1])
    np.testing.assert_array_equal(np.bincount(found.labels), found.sizes)


def test_cluster_masses_and_centers():
    state = tkf.Tokens([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0.2, 0.5, 0.3])
    found = tkf.clusters(state)
    np.testing.assert_array_equal(found.labels, [0, 1, 0])
    np.testing.assert_allclose(found.masses, [0.5, 0.5])
    np.testing.assert_allclose(found.centers, [[1.0, 0.0], [0.0, 1.0]])
    assert tkf.clusters(tkf.Tokens([[1.0, 0.0], [2.0, 0.0]]), metric="cosine").count == 1
    assert tkf.clusters(tkf.Tokens([[1.0, 0.0], [2.0, 0.0]])).single_tokens == 2


def test_pairwise_cosines_are_all_pairs():
    state = tokens(unit=False)
    x = np.asarray(state.x)
    expected = [x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) for i in range(7) for j in range(i + 1, 7)]
    np.testing.assert_allclose(tkf.pairwise_cosines(state), expected, atol=1e-15)


def test_directions_of_very_long_and_very_short_tokens():
    state = tokens(unit=False, weighted=False)
    for scale in (1e-170, 1e170):
        scaled = tkf.Tokens(scale * state.x)
        assert tkf.order_parameter(scaled) == pytest.approx(tkf.order_parameter(state), rel=1e-14)
        assert tkf.mean_cosine(scaled) == pytest.approx(tkf.mean_cosine(state), rel=1e-12)


@pytest.mark.parametrize("small", [1e-3, 1e-12, 1e-17, 1e-60])
def test_one_token_may_have_almost_all_of_the_weight(small):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 3)), small * np.array([0.2, 1.0, 0.5, 0.3])
    w[1] = 1 - (w.sum() - w[1])
    state, theta = tkf.Tokens(x, w), x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = list(itertools.permutations(range(4), 2))
    mass = np.array([w[i] * w[j] for i, j in pairs])
    for observable, values in (
        (tkf.mean_cosine, [theta[i] @ theta[j] for i, j in pairs]),
        (tkf.mean_distance, [np.linalg.norm(x[i] - x[j]) for i, j in pairs]),
    ):
        assert observable(state) == pytest.approx(mass @ values / mass.sum(), rel=1e-14)


@pytest.mark.parametrize("radius", [1.0, 0.7, 2.0])
def test_energies_of_equal_angles_are_those_of_their_tokens(radius):
    state = tkf.Equiangular(-0.2, n=5, radius=radius)
    free, sphere = (tkf.Transformer(tkf.Softmax(2.0, V=3.0), norm) for norm in (tkf.NoNorm(), tkf.PreLN()))
    for model in (2.0, tkf.Softmax(2.0), free, sphere):
        assert tkf.normalized_energy(state, model) == pytest.approx(
            tkf.normalized_energy(state.tokens(), model), rel=1e-13
        )
        for centered in (True, False):
            exact = tkf.energy(state.tokens(), model, centered=centered)
            assert tkf.energy(state, model, centered=centered) == pytest.approx(exact, rel=1e-13)
    gain = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN(gain=1.2))
    for energy in (tkf.energy, tkf.normalized_energy):
        with pytest.raises(ValueError, match="this state has no dimension d: pass beta"):
            energy(state, gain)


def test_effective_rank_of_many_tokens_needs_no_square_matrix():
    x = np.tile(np.diag([3.0, 1.0]), (200_000, 1))
    p = np.array([0.75, 0.25])
    assert tkf.effective_rank(tkf.Tokens(x)) == pytest.approx(np.exp(-p @ np.log(p)), rel=1e-12)


def test_a_token_at_zero_touches_no_direction():
    assert tkf.clusters(tkf.Tokens([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]), metric="cosine").sizes.tolist() == [2, 1]


def test_effective_rank_of_known_spectra():
    assert tkf.effective_rank(tkf.equiangular_tokens(0.0, 5)) == pytest.approx(5)
    assert tkf.effective_rank(tkf.Tokens([[1.0, 2.0], [-2.0, -4.0]])) == pytest.approx(1)
    p = np.array([3.0, 1.0]) / 4
    assert tkf.effective_rank(tkf.Tokens([[3.0, 0.0], [0.0, 1.0]])) == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    assert tkf.effective_rank(tkf.Tokens([[1.0, 1.0], [1.0, 1.0]]), centered=True) == 0


@pytest.mark.parametrize("name", KERNELS)
def test_attention_matrix_rebuilds_gamma(name):
    attention, state = KERNELS[name].fast(), tokens(unit=False)
    P = tkf.attention_matrix(state, attention)
    if name == "multi-head":
        parts = [W.V @ (head.value.V @ state.x.T) for head, W in zip(attention.heads, attention.outputs, strict=True)]
        rebuilt = sum(p @ part.T for p, part in zip(P, parts, strict=True))
    else:
        rebuilt = P @ (state.x @ attention.value.V.T)
    expected = gamma(attention, state)
    np.testing.assert_allclose(rebuilt, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    if name in ("softmax", "l2", "sinkhorn", "hardmax-self"):
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-13)


def test_attention_matrix_reads_what_the_norm_shows():
    state = tokens(unit=False)
    pre = tkf.attention_matrix(state, tkf.Transformer(tkf.Softmax(2.0), tkf.PreLN()))
    np.testing.assert_allclose(pre, tkf.attention_matrix(state.normalized(), tkf.Softmax(2.0)), rtol=1e-13)
    free = tkf.attention_matrix(state, tkf.Transformer(tkf.Softmax(2.0)))
    assert np.abs(free - pre).max() > 1e-2


V3 = np.random.default_rng(8).standard_normal((3, 3))
MOVING = lambda t: jnp.cos(t) * V3 - 0.5 * jnp.eye(3)  # noqa: E731


@pytest.mark.grid
@pytest.mark.parametrize("kernel", [tkf.Softmax, tkf.Linear, tkf.Sigmoid])
@pytest.mark.parametrize("V", [None, -0.8, V3, MOVING], ids=["none", "number", "matrix", "moving"])
def test_attention_matrix_of_rescaled_tokens_is_that_at_x(kernel, V):
    rng, t, state = np.random.default_rng(3), 1.7, tokens(unit=False)
    head = kernel(A=rng.standard_normal((3, 3)), V=V)
    phi = expm(t * (np.eye(3) * (1.0 if V is None else V) if np.ndim(V) < 2 else V)) if V is not MOVING else None
    if phi is None:
        right = lambda t, y: (np.asarray(MOVING(t)) @ y.reshape(3, 3)).ravel()  # noqa: E731
        phi = solve_ivp(right, (0, t), np.eye(3).ravel(), rtol=1e-12, atol=1e-13).y[:, -1].reshape(3, 3)
    at_x = tkf.attention_matrix(tkf.Tokens(state.x @ phi.T, state.weights), head, t)
    found = tkf.attention_matrix(state, tkf.Transformer(head, tkf.Rescaled()), t)
    np.testing.assert_allclose(found, at_x, rtol=0, atol=1e-9 * np.abs(at_x).max())
    assert np.abs(found - tkf.attention_matrix(state, head, t)).max() > 1e-2
    two = tkf.MultiHead([head, kernel(beta=0.5, V=V)])
    pair = tkf.attention_matrix(state, tkf.Transformer(tkf.MultiHead([head, head], [0.5, 0.5]), tkf.Rescaled()), t)
    np.testing.assert_allclose(pair, [at_x, at_x], rtol=0, atol=1e-9 * np.abs(at_x).max())
    assert tkf.attention_matrix(state, tkf.Transformer(two, tkf.Rescaled()), t).shape == (2, 7, 7)


@pytest.mark.slow
def test_attention_matrix_of_rescaled_tokens_needs_the_time_and_enough_digits():
    model = tkf.Transformer(tkf.Softmax(A=np.eye(2), V=[[1.0, 1.0], [0.0, -2.0]]), tkf.Rescaled())
    run = tkf.simulate(model, tkf.Tokens(np.random.default_rng(1).uniform(-1, 1, (5, 2))), 20.0, save_at=[3.0, 20.0])
    with pytest.raises(ValueError, match=r"t must be given under Rescaled"):
        tkf.attention_matrix(run.final, model)
    with pytest.raises(ValueError, match=r"z at t = 20 is rounded too much .* scaled of the run's dataset"):
        tkf.attention_matrix(run.final, model, 20.0)
    x = [np.exp(float(run.dataset["log_scale"][k])) * run.dataset["scaled"].values[k] for k in (0, 1)]
    early = tkf.attention_matrix(tkf.Tokens(x[0]), model.attention)
    np.testing.assert_allclose(tkf.attention_matrix(run.state(0), model, 3.0), early, rtol=0, atol=1e-9)
    assert tkf.attention_matrix(tkf.Tokens(x[1]), model.attention).max(axis=1).min() > 0.99
    with pytest.raises(ValueError, match="energy is a function of x"):
        tkf.energy(run.final, tkf.Transformer(tkf.Softmax(2.0), tkf.Rescaled()))


def test_attention_matrix_under_a_gain_and_of_tokens_off_the_sphere_is_that_of_the_layer():
    """A layer of Post-LN reads its tokens as they are: after a gain with unequal entries, or before the first layer."""
    state, h = tokens(unit=False), 0.3
    for norm in (
        tkf.PostLN(gain=[1.0, 0.5, 2.0]),
        tkf.PostLN(),
        tkf.MixLN(1.0),
        tkf.NGPT(),
        tkf.PreLN(gain=[1.0, 0.5, 2.0]),
    ):
        model = tkf.Transformer(tkf.Softmax(0.4), norm)
        run = tkf.layers(model, state, 2, h)
        for k in range(2):
            P, x = tkf.attention_matrix(run.state(k), model, k * h), np.asarray(run.state(k).x)
            read = np.array([1.0, 0.5, 2.0]) * naive.units(x) * 3**0.5 if isinstance(norm, tkf.PreLN) else x
            np.testing.assert_allclose(
                P, naive.softmax_matrix(read, np.asarray(state.weights), 0.4 * np.eye(3)), atol=1e-13
            )


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_wasserstein_of_few_tokens_is_the_best_matching(p):
    mu, nu = tokens(n=5, seed=1, weighted=False), tokens(n=5, seed=2, weighted=False)
    x, y = np.asarray(mu.x), np.asarray(nu.x)
    best = min(
        np.mean([np.linalg.norm(x[i] - y[j]) ** p for i, j in enumerate(order)])
        for order in itertools.permutations(range(5))
    ) ** (1 / p)
    assert tkf.wasserstein(mu, nu, p) == pytest.approx(best, rel=1e-12)
    assert tkf.wasserstein(mu, mu, p) == 0


@pytest.mark.parametrize("p", [1, 2])
def test_weighted_wasserstein(p):
    """Weights k/6 are k copies of weight 1/6; on the line sorting and the linear program agree."""
    mu, nu = tkf.Tokens(np.eye(3), [1 / 6, 2 / 6, 3 / 6]), tokens(n=2, seed=5, weighted=False)
    copies = tkf.Tokens(np.repeat(np.eye(3), [1, 2, 3], axis=0))
    doubled = tkf.Tokens(np.repeat(np.asarray(nu.x), 3, axis=0))
    assert tkf.wasserstein(mu, nu, p) == pytest.approx(tkf.wasserstein(copies, doubled, p), rel=1e-9)
    line = lambda s: tkf.Tokens(np.asarray(s.x)[:, :1], s.weights)  # noqa: E731
    plane = lambda s: tkf.Tokens(np.pad(np.asarray(s.x)[:, :1], [(0, 0), (0, 1)]), s.weights)  # noqa: E731
    assert tkf.wasserstein(line(mu), line(nu), p) == pytest.approx(tkf.wasserstein(plane(mu), plane(nu), p), rel=1e-9)


def test_wasserstein_of_shifted_clouds_and_angles():
    state = tkf.gaussian_tokens(30, 2, seed=0)
    shifted = tkf.Tokens(state.x + np.array([3.0, -4.0]))
    assert tkf.wasserstein(state, shifted, 2) == pytest.approx(5.0, rel=1e-12)
    a, b = tkf.circle_tokens([0.0, 1.0]), tkf.circle_tokens([0.3, 1.1])
    assert tkf.wasserstein(a, b, 1, metric="geodesic") == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("reach", [0.003, 0.02, 0.1, 0.5])
def test_components_by_cells_are_those_by_flooding(d, reach):
    rng = np.random.default_rng(d)
    points = np.concatenate([rng.standard_normal((300, d)), 0.3 + 1e-3 * rng.standard_normal((200, d))])
    points[7] = points[3] + np.eye(d)[0] * reach * (1 - 1e-12)
    fast, slow = (sorted(map(tuple, f)) for f in (_by_cells(points, reach, reach / d**0.5), _flood(points, reach)))
    assert fast == slow


def test_many_tokens_are_clustered_quickly():
    centers = np.asarray(tkf.uniform_sphere(12, 3, seed=0).x)
    labels = np.random.default_rng(0).integers(12, size=100_000)
    x = centers[labels] + 1e-6 * np.random.default_rng(1).standard_normal((100_000, 3))
    begun = time.monotonic()
    found = tkf.clusters(tkf.Tokens(x / np.linalg.norm(x, axis=1, keepdims=True)))
    assert time.monotonic() - begun < 20
    assert found.count == 12
    assert sorted(found.sizes) == sorted(np.bincount(labels))
