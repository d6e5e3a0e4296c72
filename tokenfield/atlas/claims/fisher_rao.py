"""When the weights evolve too, the energy increases faster and all mass ends at one point."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_least, at_most, equal

N, D, NODES = 16, 3, 99
RATES = {0.0: "#9a9a9a", 1.0: "#0072B2", 4.0: "#D55E00"}


def start(seed: int) -> tkf.Tokens:
    return tkf.Tokens(tkf.uniform_sphere(N, D, seed=seed).x, np.random.default_rng(seed).dirichlet(np.full(N, 3.0)))


def model(beta: float, c: float) -> tkf.Transformer:
    return tkf.Transformer(tkf.Unnormalized(beta=beta), norm=tkf.PostLN(), fisher_rao=c)


@eqx.filter_jit
def identity(flow, x, m, beta, c):
    """Return `sum_i m_i |x_i'|^2 + c Var_m(phi)` at each saved state, with the velocities of the flow."""

    def at(x, m):
        phi = jnp.exp(beta * x @ x.T) @ m / beta
        y = flow.pack(tkf.Tokens(x, m))
        v = eqx.tree_at(lambda f: f.weights, flow, m).velocity(jnp.zeros(()), y).theta
        return m @ (v * v).sum(-1), c * m @ (phi - m @ phi) ** 2

    return jax.vmap(at)(x, m)


def energy(run, beta: float) -> np.ndarray:
    """Return `E - 1/(2 beta)` at every saved time, without cancellation."""
    pairs = np.expm1(beta * run.dataset["x"].values @ run.dataset["x"].values.swapaxes(1, 2))
    w = weights(run)
    return np.einsum("ti,tij,tj->t", w, pairs, w) / (2 * beta)


def weights(run) -> np.ndarray:
    """Return the weights (time, token), also if they are constant."""
    return np.broadcast_to(run.dataset["weights"].values, run.dataset["x"].shape[:2])


def follow(beta: float, c: float, seed: int, t1: float, nodes: np.ndarray):
    """Return the run, and the two parts of dE/dt (from motion, from weights) at the nodes."""
    times = np.concatenate([[0], t1 * (1 + nodes) / 2, [t1]])
    tokens = start(seed)
    run = tkf.simulate(model(beta, c), tokens, t1, save_at=times, rtol=1e-11, atol=1e-13, progress=False)
    flow = segments(tokens, model(beta, c))[0].flow
    moved, grown = map(np.asarray, identity(flow, run.dataset["x"].values, weights(run), beta, c))
    return run, moved[1:-1], grown[1:-1]


def gathered(beta: float, c: float, seed: int) -> bool:
    """Return True if the weighted mean of the tokens reaches length 0.9999."""
    rule = tkf.order_above(0.9999)
    run = tkf.simulate(model(beta, c), start(seed), 1e4, save_at=2, stop_when=rule, progress=False)
    return bool(run.events)


def measure(quick: bool) -> Evidence:
    nodes, gauss = np.polynomial.legendre.leggauss(NODES)
    betas, seeds = ((1.0, 4.0), 1) if quick else ((0.5, 1.0, 2.0, 4.0), 6)
    errors, shares, least, runs = [], [], [], {}
    for c in RATES:
        for beta in betas:
            t1 = 9 * np.exp(-0.75 * beta)
            for seed in range(seeds):
                run, moved, grown = follow(beta, c, seed, t1, nodes)
                energies = energy(run, beta)
                gain = energies[-1] - energies[0]
                errors.append(abs(t1 / 2 * gauss @ (moved + grown) / gain - 1))
                shares.append(t1 / 2 * gauss @ grown / gain)
                least.append(np.diff(energies).min())
        runs[c] = run
    starts = [(beta, c, seed) for beta in betas for c in RATES if c for seed in range(2 if quick else 10)]
    ended = sum(gathered(*each) for each in starts)
    checks = (
        at_most("relative error of E(T) - E(0) = ∫ Σ mᵢ|xᵢ'|² + c Var(φ) dt", 1e-9, max(errors)),
        at_least("largest share of the increase of E that is due to the weights", 0.05, max(shares)),
        at_least("smallest change of E between saved times", 0.0, min(least)),
        equal("random starts whose mass ends at one point", len(starts), ended),
    )
    return Evidence(checks, draw(runs, betas[-1]), CAPTION)


CAPTION = (
    "Left: the normalized energy of 16 weighted tokens on the 2-sphere, β = 4, for three rates c of the weights. "
    "Right: their weights for c = 4; the mass goes to the cluster with the largest potential."
)


def draw(runs, beta):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for c, run in runs.items():
        normalized = (2 * beta * energy(run, beta) + 1) * np.exp(-beta)
        left.plot(run.times, normalized, color=RATES[c], label=f"c = {c:g}")
    left.set(xlabel="time t", ylabel="normalized energy", ylim=(0, 1.02))
    left.legend(frameon=False, loc="lower right")
    fastest = runs[max(runs)]
    right.plot(fastest.times, weights(fastest), color=RATES[max(runs)], lw=0.8, alpha=0.8)
    right.set(xlabel="time t", ylabel="weight of a token", ylim=(0, None))
    return figure


CLAIM = Claim(
    id="fisher_rao",
    section="Clustering on the sphere",
    title="Evolving weights: the Wasserstein–Fisher–Rao flow",
    statement="If tokens move by USA and their weights by mᵢ' = c mᵢ (φᵢ - Σ mⱼφⱼ), φᵢ = (1/β) Σ mⱼ e^{β<xᵢ,xⱼ>}, then "
    "dE/dt = Σ mᵢ|xᵢ'|² + c Var(φ) >= 0, and from almost every start all mass ends at one point.",
    source="Chen, Polyanskiy, Rigollet 2025 (the rate c is free here); Rigollet, The mean-field dynamics of Transformers",
    measure=measure,
)
