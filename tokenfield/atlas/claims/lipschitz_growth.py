"""How the local Lipschitz constant of attention grows with the number of tokens, on the worst data and on random data."""

import numpy as np
from scipy.integrate import quad

import tokenfield as tkf
from tokenfield.lipschitz import Growth, bounds, data_model, growth

from ..claim import OPEN, Check, Claim, Evidence, at_most, close

D, R = 8, 3.0
KINDS = {
    "sphere": "uniform on the sphere",
    "gaussian": "Gaussian",
    "low_rank": "Gaussian of rank 2",
    "clustered": "4 clusters",
    "correlated": "correlated sequence",
    "heavy_tailed": "heavy-tailed",
}
QUICK = ("sphere", "gaussian")
BETAS = {"β = 1/√d": D**-0.5, "β = 1": 1.0}


def adversary(n: int, seed: int) -> np.ndarray:
    """Return the worst tokens for A = -I: token 1 at -R u, the others at R u."""
    x = np.zeros((n, D))
    x[:, 0] = R
    x[0, 0] = -R
    return x


def sphere_limit(beta: float) -> float:
    """Return the constant for infinitely many tokens uniform on the sphere of radius `r = sqrt(d)`, A = beta I, V = I.

    `t = <x,y>/r^2` has density proportional to `e^{beta r^2 t} (1 - t^2)^{(d-3)/2}` and moments `m_k = E t^k`. The fields
    `c` and `<c,x> x/r^2`, c a constant vector, span an invariant subspace of the derivative; this is its norm there.
    """
    k, (m1, m2, m3) = beta * D, moments(beta * D)
    across, along = k * (1 - m2) / (D - 1), k * (m2 - m1**2)  # beta times the covariance under attention
    s, t = (1 - m2) / (D - 1), (m1 - m3) / (D - 1)
    matrix = np.array([[1 + across, s + k * t], [along - across, m2 - s + k * (m3 - t - m1 * m2) + along]])
    root = np.linalg.cholesky([[1, 1 / D], [1 / D, 1 / D]]).T  # inner products of the two fields
    return float(np.linalg.norm(root @ matrix @ np.linalg.inv(root), 2))


def moments(k: float) -> np.ndarray:
    density = lambda t, power: t**power * np.exp(k * (t - 1)) * (1 - t * t) ** ((D - 3) / 2)  # noqa: E731
    found = np.array([quad(density, -1, 1, args=(power,), epsabs=1e-14)[0] for power in range(4)])
    return found[1:] / found[0]


def typical(name: str, found: Growth) -> Check:
    """Return an open check: no theory predicts the power, so only the quality of the measurement is checked."""
    low, high = found.law.interval
    return Check(name, OPEN, f"{found.law.power:.3f}", f"95 %: {low:.2f} … {high:.2f}", found.converged)


def measure(quick: bool) -> Evidence:
    lengths = (64, 256) if quick else (16, 64, 256, 1024)
    repeats = 3 if quick else 6
    adversarial = growth(tkf.Softmax(beta=-1.0), adversary, lengths, repeats=1)
    proved = [bounds(-1.0, None, R, n) for n in lengths]
    top, low = (adversarial.constants[:, 0] / [getattr(b, name) for b in proved] for name in ("sharp_upper", "lower"))
    random = {
        label: {
            kind: growth(tkf.Softmax(beta=beta), data_model(kind, D), lengths, repeats)
            for kind in (QUICK if quick and beta < 1 else KINDS)
        }
        for label, beta in BETAS.items()
    }
    checks = [
        close("adversarial tokens: fitted power of n", 0.5, adversarial.law.power, atol=0.02),
        at_most("adversarial tokens: largest constant / upper bound", 1.0, top.max()),
        at_most("adversarial tokens: largest lower bound / constant", 1.0, (1 / low).max()),
    ]
    for label, beta in list(BETAS.items())[: 1 if quick else 2]:  # at beta = 1 short sequences are far from the limit
        # The constant is that of the mean field plus a term of order n^{-1/2}, which two lengths in the ratio 1:4 cancel.
        near, far = random[label]["sphere"].constants[-2:].mean(1)
        checks.append(close(f"{label}, sphere: constant for n → ∞", sphere_limit(beta), 2 * far - near, rtol=0.05))
    for label, found in random.items():
        checks += [typical(f"{label}, {KINDS[kind]}: fitted power of n", each) for kind, each in found.items()]
    return Evidence(tuple(checks), draw(adversarial, proved, random), CAPTION)


CAPTION = (
    "Left: A = −I, R = 3, the explicit adversarial tokens (dots) between the bounds. Right: A = I, V = I, d = 8, random "
    "tokens with coordinates of variance 1: geometric means over samples, and fitted powers; dashed, the slope of the "
    "n^{1/4} reported for real text."
)


def draw(adversarial, proved, random):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = adversarial.lengths
    left.plot(n, [b.sharp_upper for b in proved], "--", color="black", lw=1, label="upper bound")
    left.plot(n, [b.lower for b in proved], color="black", lw=1, label="lower bound")
    left.plot(
        n,
        adversarial.constants[:, 0],
        "o",
        ms=4,
        color="#D55E00",
        label=f"adversarial, $n^{{{adversarial.law.power:.2f}}}$",
    )
    colors = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    for (kind, found), color in zip(random["β = 1"].items(), colors, strict=True):
        label = f"{KINDS[kind]}, $n^{{{found.law.power:.2f}}}$"
        right.plot(n, np.exp(np.log(found.constants).mean(1)), "o", ms=4, color=color, label=label)
        right.plot(n, found.law(n), color=color, lw=1)
    right.plot(n, 1.2 * (n / n[0]) ** 0.25, "--", color="black", lw=1, label="$n^{1/4}$")
    for ax, title in ((left, "worst case"), (right, "random tokens, β = 1")):
        ax.set(xscale="log", yscale="log", xlabel="number of tokens n", title=title, xticks=n)
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.legend(frameon=False, fontsize=7)
    left.set_ylabel("local Lipschitz constant")
    return figure


CLAIM = Claim(
    id="lipschitz_growth",
    section="Lipschitz constants",
    title="Growth with the number of tokens: worst and typical",
    statement="On the worst tokens in a ball the local Lipschitz constant of softmax attention grows like √n (as long as n is "
    "well below e^{R²g}). For real text, growth of about n^{1/4} was reported; which statistical model explains it is open. "
    "Six random models are measured here. For tokens uniform on a sphere the constant tends to the finite constant of the mean "
    "field, so its power is eventually 0. The powers fitted for the other models depend on β as well as on the data. At d = 8 they "
    "are about 0.1 at β = 1/√d and 0.2 to 0.3 at β = 1 both for Gaussian tokens and for correlated sequences, larger in a plane, "
    "and above 1/2 with heavy tails, where the radius grows too. So a power near 1/4 does not single out a model, and over such "
    "lengths a fit cannot distinguish a power law from slower growth.",
    source="Castin, Ablin, Peyré, How smooth is attention?, 2024; Castin, Mean-field Transformer dynamics (talk, Hamburg "
    "2025), part IV; the limit on the sphere derived here",
    measure=measure,
)
