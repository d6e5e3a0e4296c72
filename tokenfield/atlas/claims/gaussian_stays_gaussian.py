"""Gaussian data stays Gaussian: clouds of tokens against the equations for the mean and the covariance."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most

A, V = np.array([[0.6, 0.3], [-0.2, -0.5]]), np.array([[1.0, 0.3], [0.0, 0.8]])
START = tkf.Gaussian([0.3, -0.2], [[0.6, 0.2], [0.2, 0.4]])
T = 0.8  # tokens take one step of a fifth-order method, whose error for the Gaussian is 1e-4
KERNELS = {
    "softmax": tkf.Softmax(A=A, V=V),
    "L2": tkf.L2(Q=A, K=np.eye(2) / 2, V=V),
    "Sinkhorn": tkf.Sinkhorn(A=A, V=V, tolerance=1e-6),
}


def predicted() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the mean and the covariance of the Gaussian, as five numbers, at time T for each kernel and at time 0."""
    numbers = lambda mean, cov: np.append(mean, np.asarray(cov)[np.triu_indices(2)])  # noqa: E731
    heads, ends = list(KERNELS.values()), {}
    for name, on in zip(KERNELS, np.eye(3), strict=True):  # one head on, the others off: one compilation
        model = tkf.Transformer(tkf.MultiHead(heads, on))
        final = tkf.simulate(model, START, T, save_at=[T], rtol=1e-10, atol=1e-12, progress=False).final
        ends[name] = numbers(final.mean, final.cov)
    return ends, numbers(START.mean, START.cov)


def cloud(attention, n: int, seed: int) -> np.ndarray:
    """Return n tokens (n, 2) at time T that start as independent samples of the Gaussian."""
    model = tkf.Transformer(attention)
    return np.asarray(tkf.simulate(model, START.sample(n, seed), T, save_at=[T], dt=T, progress=False).final.x)


def moments(x: np.ndarray) -> np.ndarray:
    """Return the mean and the covariance of tokens, as the same five numbers."""
    return np.append(x.mean(axis=0), np.cov(x.T)[np.triu_indices(2)])


def shape_scores(x: np.ndarray) -> float:
    """Return the largest |skewness| or |excess kurtosis| of 12 projections, in standard errors of a Gaussian sample."""
    angles = np.pi * np.arange(12) / 12
    y = (x - x.mean(axis=0)) @ np.stack([np.cos(angles), np.sin(angles)])
    y /= y.std(axis=0)
    n = len(x)
    return max(np.abs((y**3).mean(0)).max() / np.sqrt(6 / n), np.abs((y**4).mean(0) - 3).max() / np.sqrt(24 / n))


def measure(quick: bool) -> Evidence:
    checks, shown, (ends, start) = [], {}, predicted()
    for name, attention in KERNELS.items():
        size, clouds = (512, 8) if name == "Sinkhorn" else (1000, 8) if quick else (2000, 12)
        every = [cloud(attention, size, seed) for seed in range(clouds)]
        spread, exact = np.std([moments(x) for x in every], axis=0, ddof=1), ends[name]
        if quick:  # pool all clouds
            n, found = size * clouds, np.mean([moments(x) for x in every], axis=0)
            about = np.concatenate([x - x.mean(axis=0) for x in every])
        else:
            n = 2048 if name == "Sinkhorn" else 20_000
            big = cloud(attention, n, seed=100)
            found, about = moments(big), big - big.mean(axis=0)
        error, shown[name] = spread * np.sqrt(size / n), (about, exact)
        in_errors = lambda difference, error=error: float((np.abs(difference) / error).max())  # noqa: E731
        checks += [
            at_most(f"{name}, {n} tokens: worst moment, in standard errors", 4.0, in_errors(found - exact)),
            at_least(f"{name}: largest change since t = 0, in standard errors", 8.0, in_errors(exact - start)),
            at_most(f"{name}: skewness, kurtosis of 12 projections, in standard errors", 4.5, shape_scores(about)),
        ]
    caption = (
        f"Tokens at t = {T}, minus their mean. Ellipses contain 39 % and 86 % of the predicted Gaussian; dotted: t = 0."
    )
    return Evidence(tuple(checks), draw(shown), caption)


def draw(shown):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.1), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for axes, (name, (x, exact)) in zip(figure.subplots(1, 3, sharex=True, sharey=True), shown.items(), strict=True):
        cov = np.array([[exact[2], exact[3]], [exact[3], exact[4]]])
        axes.plot(*x[:1500].T, ".", color="#56B4E9", ms=1.5)
        for radius in (1, 2):
            axes.plot(*(radius * np.linalg.cholesky(np.asarray(START.cov)) @ circle), ":", color="black", lw=0.8)
            axes.plot(*(radius * np.linalg.cholesky(cov) @ circle), color="#D55E00", lw=1.4)
        axes.set_title(name, loc="left", fontsize=10)
        axes.set(aspect="equal", xlabel="$x_1$", xlim=(-4, 4), ylim=(-2.4, 2.4))
    figure.axes[0].set_ylabel("$x_2$")
    return figure


CLAIM = Claim(
    id="gaussian_stays_gaussian",
    section="Gaussian data",
    title="Gaussian data stays Gaussian",
    statement="The softmax, L2 and Sinkhorn attention maps of a Gaussian measure are affine, so the free flow keeps it "
    "Gaussian, and its mean and covariance obey ordinary differential equations. Tokens sampled from the Gaussian "
    "follow them to within sampling error (before a blow-up, and while ΣA is small: finite clouds never blow up).",
    source="Castin, Ablin, Carrillo, Peyré, A unified perspective on the dynamics of deep Transformers, 2025; Castin, "
    "Mean-field Transformer dynamics (talk, Hamburg 2025), part III",
    measure=measure,
)
