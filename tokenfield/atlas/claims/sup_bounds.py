"""The two estimates behind well-posedness: the size and the slope of the attention map."""

import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, close

N, D = 8, 3
GOOD = {"softmax": tkf.Softmax, "L2": lambda A, V: tkf.L2(Q=A, K=jnp.eye(D), V=V), "sigmoid": tkf.Sigmoid}
ON_SUPPORT = {"Sinkhorn": tkf.Sinkhorn}  # defined at the tokens only
BAD = {"unnormalized": tkf.Unnormalized, "linear": tkf.Linear, "ReLU": tkf.ReLU}
COLOURS = ("#0072B2", "#009E73", "#E69F00", "#CC79A7", "#D55E00", "#56B4E9", "#000000")


def gamma(kernel, A, V, x, w, probe):
    """`Gamma_mu(probe)`: the probe is one more token, of weight 0."""
    points, weights = jnp.concatenate([x, probe[None]]), jnp.append(w, 0.0)
    return kernel(A=A, V=V)(jnp.zeros(()), points, weights, jnp.ones(N + 1))[-1]


def largest_at_tokens(kernel, A, V, x, w, probe):
    return jnp.linalg.norm(kernel(A=A, V=V)(jnp.zeros(()), x, w, jnp.ones(N)), axis=-1).max()


def random_cases(count: int, seed: int):
    """Random A, V, measures in balls of radius R (at least one token at R) and probes from 0.01 R to 100 R."""
    rng = np.random.default_rng(seed)
    A, V = rng.standard_normal((2, count, D, D))
    x, probe = rng.standard_normal((count, N, D)), rng.standard_normal((count, D))
    R = 10 ** rng.uniform(-1, 0.5, count)
    x *= (R / np.linalg.norm(x, axis=-1).max(axis=1))[:, None, None]
    probe *= (R * 10 ** rng.uniform(-2, 2, count) / np.linalg.norm(probe, axis=-1))[:, None]
    w = rng.dirichlet(np.full(N, 0.3), count)
    return (A, V, x, w, probe), R, *(np.linalg.norm(M, ord=2, axis=(1, 2)) for M in (A, V))


def measure(quick: bool) -> Evidence:
    cases, R, size_A, size_V = random_cases(500 if quick else 20_000, 0)
    every = lambda f, kernel: np.asarray(jax.jit(jax.vmap(lambda *case: f(kernel, *case)))(*cases))  # noqa: E731
    checks, shown = [], {}
    for name, kernel in (GOOD | ON_SUPPORT | BAD).items():
        shown[name] = every(largest_at_tokens, kernel) / (size_V * R)
        if name in BAD:
            continue
        away = shown[name] if name in ON_SUPPORT else np.linalg.norm(every(gamma, kernel), axis=-1) / (size_V * R)
        largest = max(away.max(), shown[name].max())
        checks.append(at_most(f"{name}: largest |Γ| / |V|R over random measures and points", 1 + 1e-12, largest))
        if name == "sigmoid":
            checks.append(
                at_least("as printed, sigmoid violates it: largest |Γ| / |V|R", 1 + 1e-9, largest, printed=True)
            )
    slope = lambda A, V, x, w, probe: jax.jacfwd(lambda y: gamma(tkf.Softmax, A, V, x, w, y))(probe)  # noqa: E731
    slopes = np.linalg.norm(np.asarray(jax.jit(jax.vmap(slope))(*cases)), ord=2, axis=(1, 2))
    checks.append(at_most("softmax: largest |DΓ| / |V||A|R²", 1 + 1e-12, (slopes / (size_V * size_A * R**2)).max()))

    A, V, u = 3 * np.eye(D), np.diag([2.0, 1.0, 0.5]), np.eye(D)[0]
    one, two = np.tile(2 * u, (N, 1)), np.outer(np.resize([2.0, -2.0], N), u)
    even = np.full(N, 1 / N)
    sharp = np.linalg.norm(slope(A, V, two, even, np.zeros(D)), 2) / (2 * 3 * 4)
    checks.append(close("softmax: |DΓ(0)| / |V||A|R² for ½(δ_Ru + δ_−Ru)", 1.0, sharp, rtol=1e-12))
    sharp = np.linalg.norm(gamma(tkf.Softmax, A, V, one, even, u)) / (2 * 2)
    checks.append(close("softmax: |Γ| / |V|R for δ_Ru", 1.0, sharp, rtol=1e-12))
    for name, exact in (("unnormalized", np.exp(12.0)), ("linear", 12.0), ("ReLU", 12.0)):
        found = float(largest_at_tokens(BAD[name], A, V, one, even, u)) / (2 * 2)
        checks.append(close(f"{name}: |Γ| / |V|R > 1 for δ_Ru, |A|R² = 12", exact, found, rtol=1e-12))
    return Evidence(tuple(checks), draw(size_A * R**2, shown), CAPTION)


CAPTION = "Largest |Γ| at a token over |V|R, for random measures; above the line the estimate fails."


def draw(x: np.ndarray, shown: dict[str, np.ndarray]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(
        xlabel="$|A| R^2$", ylabel=r"$\max_i |\Gamma(x_i)| \,/\, |V| R$", xscale="log", yscale="log"
    )
    for (name, y), colour in zip(shown.items(), COLOURS, strict=True):
        axes.plot(x[:400], y[:400], ".", color=colour, ms=3, label=name)
    axes.axhline(1, color="black", lw=0.8)
    axes.set_ylim(1e-2, 1e2)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), markerscale=2)
    return figure


CLAIM = Claim(
    id="sup_bounds",
    section="Well-posedness and stability",
    title="Size and slope of the attention map",
    statement="For mu in the ball of radius R, softmax attention has sup |Γ| ≤ |V|R and sup |DΓ| ≤ |V||A|R², both sharp. "
    "The first holds for L2 and Sinkhorn attention too, and for sigmoid attention, whose kernel is at most 1 (the talks "
    "list it among those that violate it). Unnormalized, linear and ReLU attention do violate it.",
    source="V. Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part II; Castin, Ablin, Carrillo, Peyré 2025",
    measure=measure,
)
