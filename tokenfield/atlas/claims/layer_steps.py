"""Layers with large steps differ from the flow: overshoot, period two, collapse of repelled tokens, blow-up of a Gaussian."""

import numpy as np

import tokenfield as tkf

from ...theory import critical_steps, gaussian_layers, gaussian_steps, period_two
from ..claim import Check, Claim, Evidence, close, equal
from ..fits import power

N, D = 3, 6


def ends(h: np.ndarray, beta: np.ndarray, layers: int) -> np.ndarray:
    """Return the ratio w of the two parts of three tokens at equal angles, after `layers` layers of a plain loop."""
    w = np.full(np.broadcast(h, beta).shape, 1.0)
    for _ in range(layers):
        other = np.exp(-beta * N / ((N - 1) * (1 + w * w)))
        w = w * (1 - h) / (1 - h * (1 - other) / (1 + (N - 1) * other))
        w = np.clip(np.abs(w), 0, 1e6)
    return w


def run(h: float, beta: float, depth: int) -> list[np.ndarray]:
    """Return the last three states of tokens from a random start."""
    model = tkf.Transformer(tkf.Softmax(beta, V=-1.0), norm=tkf.PostLN())
    traj = tkf.layers(model, tkf.uniform_sphere(N, D, seed=2), depth, h)
    return [np.asarray(traj.state(k).x) for k in (depth - 2, depth - 1, depth)]


def cosines(x: np.ndarray) -> np.ndarray:
    return (x @ x.T)[np.triu_indices(N, 1)]


def measure(quick: bool) -> Evidence:
    checks, depth, betas = [], 1000 if quick else 4000, (1.0, 2.0) if quick else (0.5, 1.0, 2.0, 4.0)
    for beta in betas:
        steps = critical_steps(beta, N)
        for h in (0.5, 0.97 * min(steps.unequal, steps.period_two)):
            found = cosines(run(h, beta, depth)[-1])
            checks.append(close(f"β = {beta:g}, h = {h:.3f}: cosines of the simplex", -0.5, found.max(), atol=1e-6))
        h = 0.2 * steps.period_two + 0.8 * steps.collapse
        before, between, after = run(h, beta, depth)
        rest = np.abs(after - before).max()
        checks.append(
            close(
                f"β = {beta:g}, h = {h:.3f}: cosine of period two",
                period_two(h, beta, N).cosine,
                cosines(after).mean(),
                atol=1e-9,
            )
        )
        checks.append(close(f"β = {beta:g}, h = {h:.3f}: change in two layers", 0.0, rest, atol=1e-9))
        checks.append(
            equal(f"β = {beta:g}, h = {h:.3f}: tokens move in each layer", True, np.abs(after - between).max() > 0.1)
        )
        before, between, after = run(2.2, beta, depth)
        checks.append(
            close(
                f"β = {beta:g}, h = 2.2: least cosine (all tokens at one point)", 1.0, cosines(after).min(), atol=1e-9
            )
        )
        checks.append(
            close(
                f"β = {beta:g}, h = 2.2: the point changes sign in each layer",
                0.0,
                np.abs(after + between).max(),
                atol=1e-9,
            )
        )
    return Evidence((*checks, *gaussians()), draw(120 if quick else 240), CAPTION)


def gaussians() -> list[Check]:
    """Check layers on a Gaussian in R^3: one that the flow contracts in two directions, A = -P, and one that blows up, A = P."""
    rng, checks = np.random.default_rng(1), []
    turn, root = np.linalg.qr(rng.standard_normal((3, 3)))[0], rng.standard_normal((3, 3))
    P, cov = turn @ np.diag([1.0, 0.5, 0.0]) @ turn.T, root @ root.T / 2
    start, largest = tkf.Gaussian(np.zeros(3), cov), gaussian_steps(-P, None, cov).blow_up
    repulsive, attractive = (tkf.Transformer(tkf.Softmax(A=A)) for A in (-P, P))
    limit, depths = tkf.theory.gaussian_limit(-P, None, cov), 1000 * 2.0 ** np.arange(5)
    for share in (0.3, 0.8):
        h, name = share * largest, f"Gaussian, step {share:g} × −2/b"
        end = tkf.layers(repulsive, start, 200, h).final.cov
        off = np.abs(np.asarray(end) - gaussian_layers(-P, None, cov, h, 200)).max()
        checks.append(close(f"{name}: covariance after 200 layers, from its eigenvalues", 0.0, off, atol=1e-10))
        far = [np.linalg.norm(gaussian_layers(-P, None, cov, h, int(k)) - limit) for k in depths]
        fit = power(depths, np.array(far))
        what = f"{name}: power of the number of layers in the distance from the flow's limit, {fit.interval}"
        checks.append(close(what, -1.0, fit.value, atol=max(fit.half, 0.01)))
    for share, blows_up in ((0.98, False), (1.02, True)):
        events = tkf.layers(repulsive, start, 400, share * largest).events
        checks.append(equal(f"Gaussian, step {share:g} × −2/b: blows up", blows_up, bool(events)))
    time = tkf.theory.gaussian_blowup_time(P, None, cov)
    events = tkf.layers(attractive, start, 2100, time / 2000).events
    return [
        *checks,
        close("Gaussian, A = P, h = t*/2000: time of overflow / t*", 1.0, events[0].time / time, atol=0.01),
    ]


CAPTION = (
    "Left: three repelled tokens (SA, V = −I, Post-LN) that start at equal angles, after 2000 layers with step h. Color: their "
    "cosine, from −1/2 (the simplex, limit of the flow) to 1. Solid: h = 2/(1+δ) and h = 2. Inside the dotted line the state "
    "of period two is unstable and the layers do not settle. Right of the dashed line tokens at unequal angles leave the simplex. "
    "At the top left tokens attend almost only to themselves and have not converged yet. Right: a Gaussian on the line with "
    "A = −β and variance 1, without a norm: number of layers until the standard deviation is 0.1. Dashed: h = 1/β, above which a "
    "layer overshoots; solid: h = 2/β, above which it blows up (white)."
)


def draw(size: int):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    ax, right = figure.subplots(1, 2, sharey=True)
    beta, h = np.geomspace(0.25, 8, size), np.linspace(0.4, 2.4, size)
    w = ends(h[None, :], beta[:, None], 2000)
    cosine = 1 - N / ((N - 1) * (1 + w * w))
    mesh = ax.pcolormesh(h, beta, cosine, cmap="viridis", vmin=-0.5, vmax=1, rasterized=True)
    figure.colorbar(mesh, ax=ax, label="cosine of two tokens", ticks=[-0.5, 0, 0.5, 1])
    steps = [critical_steps(each, N) for each in beta]
    first = [step.unequal if step.unequal < step.period_two else np.nan for step in steps]
    ax.plot([step.period_two for step in steps], beta, color="white")
    ax.plot(first, beta, color="white", ls="--", lw=1)
    ax.axvline(2.0, color="white", lw=1)
    for edge in unstable(beta):
        ax.plot(edge, beta, color="white", ls=":", lw=1.2)
    ax.set(xlabel="step h of a layer", ylabel="β", yscale="log", xlim=(h[0], h[-1]), ylim=(beta[0], beta[-1]))
    h = np.linspace(0.02, 2.4, 2 * size)
    mesh = right.pcolormesh(
        h, beta, layers_to_narrow(h[None, :], beta[:, None]), cmap="magma", norm="log", rasterized=True
    )
    figure.colorbar(mesh, ax=right, label="layers until σ = 0.1")
    right.plot(2 / beta, beta, color="black")
    right.plot(1 / beta, beta, color="white", ls="--", lw=1)
    right.set(xlabel="step h of a layer", ylabel="β", xlim=(h[0], h[-1]))
    right.tick_params(labelleft=True)
    ax.set_yticks([0.25, 0.5, 1, 2, 4, 8], labels=["0.25", "0.5", "1", "2", "4", "8"])
    ax.minorticks_off()
    right.minorticks_off()
    return figure


def layers_to_narrow(h: np.ndarray, beta: np.ndarray, most: int = 20_000) -> np.ndarray:
    """Return the number of layers until `σ <- σ |1 - h β σ²|` falls from 1 to 0.1; NaN where it does not."""
    x, found = np.sqrt(h * beta), np.full(np.broadcast(h, beta).shape, np.nan)
    goal = 0.1 * x
    for k in range(1, most):
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.abs(x * (1 - x * x))
        found[(x < goal) & np.isnan(found)] = k
        if not (np.isnan(found) & (x < 10)).any():
            break
    return found


def unstable(beta: np.ndarray) -> np.ndarray:
    """Return for each beta the first and last step at which the period-two state is unstable; NaN where it is stable."""
    edges = np.full((2, len(beta)), np.nan)
    for index, each in enumerate(beta):
        steps = np.linspace(critical_steps(each, N).period_two, 2, 402)[1:-1]
        lost = steps[[period_two(step, each, N).multiplier > 1 for step in steps]]
        if lost.size:
            edges[:, index] = lost[[0, -1]]
    return edges


CLAIM = Claim(
    id="layer_steps",
    section="Layers and flow",
    title="What changes from continuous to discrete time",
    statement="Layers with V = −I and Post-LN spread n tokens to a simplex, as the flow does, if the step h is small. Let δ be the "
    "softmax weight of a token on itself minus its weight c on another one. The simplex is stable up to h = 2/(1+δ) for equal "
    "angles, and up to h = 2/(2δ+ck) for others, k = m(n−2+mβ) or 2mβ, m = n/(n−1). Between 2/(1+δ) and 2 there is a state of "
    "period two with cosine 1 − log((1+(n−1)s)/(1−s))/β, s = 2/h − 1. Above h = 2 repelled tokens meet at one point, which "
    "changes sign in each layer. Layers on a Gaussian (A symmetric, V = v) map each eigenvalue b of vΣA to b(1+hb)². If no b "
    "is positive, they converge to the limit of the flow for every h up to h = −2/b, b the least one; above it they blow up.",
    source="a question of the talks (what changes from discrete to continuous time?); derived here",
    measure=measure,
)
