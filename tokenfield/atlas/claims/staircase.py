"""The energy rises like a staircase: plateaus at sums of squared cluster sizes, for times up to e^{beta}."""

import math

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close, equal

START = 0.5 * np.array([0, 0.5, 2, 4, 7]) * math.log(2000) / math.sqrt(2000)
COLORS = ("#56B4E9", "#0072B2", "#009E73", "#D55E00")


def measure(quick: bool) -> Evidence:
    betas = (500.0, 4000.0) if quick else (500.0, 1000.0, 2000.0, 4000.0)
    checks, curves = [], {}
    limit = tkf.theory.saddle_to_saddle(tkf.circle_tokens(START))
    order = [step.tokens for step in limit]
    for beta in betas:
        model = tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN())
        run = tkf.simulate(model, tkf.circle_tokens(START), math.inf, method="coarsen", progress=False)
        energy = np.array([tkf.normalized_energy(state, beta) for state in run.states])
        states = tkf.metastable_states(run)
        merges = [event.detail for event in run.events if event.kind == "merge"]
        deviation = 0.0
        for merge, state in zip(merges[:-1], states[1:-1], strict=True):
            if merge["energy_fraction"] > 0.6:  # the pair starts so close that it merges without a plateau
                continue
            inside = (run.log_times >= state.log_start) & (run.log_times <= state.log_end)
            plateau = sum((size / 5) ** 2 for size in state.sizes)
            deviation = max(deviation, float(np.abs(energy[inside] - plateau).min()))
        checks.append(at_most(f"β = {beta:g}: least |energy − Σ_c w_c²| on a plateau, worst plateau", 1e-6, deviation))
        checks.append(at_most(f"β = {beta:g}: largest decrease of the energy", 1e-11, -min(np.diff(energy).min(), 0.0)))
        found = [tuple(sorted(merge["tokens"])) for merge in merges]
        checks.append(equal(f"β = {beta:g}: order of the merges", order[-len(found) :], found))
        error = max(merge["relative_error"] for merge in merges)
        checks.append(at_most(f"β = {beta:g}: estimated relative error of the merge times", 1e-5, error))
        checks.append(
            at_most(
                f"β = {beta:g}: number of steps (a fixed step of 0.1 would need e^{run.log_times[-1] + 2.3:.0f})",
                300,
                run.dataset.attrs["steps"],
            )
        )
        curves[beta] = run.log_times, energy
    exponent = run.log_times[-1] / betas[-1]
    checks.append(
        close(f"β = {betas[-1]:g}: log T/β of the last merge, limit 1-ρ", limit[-1].exponent, exponent, rtol=0.05)
    )
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = (
    "Normalized energy of five tokens on the circle against log t/β, for several β: steps sharpen as β grows, plateaus lie at "
    "Σ_c w_c² (gray)."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4), layout="constrained")
    ax = figure.subplots()
    for level in (5, 7, 11, 13, 25):
        ax.axhline(level / 25, color="#d9d9d9", lw=0.8)
    for color, (beta, (log_t, energy)) in zip(COLORS, curves.items(), strict=False):
        ax.plot(log_t / beta, energy, color=color, label=f"β = {beta:g}", lw=1.2)
    ax.set(xlabel="log t / β", ylabel="normalized energy", xlim=(-0.01, 0.1), ylim=(0.15, 1.02))
    ax.legend(frameon=False, loc="upper left")
    return figure


CLAIM = Claim(
    id="staircase",
    section="Metastability",
    title="The energy rises like a staircase",
    statement="At large β tokens stay in states of several clusters for times of order e^{cβ}. The normalized energy has a "
    "plateau at Σ_c w_c² in each of them, with w_c the share of the tokens in cluster c, and jumps when two clusters "
    "merge; the closest pair merges first.",
    source="Geshkovski, Koubbi, Polyanskiy, Rigollet 2024 (their five tokens); Rigollet, The mean-field dynamics of "
    "Transformers, §5.2",
    measure=measure,
)
