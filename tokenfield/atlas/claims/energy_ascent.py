"""The flows climb the interaction energy, at an exactly known speed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_least, at_most

N, D, NODES = 16, 3, 99
BLUE, ORANGE = "#0072B2", "#D55E00"
RUNS = {"SA": (tkf.Softmax, lambda beta: 6.0), "USA": (tkf.Unnormalized, lambda beta: 6 * np.exp(-0.75 * beta))}


def interaction(x, w, beta):
    """`E = (1/2beta) sum_ij w_i w_j e^{beta <x_i, x_j>}`."""
    return w @ jnp.exp(beta * x @ x.T) @ w / (2 * beta)


@eqx.filter_jit
def both_sides(flow, x, w, beta):
    """`dE/dt` by automatic differentiation along the velocity, and `sum_i w_i m_i |v_i|^2`, m = Z (SA) or 1 (USA)."""
    v = flow.velocity(jnp.zeros(()), flow.pack(tkf.Tokens(x, w))).theta
    slope = jax.jvp(lambda x: interaction(x, w, beta), (x,), (v,))[1]
    mobility = jnp.exp(beta * x @ x.T) @ w if flow.model.attention.stochastic else jnp.ones(N)
    return slope, w @ (mobility * (v * v).sum(-1))


def measure(quick: bool) -> Evidence:
    checks, curves = [], {}
    nodes, gauss = np.polynomial.legendre.leggauss(NODES)
    weights = np.random.default_rng(0).dirichlet(np.full(N, 3.0))
    fall = []
    for flow, (attention, duration) in RUNS.items():
        local, total, rise = [], [], []
        for beta in (0.5, 4.0) if quick else (0.5, 1.0, 2.0, 8.0, 4.0):
            t1 = duration(beta)
            for seed in range(1 if quick else 6):
                start = tkf.Tokens(tkf.uniform_sphere(N, D, seed=seed).x, weights)
                model = tkf.Transformer(attention(beta=beta), norm=tkf.PostLN())
                times = np.concatenate([[0], t1 * (1 + nodes) / 2, [t1]])
                run = tkf.simulate(model, start, t1, save_at=times, rtol=1e-11, atol=1e-13, progress=False)
                field = segments(start, model)[0].flow
                slope, square = np.array([both_sides(field, s.x, s.weights, beta) for s in run.states]).T
                energy = np.array([tkf.energy(state, model) for state in run.states])
                local.append(np.abs(slope - square).max() / square.max())
                total.append(abs(t1 / 2 * gauss @ square[1:-1] / (energy[-1] - energy[0]) - 1))
                rise.append(np.diff(energy).min())
                fall.append(np.diff(energy).max())
        curves[flow] = times, energy, slope, square
        name = "∫ Z|v|² dμ" if flow == "SA" else "∫ |v|² dμ"
        checks.append(at_most(f"{flow}: largest relative error of dE/dt = {name}", 1e-11, max(local)))
        checks.append(at_most(f"{flow}: relative error of E(T) - E(0) = its time integral", 1e-9, max(total)))
        checks.append(at_least(f"{flow}: smallest increase of E between saved times", 0.0, min(rise)))
    checks.append(at_most("as printed (descent): largest increase of E", 0.0, max(fall), printed=True))
    return Evidence(tuple(checks), draw(curves, beta), CAPTION.format(beta=beta))


CAPTION = (
    "Speed of ascent of the energy, divided by the final energy, for 16 weighted tokens on the 2-sphere, β = {beta:g}: "
    "the identity (line) and the derivative of the energy (dots)."
)


def draw(curves, beta):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    for ax, (flow, (times, energy, slope, square)) in zip(figure.subplots(1, 2), curves.items(), strict=True):
        name = r"$\int Z|v|^2 d\mu$" if flow == "SA" else r"$\int |v|^2 d\mu$"
        ax.plot(times, square / energy[-1], color=BLUE, label=name)
        ax.plot(times[::4], slope[::4] / energy[-1], "o", ms=3, color=ORANGE, label=r"$dE_\beta/dt$")
        ax.set(xlabel="time t", title=flow, ylim=(0, None))
        ax.legend(frameon=False)
    figure.axes[0].set_ylabel("speed of ascent / final energy")
    return figure


CLAIM = Claim(
    id="energy_ascent",
    section="Models",
    title="Attention climbs the interaction energy",
    statement="SA and USA increase E = (1/2β) ∬ e^{β<x,y>} dμ dμ, with dE/dt = ∫ Z|v|² dμ for SA and ∫ |v|² dμ for USA "
    "(v the velocity, Z the softmax normalisation, any weights): gradient ascent. The survey's §5.1 writes descent.",
    source="Rigollet, The mean-field dynamics of Transformers, (3) and §5.1; Geshkovski, Letrouit, Polyanskiy, Rigollet 2025",
    measure=measure,
)
