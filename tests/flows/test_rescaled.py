"""Rescaled tokens: every spectral direction of V to the tolerance, for long times, several heads, an MLP, V(t)."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import tokenfield as tkf
from tokenfield.flows.rescaled import scaled_tokens

N, D, T = 5, 3, 25.0
RNG = np.random.default_rng(5)


def softmax_rows(scores, w):
    k = w * np.exp(scores - scores.max(1, keepdims=True))
    return k / k.sum(1, keepdims=True)


def reference(A, V, x0, t_end, decided=14.0):
    """`(zeta, lam, E)`: z = E zeta in the basis of eigenvectors of V, `zeta' = lam (P zeta - zeta)`.

    When x has grown by `e^decided` along a leading eigenvalue that is real and apart, every token attends to a single one for
    good: `P` is then a matrix H of zeros and ones, and `zeta_k = exp(lam_k t (H - I)) zeta_k`.
    """
    w, (lam, E) = np.full(len(x0), 1 / len(x0)), np.linalg.eig(V)
    m, others = max(lam.real.max(), 0), np.sort(lam.real)[:-1]
    apart = m > 0 and lam[lam.real.argmax()].imag == 0 and others.max() <= m / 2
    t = min(t_end, decided / m) if apart else t_end
    shrink = np.minimum(lam.real, 0)  # bounded unknowns: e^{shrink t} zeta

    def rows(t, zeta):
        x = ((zeta * np.exp((lam - m) * t)) @ E.T).real
        return softmax_rows(np.exp(2 * m * t) * (x @ A.T) @ x.T, w)

    def right(t, y):
        y = y.reshape(x0.shape)
        P = rows(t, y * np.exp(-shrink * t))
        return ((P @ y - y) * lam + shrink * y).ravel()

    start = (x0 @ np.linalg.inv(E).T).astype(complex).ravel()
    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12, "max_step": 0.3 / np.abs(lam).max()}
    zeta = solve_ivp(right, (0, t), start, **options).y[:, -1].reshape(x0.shape) * np.exp(-shrink * t)
    if t < t_end:
        P = rows(t, zeta)
        assert P.max(1).min() > 1 - 1e-12
        H = np.eye(len(x0))[P.argmax(1)] - np.eye(len(x0))
        zeta = np.stack([expm(lam[k] * (t_end - t) * H) @ zeta[:, k] for k in range(len(lam))], 1)
    return zeta, lam, E


def draw(seed):
    rng = np.random.default_rng(seed)
    V, B = rng.standard_normal((D, D)), rng.standard_normal((D, D))
    return B @ B.T / 3, V, rng.uniform(-1, 1, (N, D))


def run(A, V, x, t1, **options):
    return tkf.simulate(tkf.Transformer(tkf.Softmax(A=A, V=V), tkf.Rescaled()), tkf.Tokens(x), t1, save_at=2, **options)


def close(found, expected, rtol):
    assert np.abs(np.asarray(found) - expected).max() <= rtol * np.abs(expected).max()


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("seed", range(14))
def test_random_value_maps_against_their_eigenvectors(seed):
    """z, and `e^{-mt} x`, where what z has along the leading eigenvectors of V is not hidden by its other parts."""
    A, V, x = draw(seed)
    m = max(np.linalg.eigvals(V).real.max(), 0)
    t = {5: 20.0, 13: 9.0}.get(seed, T)  # leading pairs of complex eigenvalues with a negative one: see below
    zeta, lam, E = reference(A, V, x, t)
    found = run(A, V, x, t, rtol=1e-11, atol=1e-13)
    assert found.events == []
    close(found.final.x, (zeta @ E.T).real, 2e-8)
    close(found.dataset["scaled"][-1], ((zeta * np.exp((lam - m) * t)) @ E.T).real, 1e-8)
    assert float(found.dataset["log_scale"][-1]) == pytest.approx(m * t, rel=1e-12, abs=1e-12)


def test_a_run_ends_where_rounding_hides_who_leads():
    """x turns for ever, the tokens of a cluster take turns in leading it, and their distances are lost against `e^{mt}`."""
    A, V, x = draw(13)
    (event,) = run(A, V, x, T).events
    assert event.kind == "resolution"
    assert event.time == pytest.approx(20 / np.linalg.eigvals(V).real.max(), rel=1e-9)
    assert "less than rounding" in event.detail["message"]


@pytest.mark.slow
def test_levels_are_kept():
    """The lowest level of the leading left eigenvector (3, 1): -.1109 from t = 10 on, however much z grows beside it."""
    A, V = np.array([[1.0, 0.4], [0.4, 0.5]]), np.array([[1.0, 1.0], [0.0, -2.0]])
    x = np.random.default_rng(1).uniform(-1, 1, (5, 2))
    zeta, _, E = reference(A, V, x, 100.0)
    model = tkf.Transformer(tkf.Softmax(A=A, V=V), tkf.Rescaled())
    found = tkf.simulate(model, tkf.Tokens(x), 100.0, save_at=[15.0, 30.0, 60.0, 100.0])
    levels = found.dataset["scaled"].values @ [1.0, 1 / 3]
    np.testing.assert_allclose(levels.min(axis=1), -0.11092930, rtol=0, atol=1e-6)
    first = zeta[:, 0] * E[0, 0]  # E = [[1, ..], [0, ..]]: this is z + z_2/3
    np.testing.assert_allclose(levels[-1], first.real, rtol=0, atol=1e-6)
    close(found.final.x, (zeta @ E.T).real, 1e-4)  # z is e^200


V1, V2 = RNG.standard_normal((2, D, D))
W1, W2 = RNG.standard_normal((4, D)), 0.4 * RNG.standard_normal((D, 4))
SCORES = RNG.standard_normal((2, D, D))
X = RNG.uniform(-1, 1, (N, D))
VALUES = {
    "none": None,
    "number": -0.7,
    "zero": np.zeros((D, D)),
    "singular": np.diag([1.0, 0.0, -1.0]),
    "defective": np.array([[0.5, 1, 0], [0, 0.5, 1], [0, 0, 0.5]]),
    "defective, falling": np.array([[-0.5, 1, 0], [0, -0.5, 0], [2, 0, -0.5]]),
    "complex": np.array([[0.2, 1.3, 0.4], [-1.3, 0.2, 0], [0, 0, -0.6]]),
    "generic": V1,
}


def free(maps, mlp, t, x=X):
    """x at time t by an independent integration of the free flow: heads (A, W V) with softmax, and tanh."""
    w = np.full(N, 1 / N)

    def right(t, y):
        y = y.reshape(x.shape)
        total = sum(softmax_rows((y @ A.T) @ y.T, w) @ y @ C.T for A, C in maps(t))
        return (total + mlp * np.tanh(y @ W1.T) @ W2.T).ravel()

    return solve_ivp(right, (0, t), x.ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(x.shape)


def matrix(V):
    return np.eye(D) * (1.0 if V is None else V) if np.ndim(V) < 2 else V


@pytest.mark.parametrize(("name", "mlp"), [*((name, False) for name in VALUES), ("generic", True)])
def test_one_head_of_every_kind_is_the_free_flow(name, mlp):
    V, t = VALUES[name], 1.5
    model = tkf.Transformer(tkf.Softmax(A=SCORES[0], V=V), tkf.Rescaled(), tkf.MLP(W1, W2) if mlp else None)
    found = tkf.simulate(model, tkf.Tokens(X), t, save_at=2, rtol=1e-11, atol=1e-12)
    x = free(lambda t: [(SCORES[0], matrix(V))], mlp, t)
    close(found.final.x @ expm(t * matrix(V)).T, x, 1e-9)
    close(found.dataset["scaled"].values[-1] * np.exp(float(found.dataset["log_scale"][-1])), x, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("second", "mlp"), [(V2, False), (V2, True), (0.3 * V1, False)])
def test_several_heads_are_the_free_flow(second, mlp):
    """`z = e^{-tV} x` with `V = sum_h W_h V_h`, whatever the heads: here of widths 3 and 3, with an output map."""
    t, W = 1.5, np.eye(D) + 0.2 * RNG.standard_normal((D, D))
    heads = [tkf.Softmax(A=SCORES[0], V=V1), tkf.Softmax(A=SCORES[1], V=np.linalg.solve(W, second))]
    attention = tkf.MultiHead(heads, [None, W])
    model = tkf.Transformer(attention, tkf.Rescaled(), tkf.MLP(W1, W2) if mlp else None)
    found = tkf.simulate(model, tkf.Tokens(X), t, save_at=2, rtol=1e-11, atol=1e-12)
    x = free(lambda t: [(SCORES[0], V1), (SCORES[1], second)], mlp, t)
    close(found.final.x @ expm(t * (V1 + second)).T, x, 1e-9)


def test_two_halves_of_a_head_are_the_head():
    A, V, x = draw(0)
    one = run(A, V, x, T, rtol=1e-9, atol=1e-11)
    halves = tkf.MultiHead([tkf.Softmax(A=A, V=0.3 * V), tkf.Softmax(A=A, V=V)], [None, 0.7])
    two = tkf.simulate(tkf.Transformer(halves, tkf.Rescaled()), tkf.Tokens(x), T, save_at=2, rtol=1e-9, atol=1e-11)
    close(two.final.x, np.asarray(one.final.x), 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 8])
def test_a_function_of_time_that_is_constant_is_that_constant(seed):
    """Also when z has grown by `e^{|lambda| t}` beside bounded parts. The time is that at which x has grown by e^15."""
    A, V, x = draw(seed)
    t = 15 / np.linalg.eigvals(V).real.max()
    one, other = (run(A, value, x, t, rtol=1e-9, atol=1e-11) for value in (V, lambda t: jnp.asarray(V)))
    close(other.final.x, np.asarray(one.final.x), 1e-7)
    scale = np.exp(float(other.dataset["log_scale"][-1] - one.dataset["log_scale"][-1]))
    close(other.dataset["scaled"][-1] * scale, one.dataset["scaled"].values[-1], 1e-7)


def test_values_and_outputs_that_change_with_time():
    """V(t) that does not commute with itself, one of two heads, against the free flow and Phi, `Phi' = V Phi`."""
    t, moving = 2.0, lambda t, np: np.cos(t) * V1 + np.sin(2 * t) * V2 - 0.3 * np.eye(D)
    heads = [tkf.Softmax(A=SCORES[0], V=lambda t: moving(t, jnp)), tkf.Softmax(A=SCORES[1], V=0.4 * V2)]
    model = tkf.Transformer(tkf.MultiHead(heads), tkf.Rescaled(), tkf.MLP(W1, W2))
    found = tkf.simulate(model, tkf.Tokens(X), t, save_at=2, rtol=1e-11, atol=1e-12)
    x = free(lambda t: [(SCORES[0], moving(t, np)), (SCORES[1], 0.4 * V2)], True, t)
    right = lambda t, y: ((moving(t, np) + 0.4 * V2) @ y.reshape(D, D)).ravel()  # noqa: E731
    phi = solve_ivp(right, (0, t), np.eye(D).ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(D, D)
    close(found.final.x @ phi.T, x, 1e-9)
    close(found.dataset["scaled"].values[-1] * np.exp(float(found.dataset["log_scale"][-1])), x, 1e-9)


@pytest.mark.slow
def test_overflow_is_an_error_with_its_own_advice():
    for V, mlp in ((np.diag([1.0, -3.0, -3.0]), None), (np.eye(D), tkf.MLP(W1, W2))):
        model = tkf.Transformer(tkf.Softmax(A=np.eye(D), V=V), tkf.Rescaled(), mlp)
        with pytest.raises(tkf.SolverError, match=r"z = e\^\(-tV\) x grows .* an MLP needs x itself"):
            tkf.simulate(model, tkf.Tokens(X), 1000.0, save_at=2)


def test_every_kernel_with_heads_agrees_with_naive_loops():
    """Velocity at t = 0.6 of two heads of different kernels, one of which has rows that do not sum to 1."""
    from cases import velocity

    state, t = tkf.Tokens(X), 0.6
    attention = tkf.MultiHead([tkf.Sigmoid(A=SCORES[0], V=V1), tkf.Softmax(A=SCORES[1], V=V2)])
    w = np.asarray(state.weights)
    gamma = lambda x, w: naive.sigmoid(x, w, SCORES[0], V1) + naive.softmax(x, w, SCORES[1], V2)  # noqa: E731
    expected = naive.rescaled_general(t, X, w, gamma, V1 + V2)
    np.testing.assert_allclose(
        velocity(tkf.Transformer(attention, tkf.Rescaled()), state, t), expected, rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("seed", range(8))
def test_exponentials_of_symmetric_maps_are_right_to_rounding(seed):
    """`e^{-c} x = e^{tV - c} z` in the eigenvectors of V, each coordinate to its own accuracy (JAX's own: 2e-10)."""
    rng = np.random.default_rng(seed)
    Q, lam = np.linalg.qr(rng.standard_normal((D, D)))[0], np.sort(rng.uniform(-2, 1, D)) * 10 ** rng.uniform(0, 0.8)
    model = tkf.Transformer(tkf.Softmax(beta=1.0, V=Q * lam @ Q.T), tkf.Rescaled())
    z = rng.standard_normal((N, D))
    for t in (0.3, 1.0, 2.0):
        x, c = scaled_tokens(model, tkf.Tokens(z), t)
        expected = np.exp(lam * t - float(c)) * (z @ Q)
        np.testing.assert_allclose(np.asarray(x) @ Q, expected, rtol=1e-12, atol=1e-14 * np.abs(expected).max())


LEVELS = np.diag([1.0, 0.5, -0.2])
HALVES = lambda beta, V: tkf.MultiHead([tkf.Softmax(beta, V=0.3 * V), tkf.Softmax(beta, V=V)], [None, 0.7])  # noqa: E731
TRACED = {  # V, and the time: attention is held, the run is unresolved, V has no basis of eigenvectors, heads do not commute
    "held": (tkf.Softmax, LEVELS, 40.0),
    "unresolved": (tkf.Softmax, np.diag([1.0, 0.8, -0.2]), 40.0),
    "defective": (tkf.Softmax, np.array([[1.0, 0.3, 0.1], [0, -0.5, 1.0], [0, 0, -0.5]]), 30.0),
    "never held": (tkf.Softmax, np.diag([1.0, 0.8, 0.6]), 10.0),
    "two heads": (HALVES, LEVELS, 30.0),
    "two that do not commute": (
        lambda beta, V: tkf.MultiHead([tkf.Softmax(beta, V=V), tkf.Softmax(beta, V=V.T @ V)]),
        V1,
        2.0,
    ),
}


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("name", TRACED)
def test_a_traced_run_is_the_plain_run(name):
    """Whatever is traced: the tokens, or V and beta too."""
    attention, V, t1 = TRACED[name]

    def ends(x, V, beta):
        model = tkf.Transformer(attention(beta, V=V), tkf.Rescaled())
        found = tkf.solve(model, tkf.Tokens(x), t1, rtol=1e-9, atol=1e-11)
        return found.status, found.event_time, found.final.x

    status, time, x = ends(X, V, 1.0)
    assert int(status) == (7 if name == "unresolved" else 1)
    jitted = jax.jit(lambda x: ends(x, V, 1.0))(X)
    several = jax.tree.map(lambda leaf: leaf[0], jax.vmap(lambda x: ends(x, V, 1.0))(np.stack([X, -0.5 * X])))
    everything = jax.jit(ends)(X, V, 1.0)
    for found, rtol in ((jitted, 1e-12), (several, 1e-10), (everything, 1e-6)):
        assert int(found[0]) == int(status)
        assert float(found[1]) == pytest.approx(float(time), rel=1e-9)
        close(found[2], np.asarray(x), rtol)


@pytest.mark.slow
def test_derivatives_go_through_the_time_at_which_attention_is_held():
    """With respect to V, beta and the tokens, in both modes, against differences of plain runs. V stays diagonal."""

    def last(p):
        model = tkf.Transformer(tkf.Softmax(p["beta"], V=jnp.diag(p["levels"])), tkf.Rescaled())
        final = tkf.solve(model, tkf.Tokens(p["x"]), 30.0, rtol=1e-10, atol=1e-12, method="dopri8", max_steps=64).final
        return (jnp.asarray([1.0, 0.5, 1e-2]) * final.x).sum()

    p = {"x": jnp.asarray(X), "levels": jnp.array([1.0, 0.4, -0.2]), "beta": jnp.array(1.0)}
    along = {"x": 0.3 * jnp.cos(jnp.asarray(X)), "levels": jnp.array([0.1, -0.2, 0.05]), "beta": jnp.array(0.4)}
    moved = lambda h: float(last(jax.tree.map(lambda a, b: a + h * b, p, along)))  # noqa: E731
    h = 1e-3
    slope = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
    assert float(jax.jvp(last, (p,), (along,))[1]) == pytest.approx(slope, rel=1e-6)
    gradient = jax.grad(last)(p)
    total = sum(jax.tree.leaves(jax.tree.map(lambda a, b: float((a * b).sum()), gradient, along)))
    assert total == pytest.approx(slope, rel=1e-6)


def test_weights_by_layer_are_refused():
    """z is defined by one V(t): the unknowns of a layer are not those of the next."""
    model = tkf.by_layer([tkf.Transformer(tkf.Softmax(1.0, V=V), tkf.Rescaled()) for V in (LEVELS, LEVELS[::-1, ::-1])])
    with pytest.raises(ValueError, match="for all layers, got weights by layer"):
        tkf.simulate(model.continuous(), tkf.Tokens(X), 2.0)
