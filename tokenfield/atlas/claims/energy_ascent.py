"""SA and USA increase the interaction energy, at an exactly known rate."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_least, at_most

N, D, NODES = 16, 3, 99
BLUE, ORANGE = "#0072B2", "#D55E00"
FLOWS = {"SA": (tkf.Softmax, "∫ Z|v|² dμ"), "USA": (tkf.Unnormalized, "∫ |v|² dμ")}


@eqx.filter_jit
def along(flow, states, w, beta):
    """Return at each state the energy, its derivative along the velocity v (automatic differentiation), and the predicted rate.

    The predicted rate is `sum_i w_i m_i |v_i|^2` with m = Z (SA) or 1 (USA).
    """

    def at(x):
        energy = lambda x: w @ jnp.exp(beta * x @ x.T) @ w / (2 * beta)  # noqa: E731
        v = flow.velocity(jnp.zeros(()), flow.pack(tkf.Tokens(x, w))).theta
        m = jnp.exp(beta * x @ x.T) @ w if flow.model.attention.normalized else jnp.ones(N)
        return (*jax.jvp(energy, (x,), (v,)), w @ (m * (v * v).sum(-1)))

    return jax.vmap(at)(states)


def measure(quick: bool) -> Evidence:
    checks, curves, rises = [], {}, []
    nodes, gauss = np.polynomial.legendre.leggauss(NODES)
    weights = np.random.default_rng(0).dirichlet(np.full(N, 3.0))
    for flow, (attention, name) in FLOWS.items():
        local, total, least = [], [], []
        for beta in (0.5, 4.0) if quick else (0.5, 1.0, 2.0, 3.0, 4.0):
            t1 = 6.0 if flow == "SA" else 9 * np.exp(-0.75 * beta)
            times = np.concatenate([[0], t1 * (1 + nodes) / 2, [t1]])
            for seed in range(1 if quick else 6):
                start = tkf.Tokens(tkf.uniform_sphere(N, D, seed=seed).x, weights)
                model = tkf.Transformer(attention(beta=beta), norm=tkf.PostLN())
                run = tkf.simulate(model, start, t1, save_at=times, rtol=1e-11, atol=1e-13, progress=False)
                field, x = segments(start, model)[0].flow, run.dataset["x"].values
                energy, slope, square = map(np.asarray, along(field, x, start.weights, beta))
                local.append(np.abs(slope - square).max() / square.max())
                gain = tkf.energy(run.final, model) - tkf.energy(start, model)
                total.append(abs(t1 / 2 * gauss @ square[1:-1] / gain - 1))
                least.append(np.diff(energy).min())
                rises.append(np.diff(energy).max())
        curves[flow] = times, slope / energy[-1], square / energy[-1]
        checks.append(at_most(f"{flow}: relative error of dE/dt = {name}", 1e-11, max(local)))
        checks.append(at_most(f"{flow}: relative error of E(T) - E(0) = ∫ dE/dt dt", 1e-9, max(total)))
        checks.append(at_least(f"{flow}: smallest change of E between saved times", 0.0, min(least)))
    checks.append(
        at_most("as printed (descent): largest change of E between saved times", 0.0, max(rises), printed=True)
    )
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = (
    "Rate of increase of the energy, divided by the final energy, for 16 weighted tokens on the 2-sphere, β = 4: the identity "
    "(line) and the derivative of the energy along the flow (dots)."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    for ax, (flow, (times, slope, square)) in zip(figure.subplots(1, 2), curves.items(), strict=True):
        ax.plot(times, square, color=BLUE, label=FLOWS[flow][1])
        ax.plot(times[::3], slope[::3], "o", ms=3, color=ORANGE, label="dE/dt")
        ax.set(xlabel="time t", title=flow, ylim=(0, None))
        ax.legend(frameon=False)
    figure.axes[0].set_ylabel("rate of increase / final energy")
    return figure


CLAIM = Claim(
    id="energy_ascent",
    section="Models",
    title="Attention increases the interaction energy",
    statement="SA and USA increase E = (1/2β) ∬ e^{β<x,y>} dμ dμ, with dE/dt = ∫ Z|v|² dμ for SA and ∫ |v|² dμ for USA "
    "(v the velocity, Z the softmax normalization, any weights): gradient ascent. §5.1 of the survey says descent.",
    source="Rigollet, The mean-field dynamics of Transformers, (3), §5.1; Geshkovski, Letrouit, Polyanskiy, Rigollet 2025",
    measure=measure,
)
