"""Growth rate of each mode of the uniform measure, for every representation of the measure."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_most

KERNELS = {"SA": ("softmax", tkf.Softmax), "USA": ("unnormalized", tkf.Unnormalized)}
STATES = {
    "circle": lambda: tkf.CircleDensity.uniform(48),
    "2-sphere": lambda: tkf.SphereDensity.uniform(20),
    "zonal, d = 5": lambda: tkf.ZonalDensity.uniform(32, 5),
    "zonal, d = 8": lambda: tkf.ZonalDensity.uniform(32, 8),
}
BETAS, KAPPA, N, SIZE = (1.0, 5.0, 20.0), 3.0, 128, 1e-7
DEGREES = np.arange(1, 11)
BLUE, ORANGE = "#0072B2", "#D55E00"


def model(kernel: str, beta: float, kappa: float = np.inf) -> tkf.Transformer:
    noise = None if kappa == np.inf else tkf.SphereNoise(kappa)
    return tkf.Transformer(KERNELS[kernel][1](beta=beta), norm=tkf.PostLN(), noise=noise)


def theory(kernel: str, beta: float, d: int, kappa: float = np.inf) -> np.ndarray:
    """Return `k(k+d-2) (w_k/beta - 1/kappa)` for USA, with w_k/w_0 for SA."""
    rates = tkf.theory.growth_rates(beta, d, KERNELS[kernel][0], modes=DEGREES.tolist())
    return rates - DEGREES * (DEGREES + d - 2) / kappa


@eqx.filter_jit
def pushed(flow, y, directions):
    """Return the derivative of the velocity at y along each of the directions."""
    along = lambda v: jax.jvp(lambda z: flow.velocity(jnp.zeros(()), z), (y,), (v,))[1]  # noqa: E731
    return jax.vmap(along)(directions)


def eigenvalues(pushed: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the eigenvalues of directions that should be eigenvectors, and the relative residual."""
    a, b = (np.asarray(part).reshape(len(directions), -1) for part in (pushed, directions))
    rates = (a * b).sum(1) / (b * b).sum(1)
    return rates, float((np.abs(a - rates[:, None] * b).max(1) / np.abs(b).max(1)).max())


def of_density(uniform, kernel: str, beta: float, kappa: float = np.inf) -> tuple[np.ndarray, float]:
    """Return the rates of degrees 1 to 10, each along random harmonics of that degree, and their residual."""
    flow = segments(uniform, model(kernel, beta, kappa))[0].flow
    degree = np.asarray(uniform.harmonics.degree)
    noise = np.random.default_rng(0).standard_normal(degree.shape)
    directions = np.stack([np.where(degree == k, noise, 0.0) for k in DEGREES])
    return eigenvalues(pushed(flow, uniform.coefficients, jnp.asarray(directions)), directions)


def of_tokens(kernel: str, beta: float) -> tuple[np.ndarray, float]:
    """Return the same for n evenly spaced tokens on the circle, each displaced along it by `sin(k a + phase)`."""
    a = 2 * np.pi * np.arange(N) / N
    start = tkf.circle_tokens(a)
    flow = segments(start, model(kernel, beta))[0].flow
    y = flow.pack(start)
    directions = np.sin(np.outer(DEGREES, a) + DEGREES[:, None])[..., None] * np.stack([-np.sin(a), np.cos(a)], axis=1)
    return eigenvalues(pushed(flow, y, y._replace(theta=jnp.asarray(directions))).theta, directions)


def of_run(uniform, kernel: str, beta: float, kappa: float = np.inf) -> np.ndarray:
    """Return the rates over a run in which every degree from 1 to 10 starts with a small random amplitude."""
    degree = np.asarray(uniform.harmonics.degree)
    noise = SIZE * np.random.default_rng(0).standard_normal(degree.shape) * ((degree >= 1) & (degree <= DEGREES[-1]))
    start = uniform.with_coefficients(uniform.coefficients + noise)
    t1 = 1 / np.abs(theory(kernel, beta, uniform.d, kappa)).max()
    options = {"save_at": [0.0, t1], "rtol": 1e-14, "atol": 1e-13, "progress": False}
    run = tkf.simulate(model(kernel, beta, kappa), start, t1, **options)
    c = run.dataset["coefficients"].values
    size = np.array([np.sqrt((c[:, degree == k] ** 2).sum(axis=1)) for k in DEGREES])
    return np.log(size[:, 1] / size[:, 0]) / t1


def measure(quick: bool) -> Evidence:
    checks, shown = [], {}
    worst = lambda found, true: float(np.abs(found - true).max() / np.abs(true).max())  # noqa: E731
    every = [(name, kernel) for name in STATES for kernel in KERNELS]
    few = [("circle", "SA"), ("2-sphere", "USA")]
    for name, kernel in few if quick else every:
        uniform, errors, off = STATES[name](), [], []
        for beta in BETAS:
            for kappa in (np.inf, KAPPA):
                true = theory(kernel, beta, uniform.d, kappa)
                rates, mixed = of_density(uniform, kernel, beta, kappa)
                errors.append(worst(rates, true))
                off.append(mixed / np.abs(true).max())
                if kappa == np.inf:
                    shown[uniform.d, beta] = kernel, rates
        text = f"{name}, {kernel}: relative error of the rates of the density, β = 1, 5, 20, with and without noise"
        checks.append(at_most(text, 1e-10, max(errors)))
        checks.append(at_most(f"{name}, {kernel}: mixing of degrees (relative residual)", 1e-10, max(off)))
    for kernel in ["USA"] if quick else KERNELS:
        errors = []
        for beta in BETAS:
            rates, _ = of_tokens(kernel, beta)
            errors.append(worst(rates, theory(kernel, beta, 2)))
            shown["tokens", beta] = kernel, rates
        checks.append(
            at_most(
                f"{N} evenly spaced tokens, {kernel}: relative error of the rates, β = 1, 5, 20", 1e-10, max(errors)
            )
        )
    for name, kernel in [] if quick else every:
        uniform, errors = STATES[name](), []
        for beta in BETAS[1:]:
            for kappa in (np.inf, KAPPA):
                true = theory(kernel, beta, uniform.d, kappa)
                errors.append(worst(of_run(uniform, kernel, beta, kappa), true))
        checks.append(
            at_most(f"{name}, {kernel}: relative error of the rates over a run, amplitudes 1e-7", 5e-5, max(errors))
        )
    return Evidence(tuple(checks), draw(shown), CAPTION)


CAPTION = (
    "Growth rates of the modes of the uniform measure, divided by the largest rate: theory (lines), density (circles), 128 evenly "
    "spaced tokens on the circle (crosses)."
)


def draw(shown):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.3), layout="constrained")
    marks = (("black", "-"), (BLUE, "--"), (ORANGE, "-."))
    dimensions = sorted({d for d, _ in shown if d != "tokens"})
    for ax, d in zip(figure.subplots(1, len(dimensions), sharey=True), dimensions, strict=True):
        for beta, (color, line) in zip(BETAS, marks, strict=True):
            kernel, rates = shown[d, beta]
            true = theory(kernel, beta, d)
            ax.plot(DEGREES, true / true.max(), line, color=color, lw=1, label=f"β = {beta:g}")
            ax.plot(DEGREES, rates / true.max(), "o", ms=6, mfc="none", color=color)
            if d == 2:
                kernel, rates = shown["tokens", beta]
                ax.plot(DEGREES, rates / theory(kernel, beta, d).max(), "x", ms=4, color=color)
        ax.set(xlabel="mode k", title=f"d = {d}", ylim=(-0.04, 1.08), xticks=[2, 4, 6, 8, 10])
    figure.axes[0].set_ylabel("growth rate / largest")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    return figure


CLAIM = Claim(
    id="mode_growth",
    section="Metastability",
    title="Each mode of the uniform measure grows at its own rate, k(k+d-2) w_k/β",
    statement="Near the uniform measure on the sphere of R^d a perturbation of degree k grows at the rate k(k+d-2) w_k/β under "
    "USA and k(k+d-2) w_k/(β w_0) under SA, w_k = Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β); noise √(2/κ) dW subtracts k(k+d-2)/κ. "
    "Degrees do not mix. Densities on the circle, on the 2-sphere and around an axis in higher dimension have these "
    "rates, and so do evenly spaced tokens on the circle, up to a term of order I_{n-k}(β), here below rounding.",
    source="Bruno, Pasqualotto, Agazzi 2024 (Emergence of meta-stable clustering in mean-field transformer models); "
    "Rigollet, The mean-field dynamics of Transformers, §5 and §7",
    measure=measure,
)
