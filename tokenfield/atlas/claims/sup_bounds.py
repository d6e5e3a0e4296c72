"""The two estimates behind well-posedness: bounds on the attention map and its derivative."""

import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf
from tokenfield.attention import Measure

from ..claim import Claim, Evidence, at_least, at_most, close

N, D = 8, 3
L2 = lambda A, V: tkf.L2(Q=A, K=jnp.eye(D), V=V)  # noqa: E731
GOOD = {"softmax": tkf.Softmax, "L2": L2, "Sinkhorn": tkf.Sinkhorn, "sigmoid": tkf.Sigmoid}
BAD = {"unnormalized": tkf.Unnormalized, "linear": tkf.Linear, "ReLU": tkf.ReLU}


def at_probe(kernel, A, V, x, w, probe):
    """Return `Gamma_mu(probe)`, at a point that is not a token."""
    return kernel(A=A, V=V)(jnp.zeros(()), probe[None], Measure(x, w, jnp.ones(N)))[0]


def largest_at_tokens(kernel, A, V, x, w, probe):
    return jnp.linalg.norm(kernel(A=A, V=V).of_itself(jnp.zeros(()), Measure(x, w, jnp.ones(N))), axis=-1).max()


def random_cases(count: int):
    """Yield random A, V, measures in balls of radius R (with a token at |x| = R) and probes with norms 0.01 R to 100 R."""
    rng = np.random.default_rng(0)
    A, V = rng.standard_normal((2, count, D, D))
    a, v = (np.linalg.norm(M, ord=2, axis=(1, 2)) for M in (A, V))
    x, probe, R = rng.standard_normal((count, N, D)), rng.standard_normal((count, D)), 10 ** rng.uniform(-1, 0.5, count)
    R /= np.sqrt(a)
    x *= (R / np.linalg.norm(x, axis=-1).max(axis=1))[:, None, None]
    probe *= (R * 10 ** rng.uniform(-2, 2, count) / np.linalg.norm(probe, axis=-1))[:, None]
    return (A, V, x, rng.dirichlet(np.full(N, 0.3), count), probe), R, a, v


def measure(quick: bool) -> Evidence:
    checks, shown, (cases, R, a, v) = [], {}, random_cases(400 if quick else 10_000)
    every = lambda f: np.asarray(jax.jit(jax.vmap(f))(*cases))  # noqa: E731
    A, V, u, w = 3 * np.eye(D), np.diag([2.0, 1.0, 0.5]), np.eye(D)[0], np.full(N, 1 / N)
    one = A, V, np.tile(2 * u, (N, 1)), w, u  # delta_Ru with |V| = 2, R = 2, |A| R^2 = 12
    for name, kernel in (GOOD | BAD).items():
        shown[name] = every(lambda *case, kernel=kernel: largest_at_tokens(kernel, *case)) / (v * R)
        at_one = float(largest_at_tokens(kernel, *one)) / 4
        if name in BAD:
            exact = np.exp(12.0) if name == "unnormalized" else 12.0
            checks.append(close(f"{name}, δ_{{Ru}} with |A|R² = 12: |Γ| / |V|R", exact, at_one, rtol=1e-12))
            continue
        found = [shown[name].max(), at_one]
        if name != "Sinkhorn":  # Sinkhorn attention is defined on the support only
            found.append((np.linalg.norm(every(lambda *c, k=kernel: at_probe(k, *c)), axis=-1) / (v * R)).max())
        checks.append(at_most(f"{name}: largest |Γ| / |V|R over all measures and points", 1 + 1e-12, max(found)))
    checks.append(at_least("as printed, sigmoid violates it: largest |Γ| / |V|R", 1 + 1e-9, max(found), printed=True))
    slope = lambda A, V, x, w, y: jax.jacfwd(lambda y: at_probe(tkf.Softmax, A, V, x, w, y))(y)  # noqa: E731
    steepest = (np.linalg.norm(every(slope), ord=2, axis=(1, 2)) / (v * a * R**2)).max()
    checks.append(at_most("softmax: largest |DΓ| / |V||A|R² over all measures and points", 1 + 1e-12, steepest))
    sharp = slope(A, V, np.outer(np.resize([2.0, -2.0], N), u), w, np.zeros(D)) / (2 * 12)
    checks.append(close("softmax, ½(δ_{Ru} + δ_{−Ru}): |DΓ(0)| / |V||A|R²", 1.0, np.linalg.norm(sharp, 2), rtol=1e-12))
    caption = "Random measures. Solid: the bound. Dashed: values reached by tokens at one point, e^{|A|R²} and |A|R²."
    return Evidence(tuple(checks), draw(a * R**2, shown), caption)


def draw(x: np.ndarray, shown: dict[str, np.ndarray]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    panels, grid = figure.subplots(1, 2), np.logspace(-2, 1, 200)
    for axes, kernels in zip(panels, (GOOD, BAD), strict=True):
        for name, color, marker in zip(kernels, ("#D55E00", "#0072B2", "#009E73", "#E69F00"), ".x+.", strict=False):
            axes.plot(x[:120], shown[name][:120], marker, color=color, ms=4, label=name)
        axes.axhline(1, color="black", lw=1)
        axes.set(xscale="log", xlabel="$|A| R^2$", xlim=(0.01, 10))
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    panels[0].set(ylim=(0, 1.5), ylabel=r"$\max_i |\Gamma(x_i)| \,/\, |V| R$")
    panels[1].semilogy(grid, np.exp(grid), "--", grid, grid, "--", color="black", lw=0.8)
    return figure


CLAIM = Claim(
    id="sup_bounds",
    section="Well-posedness and stability",
    title="Bounds on the attention map and its derivative",
    statement="For mu in the ball of radius R, softmax attention has sup |Γ| ≤ |V|R and sup |DΓ| ≤ |V||A|R², both "
    "sharp. The first holds for L2 and Sinkhorn attention too, and for sigmoid attention, whose kernel is at most 1 "
    "(the talks list it among those that violate it). Unnormalized, linear and ReLU attention do violate it.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part II; Castin, Ablin, Carrillo, Peyré 2025",
    measure=measure,
)
