"""How fast two measures can separate under attention: the exponent in R² is sharp, and depends on p."""

import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

N, D, T, TIMES = 24, 2, 0.5, np.linspace(0, 1, 9)


def gamma_bound(a, v, R):
    """Return `|Gamma_mu(y) - Gamma_nu(y)| <= v (1 + 2aR^2) e^{2aR^2} W_1(mu, nu)` in the ball of radius R."""
    return v * (1 + 2 * a * R**2) * np.exp(2 * a * R**2)


def exponent(a, v, R0, t):
    """Return `∫_0^t Lip`, `Lip = v a R^2 + gamma_bound`, `R(s) = R_0 e^{sv}`: the allowed `log(W(t)/W(0))`."""
    s = np.linspace(0, 1, 2001) * t[:, None]
    R = R0 * np.exp(s * v)
    return np.trapezoid(v * a * R**2 + gamma_bound(a, v, R), s, axis=-1)


def flow(A, V, x, weights=None, t1=T) -> np.ndarray:
    model, start, times = tkf.Transformer(tkf.Softmax(A=A, V=V)), tkf.Tokens(x, weights), TIMES * t1
    return tkf.simulate(model, start, t1, save_at=times, rtol=1e-12, atol=1e-14, progress=False).dataset["x"].values


def two_atoms(R: float, share: float, t1: float = 0.0) -> float:
    """Return `|ΔGamma(a)| / W_1` (or the growth of W_1 up to t1) for `(1-share) δ_a + share δ_-a` against `δ_a`.

    Here |a| = R, A = -I, V = I.
    """
    x, w = np.tile([R, 0.0], (N, 1)), np.full(N, (1 - share) / (N - 1))
    x[0], w[0] = -x[0], share
    attention = tkf.Softmax(A=-np.eye(D))
    moved = flow(-np.eye(D), np.eye(D), x, w, t1)[-1] if t1 else attention.of_itself(jnp.zeros(()), tkf.Tokens(x, w))
    lengths = np.linalg.norm(moved - np.exp(t1) * x[1], axis=-1) / (2 * R * share)
    return float(w @ lengths if t1 else lengths[1])


def measure(quick: bool) -> Evidence:
    used, R = [], np.append(0.05, np.sqrt(np.linspace(0.5, 9, 18)))
    for seed in range(8 if quick else 100):
        rng = np.random.default_rng(seed)
        A, V = 10 ** rng.uniform(-3, 0) * rng.standard_normal((D, D)), rng.standard_normal((D, D))
        x = rng.uniform(-0.5, 0.5, (N, D))
        y = x + 10 ** rng.uniform(-4, -1) * (np.linalg.svd(V)[2][0] + 0.1 * rng.standard_normal((N, D)))
        clouds = (map(tkf.Tokens, flow(A, V, start)) for start in (x, y))
        distances = np.array(list(map(tkf.wasserstein, *clouds)))
        sizes = np.linalg.norm(A, 2), np.linalg.norm(V, 2), np.linalg.norm([*x, *y], axis=1).max()
        used.append((np.log(distances[1:] / distances[0]) / exponent(*sizes, T * TIMES[1:])).max())
    p1 = np.array([two_atoms(r, 1e-6 * np.exp(-2 * r**2)) for r in R])
    worst = 1 / np.maximum(np.expm1(2 * R**2), 1.001)  # the share that maximizes the ratio for W_2
    p2 = np.array([two_atoms(r, share) * share**0.5 for r, share in zip(R, worst, strict=True)])
    slope, growth = np.polyfit(R[8:] ** 2, np.log(p1[8:] / R[8:] ** 2), 1)[0], two_atoms(3.0, 1e-12, t1=1e-3)
    checks = (
        at_most("random pairs of clouds: largest log(W₂(t)/W₂(0)) / ∫Lip", 1.0, max(used)),
        at_most("two atoms, .05 ≤ R ≤ 3: largest |ΔΓ| / W₁ over its bound", 1.0, (p1 / gamma_bound(1, 1, R)).max()),
        close("two atoms, R = 3, small share: |ΔΓ| / W₁ = E = e^{2|A|R²}", np.exp(18), p1[-1], rtol=1e-5),
        close("two atoms, R = 3, worst share: |ΔΓ| / W₂ = E/2√(E−1)", np.exp(9) / 2, p2[-1], rtol=1e-7),
        at_most("as printed, |ΔΓ| ≤ cR²e^{|A|R²}W₁: slope of log(|ΔΓ|/R²W₁) in |A|R²", 1.0, slope, printed=True),
        at_most("as printed, C ∝ e^{tR(t)²}: W₁(t)/W₁(0), R = 3, t = .001", 1e3 * np.exp(9e-3), growth, printed=True),
    )
    return Evidence(checks, draw(R**2, p1, p2), "Two atoms at ±a, |a| = R, A = −I, V = I, against one atom at a.")


def draw(x, p1, p2):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="$|A| R^2$", ylabel=r"$|\Gamma_\mu-\Gamma_\nu|(a) / W_p(\mu, \nu)$", yscale="log")
    axes.plot(x, gamma_bound(1, 1, np.sqrt(x)), "--", color="black", lw=1, label=r"bound, $(1+2|A|R^2)\,e^{2|A|R^2}$")
    axes.plot(x, p1, "o", color="#D55E00", ms=4, label="$p = 1$, a small share at $-a$")
    axes.plot(x, p2, "s", color="#0072B2", ms=4, label="$p = 2$, the worst share at $-a$")
    axes.plot(x, np.exp(x), ":", color="#009E73", lw=2, label=r"$e^{|A|R^2}$")
    axes.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="stability",
    section="Well-posedness and stability",
    title="How fast two measures can separate",
    statement="In the ball of radius R, |Γ_μ(y) − Γ_ν(y)| ≤ |V|(1 + 2|A|R²)e^{2|A|R²} W₁(μ, ν) and |DΓ| ≤ |V||A|R², "
    "so W_p grows by at most exp ∫ Lip, Lip their sum at R(t) = R₀e^{t|V|}. The exponent is sharp for p = 1; for p = "
    "2 two atoms reach e^{|A|R²}/2. The talks print e^{|A|R²}, and e^{tR(t)²} for the flow, for every p: wrong for p "
    "= 1.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), parts II and IV, on Castin, Ablin, Carrillo, Peyré 2025 "
    "and How smooth is attention?, 2024; constants derived here",
    measure=measure,
)
