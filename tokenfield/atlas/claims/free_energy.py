"""Noisy tokens under USA decrease a free energy, at an exactly known rate."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ...flows import segments
from ...flows.density_heads import at_degrees
from ...spectral.gegenbauer import polynomials
from ..claim import Claim, Evidence, at_most, close

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
PANEL, MODES = 20, 40


class Case(NamedTuple):
    """An initial density, with the kind of stationary law to which it converges."""

    name: str
    start: tkf.CircleDensity | tkf.ZonalDensity
    beta: float
    kappa: float
    end: str
    t1: float
    left: float
    """Tolerance for F minus its limit at t1, from the rate of the linearized equation."""


def cases(quick: bool) -> list[Case]:
    two = tkf.CircleDensity.from_function(
        lambda a: 1 + 0.4 * np.cos(a - 1) + 0.3 * np.cos(2 * a) + 0.2 * np.sin(3 * a), MODES
    )
    low = tkf.CircleDensity.from_function(lambda a: 1 + 0.3 * np.cos(a) + 0.2 * np.sin(2 * a), MODES)
    high = tkf.CircleDensity.from_function(lambda a: np.exp(1.5 * np.cos(a)) * (1 + 0.2 * np.sin(a)), MODES)
    found = [
        Case("circle, β = 1, κ = 2.5", two, 1.0, 2.5, "one peak", 30.0, 1e-7),
        Case("circle, β = 4, κ = 0.395, low start", low, 4.0, 0.395, "uniform", 40.0, 1e-5),
        Case(
            "circle, β = 4, κ = 0.395, high start",
            high,
            4.0,
            0.395,
            "one peak",
            *((12.0, 1e-4) if quick else (30.0, 1e-7)),
        ),
    ]
    if not quick:
        bumps = lambda t: np.exp(t) + 2 * np.exp(-3 * t)  # noqa: E731
        for d, beta in ((3, 2.0), (5, 3.0)):
            start, name = tkf.ZonalDensity.from_function(bumps, 48, d), f"zonal, d = {d}, β = {beta:g}, κ = 3"
            found.append(Case(name, start, beta, 3.0, "one peak", 15.0, 1e-7))
    return found


def slope(state, c: np.ndarray) -> np.ndarray:
    """Return the derivative of functions with coefficients c along the circle, or along the meridians, at the nodes."""
    if isinstance(state, tkf.CircleDensity):
        k = np.arange(state.modes + 1)
        rotated = jnp.asarray(np.stack([k * c[:, 1], -k * c[:, 0]], axis=1))
        return np.asarray(jax.vmap(state.harmonics.values)(rotated))
    t = np.asarray(state.harmonics.t)
    return c @ polynomials(t, state.modes + 1, state.d)[1].T * np.sqrt(1 - t * t)


def multipliers(flow):
    """Return the factor by which W* multiplies each coefficient."""
    return at_degrees(flow.harmonics, flow.heads[0].kernel)


@eqx.filter_jit
def rates(flow, c):
    """Return `∂_t p`, p and W*p at the nodes."""
    velocity = jax.vmap(lambda y: flow.velocity(jnp.zeros(()), y))(c)
    return [jax.vmap(flow.harmonics.values)(part) for part in (velocity, c, multipliers(flow) * c)]


def along(flow, state, c: np.ndarray, kappa: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return at each density F minus F of the uniform law, `dF/dt = ∫ (log p/kappa - W*p) ∂_t p`, and the dissipation.

    The dissipation is `∫ p |∇(log p/kappa - W*p)|^2`; all by quadrature at the nodes.
    """
    change, p, W = (np.asarray(part) for part in rates(flow, jnp.asarray(c)))
    nodes = p.shape[1]
    weights = np.full(nodes, 1 / nodes) if state.d == 2 else np.asarray(state.harmonics.weights)
    w = np.asarray(multipliers(flow))
    inner = (w * c**2).reshape(len(c), -1).sum(axis=1) - w.reshape(-1)[0]
    F = (p * np.log(p)) @ weights / kappa - inner / 2
    force = slope(state, c) / (kappa * p) - slope(state, w * c)
    return F, ((np.log(p) / kappa - W) * change) @ weights, (p * force**2) @ weights


def measure(quick: bool) -> Evidence:
    checks, curves = [], {}
    nodes, gauss = np.polynomial.legendre.leggauss(PANEL)
    for case in cases(quick):
        ends = np.array([0.0, 0.3, 2.0, 8.0, case.t1])
        middles, halves = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
        times = np.concatenate([[0.0], (middles[:, None] + halves[:, None] * nodes).ravel(), [case.t1]])
        noise = tkf.SphereNoise(case.kappa)
        model = tkf.Transformer(tkf.Unnormalized(beta=case.beta), norm=tkf.PostLN(), noise=noise)
        run = tkf.simulate(model, case.start, case.t1, save_at=times, rtol=1e-7, atol=1e-11, progress=False)
        c, state = run.dataset["coefficients"].values, run.final
        F, change, loss = along(segments(state, model)[0].flow, state, c, case.kappa)
        local = np.abs(change + loss).max() / loss.max()
        total = (halves[:, None] * gauss).ravel() @ loss[1:-1]
        laws = tkf.theory.stationary_states(case.beta, case.kappa, state.d, l_max=1)
        law = min((each for each in laws if each.kind == case.end), key=lambda each: each.free_energy)
        checks += [
            at_most(f"{case.name}: relative error of dF/dt = -∫ μ|∇(log μ/κ - W*μ)|²", 1e-10, local),
            close(f"{case.name}: F(0) - F({case.t1:g}) = -∫ dF/dt dt", total, F[0] - F[-1], rtol=1e-6),
            at_most(f"{case.name}: largest change of F between saved times", 1e-12, np.diff(F).max()),
            close(
                f"{case.name}: F at t = {case.t1:g} minus F of the uniform law", law.free_energy, F[-1], atol=case.left
            ),
        ]
        if law.kind == "uniform":
            what = f"{case.name}: terminal decay rate of F, 2(1/κ - w_1/β)"
            checks.append(close(what, -2 * law.growth, loss[-1] / F[-1], rtol=3e-3))
        curves[case.name] = times, F, law.free_energy, change, loss
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = (
    "Left: free energy minus that of the uniform law along noisy USA on the circle (lines), and the free energies of the "
    "stationary laws to which it converges (dashed). At β = 4 two laws are stable, and the initial density decides which one is "
    "the limit. Right: -dF/dt, from ∫ F'(μ) ∂_t μ (circles) and from the dissipation (lines)."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = [(name, curve) for name, curve in curves.items() if name.startswith("circle")]
    for (name, (times, F, limit, change, loss)), color in zip(shown, (BLUE, GREEN, ORANGE), strict=True):
        left.axhline(limit, color=color, ls="--", lw=0.8)
        left.plot(times, F, color=color, label=name.removeprefix("circle, "))
        right.semilogy(times, loss, color=color, lw=1)
        right.semilogy(times[1:-1:3], -change[1:-1:3], "o", ms=4.5, mfc="none", color=color)
    left.set(xlabel="time t", ylabel="free energy F - F(uniform)", xlim=(0, 20))
    right.set(xlabel="time t", ylabel="-dF/dt", xlim=(0, 20), ylim=(1e-7, None))
    figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3, fontsize=8)
    return figure


CLAIM = Claim(
    id="free_energy",
    section="Noise",
    title="Noisy attention decreases a free energy",
    statement="The law μ of noisy tokens under USA on the sphere decreases F = (1/κ)∫ μ log μ - ½∬ W dμ dμ, "
    "W = e^{β<x,y>}/β, with dF/dt = -∫ μ |∇(log μ/κ - W*μ)|² exactly: a Wasserstein gradient flow. F tends to its value at a "
    "stationary law μ ∝ exp(κ W*μ). Between the fold and κ_c two of them are stable, and the start decides which is the limit.",
    source="Rigollet, The mean-field dynamics of Transformers, (9) with its signs corrected, §7; Carrillo, Gvalani, "
    "Pavliotis, Schlichting 2020",
    measure=measure,
)
