"""How long clusters take to form, and how long they persist."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf
from tokenfield.flows.coarse import CoarseFlow

from ..claim import Claim, Evidence, at_least, at_most, close

ANGLES = (0.0, 1.3)  # angles of the two groups; alpha is the cosine between them
SPREAD = 0.05
C = 0.2


def start(seed: int = 0) -> tkf.Tokens:
    """Return two groups of four tokens on the circle."""
    rng = np.random.default_rng(seed)
    return tkf.circle_tokens(np.concatenate([angle + SPREAD * rng.uniform(-1, 1, 4) for angle in ANGLES]))


class Narrow(eqx.Module):
    """Event: both groups are narrower than a width."""

    width: jax.Array

    def __call__(self, state):
        x = state.x.reshape(2, 4, 2)
        return jnp.linalg.norm(x[:, :, None] - x[:, None], axis=-1).max() <= self.width


def width_time(beta: float, width: float) -> float:
    """Return the time at which both groups are narrower than a width."""
    model = tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN())
    rule = Narrow(jnp.asarray(width))
    run = tkf.simulate(model, start(), 400.0, stop_when=rule, save_at=2, rtol=1e-9, atol=1e-11, method="tsit5")
    return float(run.times[-1])


def centers() -> np.ndarray:
    """Return the mean directions of the two groups, close to where they collapse."""
    means = np.asarray(start().x).reshape(2, 4, 2).mean(axis=1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def log_speed(beta: float) -> float:
    """Return the logarithm of the largest speed of two point clusters at the centers, from the forces in rescaled time."""
    one = jnp.ones(())
    flow = CoarseFlow(jnp.array([0.5, 0.5]), jnp.ones(2, bool), beta * one, 0 * one, 0 * one, 0 * one, True, False)
    m, forces = flow.forces(jnp.asarray(centers()))
    return float(jnp.log(jnp.linalg.norm(forces, axis=1).max()) - m)


def measure(quick: bool) -> Evidence:
    alpha = float(centers()[0] @ centers()[1])
    betas = (20.0, 40.0, 60.0, 80.0) if quick else (20.0, 40.0, 60.0, 80.0, 100.0, 120.0)
    narrow = [width_time(beta, math.exp(-C * beta)) for beta in betas]
    fixed = [width_time(beta, 1e-3) for beta in betas]
    slope = np.polyfit(betas, narrow, 1)[0]
    checks = [
        close(f"T_1 to a width e^(-{C:g}β): slope in β, {C:g}", C, slope, rtol=0.1),
        at_most("T_1 to the width 0.001: largest over smallest", 1.5, max(fixed) / min(fixed)),
    ]
    logs, speeds = [], []
    long = (50.0, 100.0, 200.0, 400.0)
    for beta in long:
        model = tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN())
        run = tkf.simulate(model, start(), math.inf, method="coarsen", progress=False)
        logs.append(next(e.detail["log_time"] for e in reversed(run.events) if e.kind == "merge"))
        speeds.append(log_speed(beta))
    slope = np.polyfit(long, np.array(logs) + np.log(long), 1)[0]
    checks.append(close("slope of log(β T_2) against β, 1-α", 1 - alpha, slope, rtol=0.01))
    rate = -np.polyfit(long, speeds, 1)[0]
    checks.append(
        close(
            "two collapsed clusters: rate at which the log of their speed falls with β, 1-α",
            1 - alpha,
            rate,
            rtol=0.01,
        )
    )
    bound = min(
        log - (1 - (alpha + 2 * SPREAD)) * beta + math.log(8 / SPREAD) for log, beta in zip(logs, long, strict=True)
    )
    checks.append(at_least("smallest difference of log T_2 and log of the lower bound (ε/n) e^((1-α_ε)β)", 0.0, bound))
    return Evidence(tuple(checks), draw(betas, narrow, fixed, long, logs, alpha), CAPTION)


CAPTION = (
    "Two groups of four tokens on the circle, SA. Left: time to collapse to a width e^{-0.2β} (growing like β) and to a fixed "
    "width (not growing). Right: the wait, log(β T₂), against β, and a line of slope 1-α."
)


def draw(betas, narrow, fixed, long, logs, alpha):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(betas, narrow, "o-", color="#0072B2", label="width $e^{-0.2β}$")
    left.plot(betas, fixed, "s--", color="#D55E00", label="width 0.001")
    left.set(xlabel="β", ylabel="T₁", ylim=(0, None))
    left.legend(frameon=False)
    values = np.array(logs) + np.log(long)
    right.plot(long, values, "o", color="#0072B2")
    right.plot(long, values[0] + (1 - alpha) * (np.array(long) - long[0]), color="#707070", lw=1)
    right.set(xlabel="β", ylabel="log(β T₂)")
    return figure


CLAIM = Claim(
    id="metastable_times",
    section="Metastability",
    title="Clusters form in a time of order β and persist for a time of order e^{(1-α)β}",
    statement="Well-separated groups collapse to a width e^{-cβ} in a time that grows like β, and to a fixed width in a time that "
    "does not grow. They then persist until T₂, with log(β T₂) growing like (1-α)β, α the cosine between the clusters; the speed "
    "of collapsed clusters is exponentially small in β at the same rate.",
    source="Geshkovski, Koubbi, Polyanskiy, Rigollet 2024; Rigollet, The mean-field dynamics of Transformers, §5.1",
    measure=measure,
)
