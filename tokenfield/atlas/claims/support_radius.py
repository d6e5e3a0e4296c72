"""The radius of the support grows at most like the exponential of the integral of |V|."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

N, D, T = 16, 3, 1.5
TIMES, FINE = np.linspace(0, T, 31), np.linspace(0, T, 3001)


class Values(eqx.Module):
    """`V(t) = V_0 + sin(3t) V_1`, constant when V_1 = 0."""

    V0: Array
    V1: Array

    def __call__(self, t):
        return self.V0 + jnp.sin(3 * t) * self.V1


def growth_bound(V: Values) -> np.ndarray:
    """Return `exp ∫_0^t |V(s)|_2 ds` at TIMES, by the trapezoidal rule on a fine grid."""
    norms = np.linalg.norm(np.asarray(V.V0) + np.sin(3 * FINE)[:, None, None] * np.asarray(V.V1), ord=2, axis=(1, 2))
    steps = (norms[1:] + norms[:-1]) / 2 * np.diff(FINE)
    return np.exp(np.concatenate([[0], np.cumsum(steps)]))[:: (len(FINE) - 1) // (len(TIMES) - 1)]


def radii(attention, V: Values, x: np.ndarray) -> np.ndarray:
    """Return `max_i |x_i(t)| / R_0` at TIMES."""
    model = tkf.Transformer(attention(V=V))
    run = tkf.simulate(model, tkf.Tokens(x), T, save_at=TIMES, rtol=1e-9, atol=1e-11, progress=False)
    lengths = np.linalg.norm(run.dataset["x"].values, axis=-1).max(axis=1)
    return lengths / lengths[0]


def measure(quick: bool) -> Evidence:
    ratios, shown = {}, {}
    for seed in range(2 if quick else 40):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((N, D)) * rng.uniform(0.2, 1.0)
        Q, K, V0, V1 = rng.standard_normal((4, D, D)) / np.sqrt(D)
        softmax, sinkhorn = (partial(kind, A=K.T @ Q) for kind in (tkf.Softmax, tkf.Sinkhorn))
        kernels = {"softmax": softmax, "L2": partial(tkf.L2, Q=Q, K=K), "Sinkhorn": sinkhorn}
        for V in (Values(V0, 0 * V1), Values(V0, V1)):
            bound = growth_bound(V)
            for name, attention in kernels.items():
                shown[name] = radii(attention, V, x)
                ratios.setdefault(name, []).append((shown[name] / bound)[1:].max())
    scalar = Values(0.4 * np.eye(D), 0.3 * np.eye(D))
    together = radii(partial(tkf.Softmax, A=np.eye(D)), scalar, np.ones((N, D)))
    checks = [at_most(f"{k}: largest radius / (R₀ exp ∫|V|), t > 0", 1.0, max(v)) for k, v in ratios.items()]
    exact = np.exp(0.4 * T + 0.3 * (1 - np.cos(3 * T)) / 3)
    checks += [
        close("exp ∫|V| itself, V(t) = (.4 + .3 sin 3t) I, t = 1.5", exact, growth_bound(scalar)[-1], rtol=1e-6),
        close("all tokens at one point, same V(t): growth of the radius to t = 1.5", exact, together[-1], rtol=1e-8),
    ]
    return Evidence(tuple(checks), draw(shown, bound), "One random A and V(t) = V₀ + sin(3t)V₁; dashed: the bound.")


def draw(shown: dict[str, np.ndarray], bound: np.ndarray):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="time $t$", ylabel=r"$\max_i |x_i(t)| \,/\, R_0$", yscale="log")
    for (name, radius), color in zip(shown.items(), ("#0072B2", "#009E73", "#CC79A7"), strict=True):
        axes.plot(TIMES, radius, color=color, label=name)
    axes.plot(TIMES, bound, "--", color="#D55E00", label=r"$\exp\int_0^t |V|_2$")
    axes.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="support_radius",
    section="Well-posedness and stability",
    title="How fast the support can grow",
    statement="Tokens that start in the ball of radius R₀ stay, under the free flow of softmax, L2 or Sinkhorn "
    "attention with continuous A(t) and V(t), in the ball of radius R₀ exp ∫₀ᵗ |V(s)|₂ ds, and the flow exists for "
    "all time. Equality holds when all tokens are at one point and V is a positive multiple of the identity.",
    source="Castin, Ablin, Carrillo, Peyré, A unified perspective on the dynamics of deep Transformers, 2025; Castin, "
    "Mean-field Transformer dynamics (talk, Hamburg 2025), part II",
    measure=measure,
)
