"""Constructors and flows under jit, vmap, jvp and grad, for every number of a model and a state.

Each case builds model and state from a dictionary of numbers inside the trace, takes a scalar of the velocity and of the
unpacked state, and differentiates it: forward mode, reverse mode, central differences and a batch must agree.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.attention import Measure
from tokenfield.flows import segments

D, N, T = 3, 5, 0.4
RNG = np.random.default_rng(7)
X = np.asarray(tkf.uniform_sphere(N, D, seed=1).x)
A, V = 0.6 * RNG.standard_normal((D, D)), RNG.standard_normal((D, D))
Q, K = 0.7 * RNG.standard_normal((2, 2, D))
WEIGHTS = np.array([0.3, 0.1, 0.2, 0.25, 0.15])
POSITIONS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
W1, W2 = RNG.standard_normal((4, D)), 0.3 * RNG.standard_normal((D, 4))
COV = (lambda B: B @ B.T)(RNG.standard_normal((D, D)))


def scalar(model, state, k=0):
    """A number that depends on all that a flow says of a model and a state."""
    parts = segments(state, model)
    flow = parts[min(k, len(parts) - 1)].flow
    y = flow.pack(state)
    t = jnp.asarray(0.0 if isinstance(model.norm, tkf.Rescaled) else T)  # rescaled tokens are packed as at time 0
    # the rate of the state, as unknowns may be free up to a rotation, or others under a trace
    back, rate = jax.jvp(flow.unpack, (y,), (flow.velocity(t, y),))
    terms = [jnp.sin(leaf + 0.1 * i).sum() for i, leaf in enumerate(jax.tree.leaves((rate, back)))]
    return sum(terms) + flow.log_time_unit


STEP = 3e-6  # of the differences


@functools.cache
def program(build):
    """`(theta, along) -> (value, gradient, slope, values beside it)`, compiled once for cases with the same `build`."""
    f = lambda theta: scalar(*build(theta))  # noqa: E731

    @jax.jit
    def compiled(theta, along):
        flat, unravel = jax.flatten_util.ravel_pytree(theta)
        value, gradient = jax.value_and_grad(f)(theta)
        forward = jax.jvp(f, (theta,), (unravel(along),))[1]
        many = jax.vmap(lambda s: f(unravel(flat + s * along)))(STEP * jnp.array([-2.0, -1.0, 1.0, 2.0]))
        return value, gradient, forward, many

    return compiled


def agree(build, theta, rtol=1e-6):
    """jit, vmap, jvp, grad and central differences of `scalar(*build(theta))`."""
    theta = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), theta)
    size = sum(leaf.size for leaf in jax.tree.leaves(theta))
    along = np.random.default_rng(0).standard_normal(size)
    value, gradient, forward, many = program(build)(theta, along)
    assert float(value) == pytest.approx(float(scalar(*build(theta))), rel=1e-9, abs=1e-9)
    reverse = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
    assert np.isfinite(reverse).all()
    assert float(forward) == pytest.approx(float(reverse @ along), rel=1e-10, abs=1e-10 * np.abs(reverse * along).sum())
    many = np.asarray(many)
    difference = float(8 * (many[2] - many[1]) - (many[3] - many[0])) / (12 * STEP)
    size = max(abs(float(forward)), 1e-3 * np.abs(reverse * along).sum(), 1e-3)
    assert float(forward) == pytest.approx(difference, abs=rtol * size)
    return gradient


def on_sphere(theta):
    return tkf.Tokens(theta["x"])


HEADS = {
    "softmax": (lambda p: tkf.Softmax(p["beta"]), {"beta": 1.3}),
    "softmax of A(t), V(t)": (
        lambda p: tkf.Softmax(A=lambda t: p["A"] * (1 + t), V=lambda t: p["V"] * jnp.cos(t)),
        {"A": A, "V": V},
    ),
    "softmax with Q, K": (
        lambda p: tkf.Softmax(p["beta"], Q=p["Q"], K=p["K"], V=p["V"]),
        {"beta": 0.8, "Q": Q, "K": K, "V": V},
    ),
    "causal": (lambda p: tkf.Softmax(A=p["A"], V=p["v"], causal=True), {"A": A, "v": -0.7}),
    "l2": (lambda p: tkf.L2(p["beta"], Q=p["Q"], K=p["K"]), {"beta": 0.8, "Q": Q, "K": K}),
    "sinkhorn": (lambda p: tkf.Sinkhorn(A=p["A"], tolerance=1e-13), {"A": A}),
    "sinkhorn, isotropic": (lambda p: tkf.Sinkhorn(p["beta"], tolerance=1e-13), {"beta": 1.2}),
    "unnormalized": (lambda p: tkf.Unnormalized(p["beta"]), {"beta": 1.3}),
    "unnormalized in units": (lambda p: tkf.Unnormalized(p["beta"], log_unit=p["unit"]), {"beta": 1.3, "unit": 0.4}),
    "linear": (lambda p: tkf.Linear(A=p["A"]), {"A": A}),
    "relu": (lambda p: tkf.ReLU(p["beta"]), {"beta": 1.1}),
    "sigmoid": (lambda p: tkf.Sigmoid(A=p["A"]), {"A": A}),
    "hardmax": (lambda p: tkf.Hardmax(A=p["A"], V=p["V"]), {"A": A, "V": V}),
    "two heads": (
        lambda p: tkf.MultiHead([tkf.Softmax(p["beta"]), tkf.Sigmoid(A=p["A"])], [p["V"], 0.5]),
        {"beta": 1.3, "A": A, "V": V},
    ),
}
NORMS = {
    "none": (lambda p: tkf.NoNorm(), {}),
    "post": (lambda p: tkf.PostLN(), {}),
    "pre, gain": (lambda p: tkf.PreLN(gain=p["gain"]), {"gain": [1.0, 0.5, -2.0]}),
    "peri": (lambda p: tkf.PeriLN(), {}),
    "ngpt": (lambda p: tkf.NGPT(p["alpha"]), {"alpha": 0.7}),
    "ngpt of t": (lambda p: tkf.NGPT(lambda t: p["alpha"] * jnp.exp(-t)), {"alpha": 0.7}),
    "mix": (lambda p: tkf.MixLN(p["tau"]), {"tau": 0.3}),
    "sqrt": (lambda p: tkf.SqrtScaling(), {}),
    "rescaled": (lambda p: tkf.Rescaled(), {}),
}
PAIRS = [(head, norm) for norm in ("none", "post") for head in HEADS]
PAIRS += [("softmax", norm) for norm in NORMS if norm not in ("none", "post")]
PAIRS += [("softmax with Q, K", "rescaled"), ("two heads", "rescaled"), ("sinkhorn", "peri"), ("unnormalized", "mix")]


@pytest.mark.slow(keep=9)
@pytest.mark.parametrize(("head", "norm"), PAIRS)
def test_tokens(head, norm):
    (attention, p), (rule, q) = HEADS[head], NORMS[norm]
    build = lambda theta: (tkf.Transformer(attention(theta), rule(theta)), on_sphere(theta))  # noqa: E731
    agree(build, {**p, **q, "x": X})


def test_weights_positions_and_mlp():
    mlp = lambda p: tkf.MLP(p["W1"], p["W2"], p["b1"], p["b2"], activation="gelu")  # noqa: E731

    def build(p):
        state = tkf.Tokens(p["x"], p["w"], p["s"])
        return tkf.Transformer(tkf.Softmax(A=p["A"], causal=True), tkf.PreLN(), mlp=mlp(p)), state

    theta = {"x": X, "w": WEIGHTS, "s": POSITIONS, "A": A, "W1": W1, "W2": W2, "b1": np.ones(4), "b2": np.ones(D)}
    gradient = agree(build, theta)
    assert float(jnp.abs(gradient["w"]).min()) > 1e-6


def test_a_gain_that_is_a_number_moves_the_sphere():
    build = lambda p: (tkf.Transformer(tkf.Softmax(0.4), tkf.PostLN(gain=p["g"])), tkf.Tokens(p["g"] * D**0.5 * p["x"]))  # noqa: E731
    agree(build, {"g": 1.2, "x": X})
    with pytest.raises(ValueError, match="gain must be a number inside jit"):
        jax.jit(lambda g: scalar(tkf.Transformer(tkf.Softmax(0.4), tkf.PostLN(gain=g)), tkf.Tokens(X)))(jnp.ones(D))


def test_fisher_rao():
    def build(p):
        model = tkf.Transformer(tkf.Unnormalized(p["beta"]), tkf.PostLN(), fisher_rao=p["c"])
        return model, tkf.Tokens(p["x"], p["w"])

    for beta in (1.5, 0.0):
        agree(build, {"beta": beta, "c": 0.8, "x": X, "w": WEIGHTS})


@pytest.mark.parametrize("k", [0, 1])
def test_the_time_tau_is_a_number_of_a_segment(k):
    def until(tau):
        model = tkf.Transformer(tkf.Softmax(1.0), tkf.MixLN(tau))
        return segments(tkf.Tokens(X), model)[0].until + scalar(model, tkf.Tokens(X), k)

    assert float(jax.jit(jax.grad(until))(0.7)) == 1
    with pytest.raises(ValueError, match="breakpoints"):
        jax.jit(
            lambda tau: segments(tkf.Tokens(X), tkf.Transformer(tkf.Softmax(1.0), tkf.MixLN(tau), breakpoints=[0.5]))
        )(0.7)


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize(
    "noise",
    [
        lambda p: tkf.SphereNoise(p["kappa"]),
        lambda p: tkf.CommonNoise(p["kappa"]),
        lambda p: tkf.AnisotropicNoise(p["kappa"], p["S"]),
        lambda p: tkf.MultiplicativeNoise(p["kappa"], lambda x: 1 + p["kappa"] * x[0] ** 2, "stratonovich"),
        lambda p: tkf.EuclideanNoise(p["kappa"]),
    ],
    ids=["sphere", "common", "anisotropic", "multiplicative", "euclidean"],
)
def test_kicks(noise):
    def f(p):
        rule = tkf.PostLN() if noise(p).space is tkf.Sphere else None
        model = tkf.Transformer(tkf.Softmax(p["beta"]), rule, noise=noise(p))
        flow = segments(tkf.Tokens(p["x"]), model)[0].flow
        y = flow.pack(tkf.Tokens(p["x"]))
        kick = flow.kick(jax.random.key(3), jnp.zeros(()), y, jnp.asarray(0.02))
        return sum(jnp.sin(leaf).sum() for leaf in jax.tree.leaves((kick, flow.velocity(0.0, y)))), flow.rate(
            tkf.Tokens(p["x"])
        )

    p = jax.tree.map(lambda a: jnp.asarray(a, float), {"kappa": 4.0, "S": A, "beta": 1.2, "x": X})
    gradient, rate = jax.jit(jax.grad(f, has_aux=True))(p)
    assert float(rate) == pytest.approx(f(p)[1], rel=1e-12)
    h = 1e-5
    shifted = lambda h: float(f({**p, "kappa": p["kappa"] + h})[0])  # noqa: E731
    assert float(gradient["kappa"]) == pytest.approx((shifted(h) - shifted(-h)) / (2 * h), rel=1e-6)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(gradient))


@pytest.mark.grid
@pytest.mark.parametrize("norm", ["post", "pre", "peri", "ngpt", "mix", "sqrt"])
@pytest.mark.parametrize("head", ["softmax", "unnormalized", "sinkhorn, isotropic", "sigmoid"])
def test_equal_angles(head, norm):
    rules = {"pre": tkf.PreLN(), "peri": tkf.PeriLN(), "post": tkf.PostLN(), "sqrt": tkf.SqrtScaling()}
    rule = lambda p: rules.get(norm) or NORMS[norm][0](p)  # noqa: E731
    attention = (lambda p: tkf.Sigmoid(p["beta"])) if head == "sigmoid" else HEADS[head][0]
    radial = norm in ("pre", "peri")
    state = lambda p: tkf.Equiangular(p["rho"], 6, p["radius"] if radial else 1.0)  # noqa: E731
    agree(
        lambda p: (tkf.Transformer(attention(p), rule(p)), state(p)),
        {"beta": 1.4, "rho": 0.3, "radius": 1.7, "alpha": 0.6, "tau": 0.9},
    )


GAUSSIANS = {
    "softmax": lambda p: tkf.Softmax(A=p["A"], V=p["V"]),
    "softmax, a number V": lambda p: tkf.Softmax(A=p["A"], V=-0.5),
    "l2": lambda p: tkf.L2(0.3, Q=p["A"], K=p["V"]),
    "l2, isotropic": lambda p: tkf.L2(0.3, V=p["V"]),
    "sinkhorn": lambda p: tkf.Sinkhorn(A=p["A"], V=p["V"]),
    "linear": lambda p: tkf.Linear(A=p["A"], V=p["V"]),
}


@functools.cache
def gaussian(kernel, noisy):
    def build(p):
        noise = tkf.EuclideanNoise(p["kappa"]) if noisy else None
        return tkf.Transformer(GAUSSIANS[kernel](p), noise=noise), tkf.Gaussian(p["mean"], p["B"] @ p["B"].T)

    return build


@pytest.mark.grid
@pytest.mark.parametrize("cov", [COV, np.eye(D)], ids=["general", "all eigenvalues equal"])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("kernel", GAUSSIANS)
def test_gaussians(kernel, noisy, cov):
    B = np.linalg.cholesky(cov)
    agree(gaussian(kernel, noisy), {"A": A, "V": V, "mean": [0.3, -0.2, 0.5], "B": B, "kappa": 5.0})


def test_a_singular_gaussian():
    """Of rank 2 throughout: the derivative along covariances of rank 2 is exact."""
    build = lambda p: (tkf.Transformer(GAUSSIANS["sinkhorn"](p)), tkf.Gaussian(p["mean"], p["B"] @ p["B"].T))  # noqa: E731
    agree(build, {"A": A, "V": V, "mean": [0.3, -0.2, 0.5], "B": RNG.standard_normal((D, 2))})


def density(kind, wave):
    if kind == "circle":
        return tkf.CircleDensity(jnp.zeros((2, 13)).at[0, 0].set(1.0).at[:, 1:5].set(wave))
    if kind == "sphere":
        return tkf.SphereDensity(jnp.zeros((2, 7, 7)).at[0, 0, 0].set(1.0).at[0, :2, 1:5].set(wave * np.tri(2, 4, k=3)))
    return tkf.ZonalDensity(jnp.zeros(13).at[0].set(1.0).at[1:5].set(wave[0]), 5)


@functools.cache
def noisy_density(kind, head):
    def build(p):
        model = tkf.Transformer(head(p["beta"], V=p["v"]), tkf.PostLN(), noise=tkf.SphereNoise(p["kappa"]))
        return model, density(kind, p["wave"])

    return build


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("beta", [3.0, -2.0, 0.0])
@pytest.mark.parametrize("head", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize("kind", ["circle", "sphere", "zonal"])
def test_densities(kind, head, beta):
    wave = 0.1 * np.random.default_rng(5).standard_normal((2, 4))
    gradient = agree(noisy_density(kind, head), {"beta": beta, "v": 0.8, "kappa": 6.0, "wave": wave})
    assert abs(float(gradient["beta"])) > 1e-9


@pytest.mark.grid
@pytest.mark.parametrize("head", [tkf.Softmax, tkf.L2, tkf.Unnormalized, tkf.Sinkhorn])
@pytest.mark.parametrize(
    "rule", [tkf.PostLN(), tkf.PeriLN(), tkf.NGPT(), tkf.Rescaled()], ids=lambda rule: type(rule).__name__
)
def test_degenerate_numbers_have_finite_gradients(rule, head):
    """Coinciding tokens, weights 0, beta = 0, opposite tokens whose attention vanishes."""
    x = jnp.array([[1.0, 0, 0], [1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])
    f = lambda beta, x, w: scalar(tkf.Transformer(head(beta), rule), tkf.Tokens(x, w))  # noqa: E731
    several = jnp.array([[0.5, 0.0, 0.5, 0.0], [0.25] * 4, [0.3, 0.2, 0.5, 0.0]])
    found = jax.jit(jax.vmap(jax.grad(f, argnums=(0, 1, 2)), in_axes=(None, None, 0)))(jnp.zeros(()), x, several)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in found)


@pytest.mark.parametrize("causal", [False, True])
def test_the_derivative_by_a_weight_that_is_zero(causal):
    """One-sided, for a token that nobody sees yet: a row's mean moves by `k_j (x_j - mean)/Z` for each unit of its weight."""
    head = tkf.Softmax(A=3 * np.eye(D) + A, causal=causal)
    w = jnp.array([0.4, 0.0, 0.6, 0.0, 0.0])
    mean = lambda w: head.of_itself(jnp.zeros(()), Measure(jnp.asarray(X), w, jnp.asarray(POSITIONS)))  # noqa: E731
    found = np.asarray(jax.jacrev(mean)(w))
    kernel = np.exp(X @ (3 * np.eye(D) + A).T @ X.T) * (np.tri(N) if causal else 1)
    Z, rows = kernel @ np.asarray(w), np.asarray(mean(w))
    exact = kernel[:, None, :] * (X.T[None] - rows[:, :, None]) / Z[:, None, None]
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)
    far = Measure(jnp.asarray(X) * 1e3, w, jnp.ones(N))
    scores = jax.grad(lambda c: tkf.Softmax(A=c * np.eye(D)).of_itself(0.0, far).sum())(900.0)
    assert np.isfinite(scores)  # kernels of weight 0 beyond all range


@pytest.mark.slow
def test_constants_inside_jit():
    """Models and states that are known, made outside of jit or inside, are checked and run there as everywhere."""
    circle = jnp.zeros((2, 5)).at[0, 0].set(1.0)
    negative = circle.at[0, 1].set(3.0)
    inside = {
        "symmetric Sinkhorn": lambda: (tkf.Transformer(tkf.Sinkhorn(A=A + A.T)), tkf.Tokens(X)),
        "unnormalized": lambda: (tkf.Transformer(tkf.Unnormalized(A=A), tkf.PostLN()), tkf.Tokens(X)),
        "mix": lambda: (tkf.Transformer(tkf.Softmax(1.0), tkf.MixLN(0.6), breakpoints=[0.2]), tkf.Tokens(X)),
        "gain": lambda: (tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(gain=np.full(D, 3**-0.5))), tkf.Tokens(X)),
        "density": lambda: (tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN()), tkf.CircleDensity(circle)),
        "rescaled": lambda: (tkf.Transformer(tkf.Softmax(1.0, V=V), tkf.Rescaled()), tkf.Tokens(X)),
    }
    for name, build in inside.items():
        model, state = build()
        plain = float(scalar(model, state))
        for made in (build, lambda: (model, state)):  # noqa: B023
            found = jax.jit(lambda h: scalar(*made()) + h)(0.0)  # noqa: B023
            assert float(found) == pytest.approx(plain, rel=1e-9), name
    with pytest.raises(ValueError, match="smallest value"):
        jax.jit(lambda h: scalar(model, tkf.CircleDensity(negative)) + h)(0.0)
    with pytest.raises(ValueError, match="unequal or negative"):
        jax.jit(
            lambda h: scalar(tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(gain=[1.0, 2.0, 3.0])), tkf.Tokens(X)) + h
        )(0.0)


def test_large_angles_do_not_overflow():
    f = lambda beta: scalar(tkf.Transformer(tkf.Softmax(beta), tkf.PeriLN()), tkf.Equiangular(0.0, 4))  # noqa: E731
    assert np.isfinite([jax.grad(f)(beta) for beta in (0.0, 2e3, -2e3)]).all()
