"""Two printed estimates of how attention depends on its tokens: they fail; corrected ones hold."""

import jax.numpy as jnp
import numpy as np

import tokenfield as tkf
from tokenfield.lipschitz import data_bounds, local

from ..claim import Claim, Evidence, at_most, close

ANGLE, SQUARE = 0.1, 4.0  # angle of the moving atom to -a, on either side; R^2 = |A|R^2
SHEAR, PAIR = np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])


def value(A, x, y, weights) -> np.ndarray:
    """Return `Gamma_mu(x)` with V = I, mu having atoms at y."""
    return np.asarray(tkf.Softmax(A=A)(jnp.zeros(()), jnp.asarray(x, float)[None], tkf.Tokens(y, weights))[0])


def ratio(A, x, y, z, weights, p: int) -> float:
    """Return `|Gamma_mu(x) - Gamma_nu(x)| / W_p`, mu having atoms at y and nu at z."""
    distance = tkf.wasserstein(tkf.Tokens(y, weights), tkf.Tokens(z, weights), p=p)
    return float(np.linalg.norm(value(A, x, y, weights) - value(A, x, z, weights)) / distance)


def one_atom_moves(n: int, p: int) -> tuple[float, float]:
    """Return the ratio when one atom moves, and its exact value `n^{1/p} p_1`.

    A = -I, x and n-1 atoms are at a, |a| = R. One atom near -a moves from one side to the other, with the same score at x;
    `p_1 = 1 / (1 + (n-1) e^{-R^2 (1 + cos ANGLE)})`.
    """
    R, (c, s) = np.sqrt(SQUARE), (np.cos(ANGLE), np.sin(ANGLE))
    y, z = (R * np.array([[-c, sign * s], [1.0, 0.0]]) for sign in (1, -1))
    weight = 1 / (1 + (n - 1) * np.exp(-SQUARE * (1 + c)))
    return ratio(-np.eye(2), y[1], y, z, np.array([1 / n, 1 - 1 / n]), p), n ** (1 / p) * weight


def random_pairs(count: int) -> float:
    """Return the largest `|Gamma_mu(x) - Gamma_nu(x)| / W_2` over `sqrt(n) (1 + 2|A|R^2)`."""
    worst = 0.0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        A, x = rng.standard_normal((2, 2)), rng.uniform(-1, 1, 2)
        y = rng.uniform(-1, 1, (16, 2))
        z = np.clip(
            y + 10 ** rng.uniform(-4, 0) * rng.standard_normal((16, 2)) * (rng.uniform(size=(16, 1)) < 0.3), -1, 1
        )
        z[0] = z[0] if (z != y).any() else -z[0]
        worst = max(worst, ratio(A, x, y, z, np.full(16, 1 / 16), 2) / (4 * (1 + 4 * np.linalg.norm(A, 2))))  # R^2 = 2
    return worst


def measure(quick: bool) -> Evidence:
    lengths = np.array([4, 16, 64, 256] if quick else [4, 8, 16, 32, 64, 128, 256, 512])
    found = {p: np.array([one_atom_moves(n, p) for n in lengths]) for p in (1, 2)}
    allowed = {p: lengths ** (1 / p) * (1 + 2 * SQUARE) for p in (1, 2)}
    pair, shear = local(tkf.Softmax(A=SHEAR), PAIR).constant, data_bounds(tkf.Softmax(A=SHEAR), PAIR)
    printed = np.sqrt((np.linalg.norm(PAIR @ SHEAR.T, axis=1).max() * 2) ** 2 * 3 + 2)
    error = max(np.abs(got / exact - 1).max() for got, exact in (rows.T for rows in found.values()))
    checks = (
        at_most("one atom moves, p = 1 and 2: relative error of |ΔΓ|/W_p = n^{1/p}p₁", 1e-9, error),
        at_most(
            "one atom moves: largest |ΔΓ|/W_p over n^{1/p}|V|(1 + 2|A|R²)",
            1.0,
            max((found[p][:, 0] / allowed[p]).max() for p in (1, 2)),
        ),
        at_most(
            "random pairs of clouds: largest |ΔΓ|/W₂ over √n|V|(1 + 2|A|R²)", 1.0, random_pairs(30 if quick else 500)
        ),
        at_most(
            "as printed, c(x, R) ≤ |A|R² = 4 for atoms: |ΔΓ|/W₂, n = 256",
            SQUARE,
            found[2][lengths == 256, 0][0],
            printed=True,
        ),
        close("A = [[0, 0], [10, 0]], tokens (0, ±1): local constant 5 + √26", 5 + np.sqrt(26), pair, rtol=1e-9),
        at_most("the same: |V|(√n(1 + aD) + bD), D the diameter", shear.data, pair),
        at_most("the same: |V|(√c(1 + aD/2) + bD/4)", shear.sharp_data, pair),
        at_most("the same, as published: |V|(max|Ax|²D²(n+1) + n)^{1/2}", printed, pair, printed=True),
    )
    return Evidence(checks, draw(lengths, found, allowed), CAPTION)


CAPTION = (
    "A = −I, |A|R² = 4: x and all atoms but one are at a, |a| = R; the other atom moves near −a, where x attends. Dotted: the "
    "printed bound; dashed: the corrected bounds."
)


def draw(lengths, found, allowed):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="number of atoms n", xscale="log", yscale="log")
    axes.set_ylabel(r"$|\Gamma_\mu(x)-\Gamma_\nu(x)|\,/\,W_p(\mu,\nu)$")
    for p, root, color in ((1, "n", "#D55E00"), (2, r"\sqrt{n}", "#0072B2")):
        axes.plot(lengths, found[p][:, 1], color=color, lw=1)
        axes.plot(lengths, found[p][:, 0], "o", color=color, ms=4, label=f"p = {p}")
        axes.plot(lengths, allowed[p], "--", color=color, lw=1, label=rf"${root}(1+2|A|R^2)$")
    axes.axhline(SQUARE, color="#009E73", ls=":", lw=2, label="printed, $|A|R^2$")
    axes.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="lipschitz_printed",
    section="Lipschitz constants",
    title="Estimates for n atoms need a power of n",
    statement="For μ, ν with n equal atoms in the ball of radius R, |Γ_μ(x) − Γ_ν(x)| ≤ n^{1/p}|V|(1 + 2|A|R²) W_p(μ, ν) if "
    "|x| ≤ R. One moving atom shows that the power of n is needed while n is below e^{2|A|R²}; the printed bound is |A|R² "
    "alone. At given tokens the local constant is at most |V|(√n(1 + aD) + bD), a = max|Ax_i|, b = max|Aᵀ(x_i − x_j)|, D "
    "the diameter; the published form has max|Ax_i| alone, and fails. For W₁ and e^{|A|R²}, see the claim on how fast two "
    "measures can separate.",
    source="Castin, handout on the mean-field dynamics of Transformers (2025), estimate 3; code published with Castin, Ablin, "
    "Peyré, How smooth is attention?, 2024; corrected here",
    measure=measure,
)
