"""The normalization rule decides how fast tokens collapse: initial speeds and terminal laws."""

import numpy as np

import tokenfield as tkf
from tokenfield.flows import segments

from ..claim import Claim, Evidence, close

N, BETA = 16, 2.0
NORMS = {
    "Post-LN": (tkf.PostLN(), "#0072B2", (8.0, 14.0)),
    "Pre-LN": (tkf.PreLN(), "#D55E00", (1e7, 1e8)),
    "Mix-LN, τ = 3": (tkf.MixLN(3.0), "#CC79A7", (1e7, 1e8)),
    "Peri-LN": (tkf.PeriLN(), "#009E73", (1e7, 1e8)),
    "nGPT, α = 1/2": (tkf.NGPT(0.5), "#E69F00", (16.0, 28.0)),
    "sqrt-scaling": (tkf.SqrtScaling(), "#56B4E9", (1e4, 2e4)),
}
WORDS = {"exponential": "rate of e^(-ct)", "power": "exponent of t^(-c)", "stretched": "rate of e^(-c√t)"}


def token_speed(norm) -> float:
    """Return `rho'(0)` of orthonormal tokens, from the velocities of all tokens."""
    import jax.numpy as jnp

    tokens = tkf.equiangular_tokens(rho=0.0, n=N)
    segment = segments(tokens, tkf.Transformer(tkf.Softmax(BETA), norm=norm))[0]
    theta = np.asarray(tokens.x)
    moved = np.asarray(segment.flow.velocity(jnp.zeros(()), segment.flow.pack(tokens)).theta)
    return float((moved @ theta.T + theta @ moved.T)[0, 1])


def measure(quick: bool) -> Evidence:
    checks, curves = [], {}
    plain, squared = np.exp(BETA) + N - 1, np.sqrt(np.exp(2 * BETA) + N - 1)
    initial = {"Peri-LN": 2 / squared, "nGPT, α = 1/2": 1 / squared}
    for name, (norm, color, (start, end)) in NORMS.items():
        checks.append(
            close(f"{name}: ρ'(0) of orthogonal tokens", initial.get(name, 2 / plain), token_speed(norm), rtol=1e-12)
        )
        model, state = tkf.Transformer(tkf.Softmax(BETA), norm=norm), tkf.Equiangular(0.0, N)
        times = np.concatenate([np.geomspace(0.1, 0.98 * start, 60), np.geomspace(start, end, 12)])
        run = tkf.simulate(model, state, end, save_at=times, rtol=1e-10, atol=1e-13, progress=False)
        gap = run.dataset["gap"].values
        law = tkf.theory.terminal_law(N, BETA, norm)
        fitted = tkf.theory.fit_terminal_law(times[-12:], gap[-12:], law.kind)
        checks.append(close(f"{name}: {WORDS[law.kind]}", law.rate, fitted, rtol=1e-4))
        curves[name] = times, gap, color
    usa = tkf.Transformer(tkf.Unnormalized(BETA), norm=tkf.PostLN())
    times = np.linspace(2.0, 3.0, 12)
    gap = tkf.simulate(usa, tkf.Equiangular(0.0, N), 3.0, save_at=times, rtol=1e-10, atol=1e-13).dataset["gap"].values
    fitted = tkf.theory.fit_terminal_law(times, gap, "exponential")
    checks.append(close("USA, Post-LN: rate of e^(-ct), 2e^β", 2 * np.exp(BETA), fitted, rtol=1e-4))
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = (
    f"1 - ρ of {N} tokens that start orthogonal, SA, β = {BETA:g}, under six rules. Left: against t; straight lines are "
    "exponentials. Right: against log t; straight lines are powers of t."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for index, (name, (times, gap, color)) in enumerate(curves.items()):
        style = {"color": color, "ls": ("-", "--", "-.")[index % 3]}
        left.semilogy(times, gap, label=name, **style)
        right.loglog(times, gap, **style)
    left.set(xlim=(0, 30), ylim=(1e-7, 1.3), xlabel="time t", ylabel="1 - ρ")
    right.set(xlim=(0.1, 1e4), xlabel="time t")
    figure.legend(*left.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside upper center", ncols=6)
    return figure


CLAIM = Claim(
    id="normalization_laws",
    section="Equiangular model",
    title="Each normalization rule has its own law of collapse",
    statement="From orthogonal tokens the cosine starts with ρ'(0) = 2/(e^β+n-1) under Post-, Pre-, Mix-LN and "
    "sqrt-scaling (radius 1), 2/√(e^{2β}+n-1) under Peri-LN, and α times the latter under nGPT. As t grows, 1-ρ falls like "
    "e^{-2t} (Post-LN), t^{-2} (Pre-, Mix-, Peri-LN), e^{-2αt} (nGPT) and e^{-4√t} (sqrt-scaling); under USA with "
    "Post-LN like e^{-2te^β}.",
    source="Rigollet, The mean-field dynamics of Transformers, §6.2; Karagodin, Ge, Polyanskiy, Rigollet 2025",
    measure=measure,
)
