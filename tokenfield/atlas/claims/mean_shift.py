"""Blurring mean shift on the sphere is SA, faster by the factor beta."""

import jax
import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_most, close

N, D = 16, 3
COLORS = ("#0072B2", "#009E73", "#D55E00")


def log_density(x, y, w, beta):
    """Return `log (K * mu)(x)` with `K = exp(-beta |x|^2 / 2)`; mu has atoms y, a separate argument, so grad in x fixes mu."""
    return jax.nn.logsumexp(-beta / 2 * ((x - y) ** 2).sum(-1), b=w)


@jax.jit
def mean_shift(x, w, beta):
    """Return the gradient on the sphere of `log (K * mu)` at each token."""
    gradient = jax.vmap(jax.grad(log_density), (0, None, None, None))(x, x, w, beta)
    return gradient - (gradient * x).sum(-1, keepdims=True) * x


def integrated(start: tkf.Tokens, beta: float, t1: float) -> np.ndarray:
    """Return the tokens at time t1 under blurring mean shift, by SciPy."""
    from scipy.integrate import solve_ivp

    field = lambda t, y: np.asarray(mean_shift(y.reshape(N, D), start.weights, beta)).ravel()  # noqa: E731
    return solve_ivp(field, (0, t1), np.ravel(start.x), "DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(N, D)


def measure(quick: bool) -> Evidence:
    checks, pairs = [], {}
    weights = np.random.default_rng(0).dirichlet(np.full(N, 3.0))
    for beta in (0.5, 4.0, 20.0):
        errors, ratios, ends = [], [], []
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        for seed in range(1 if quick else 20):
            start = tkf.Tokens(tkf.uniform_sphere(N, D, seed=seed).x, weights)
            flow = segments(start, model)[0].flow
            sa = np.asarray(flow.velocity(0.0, flow.pack(start)).theta)
            shift = np.asarray(mean_shift(start.x, start.weights, beta))
            errors.append(np.abs(shift - beta * sa).max() / np.abs(shift).max())
            ratios.append((shift * sa).sum() / (sa * sa).sum())
            end = tkf.simulate(model, start, t1=2.0, rtol=1e-11, atol=1e-13, progress=False).final
            ends.append(np.abs(integrated(start, beta, 2.0 / beta) - end.x).max())
        pairs[beta] = sa.ravel(), shift.ravel()
        checks.append(at_most(f"β = {beta:g}: relative error of mean shift = β × SA", 1e-12, max(errors)))
        checks.append(at_most(f"β = {beta:g}: distance of mean shift at t = 2/β from SA at t = 2", 1e-9, max(ends)))
        what = f"β = {beta:g}, as printed: speed of mean shift / speed of SA"
        checks.append(close(what, 1.0, ratios[0], rtol=1e-9, printed=True))
    return Evidence(tuple(checks), draw(pairs), CAPTION)


CAPTION = (
    "Each component of the velocity of 16 random tokens under blurring mean shift against the same under SA (dots); "
    "lines of slope β. The dashed line is equality, as printed."
)


def draw(pairs):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    ends = np.array([-0.55, 0.55])
    for (beta, (sa, shift)), color in zip(pairs.items(), COLORS, strict=True):
        ax.plot(ends, beta * ends, color=color, lw=1)
        ax.plot(sa, shift, "o", ms=3.5, color=color, label=f"β = {beta:g}")
    ax.plot(ends, ends, "--", color="0.4", lw=1, label="equality")
    ax.set(xlabel="velocity component under SA", ylabel="the same under mean shift", xlim=ends, ylim=(-2.5, 2.5))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="mean_shift",
    section="Models",
    title="Blurring mean shift on the sphere is β times SA",
    statement="Let K be the Gaussian kernel of precision β. On the sphere, blurring mean shift, x_i' = ∇ log(K*μ_t)(x_i) with "
    "the Riemannian gradient, is β times the SA velocity: tokens follow the same paths, β times as fast. The survey says that "
    "the two coincide exactly, which holds at β = 1 only.",
    source="Rigollet, The mean-field dynamics of Transformers, §5.3; Cheng 1995",
    measure=measure,
)
