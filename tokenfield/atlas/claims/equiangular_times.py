"""Equal angles stay equal: n tokens obey one scalar equation."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

N, RHO1 = 32, 0.999
TIGHT = {"rtol": 1e-11, "atol": 1e-13, "progress": False}
COLORS = {1.0: "#0072B2", 4.0: "#009E73", 9.0: "#D55E00"}


def speed(rho, n: int, beta: float):
    """Return `rho' = 2 e^{b rho} (1-rho) ((n-1)rho + 1) / (e^b + (n-1) e^{b rho})`, divided through by `e^{b rho}`."""
    return 2 * (1 - rho) * ((n - 1) * rho + 1) / (np.exp(beta * (1 - rho)) + n - 1)


def time_to(rho1: float, beta: float) -> float:
    """Return the time from orthogonal tokens to cosine rho1, by quadrature of `d rho / rho'`."""
    from scipy.integrate import quad

    return quad(lambda rho: 1 / speed(rho, N, beta), 0, rho1, epsabs=0, epsrel=1e-11, limit=200)[0]


def scalar(t1: float, n: int, beta: float, growing: bool) -> tuple[float, float]:
    """Return cosine and radius at t1 under Post-LN, or Pre-LN if `growing` (`rho' / r`, `r' = <theta, A>`), by SciPy."""
    from scipy.integrate import solve_ivp

    def field(t, y):
        rho, r = y
        near = np.exp(beta * (1 - rho))
        return [speed(rho, n, beta) / r, (near + (n - 1) * rho) / (near + n - 1) if growing else 0.0]

    return tuple(solve_ivp(field, (0, t1), [0.0, 1.0], "DOP853", rtol=1e-12, atol=1e-13).y[:, -1])


def measure(quick: bool) -> Evidence:
    checks, curves = [], {}
    start = tkf.equiangular_tokens(rho=0.0, n=N)
    aligned = tkf.order_above(np.sqrt((1 + (N - 1) * RHO1) / N))  # |mean|^2 = (1 + (n-1) rho)/n
    for beta in COLORS:
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        exact = time_to(RHO1, beta)
        times = np.append(0.0, np.geomspace(0.05, 0.97 * exact, 24))
        run = tkf.simulate(model, start, 2 * exact, save_at=times, stop_when=aligned, **TIGHT)
        checks.append(close(f"SA, n = 32, β = {beta:g}: time to cosine 0.999", exact, run.times[-1], rtol=1e-7))
        x = run.dataset["x"].values
        cosines = (x @ np.swapaxes(x, 1, 2))[:, *np.triu_indices(N, 1)]
        curves[beta] = run.times, cosines.mean(axis=1)
        what = f"β = {beta:g}: largest difference of two cosines at any time"
        checks.append(at_most(what, 1e-10, np.ptp(cosines, axis=1).max()))
    for norm, name in ((tkf.PostLN(), "Post-LN"), (tkf.PreLN(), "Pre-LN")):
        model = tkf.Transformer(tkf.Softmax(beta=2.0), norm=norm)
        end = tkf.simulate(model, tkf.equiangular_tokens(rho=0.0, n=6), 3.0, save_at=2, **TIGHT).final
        rho, r = scalar(3.0, 6, 2.0, growing=name == "Pre-LN")
        checks.append(close(f"{name}, n = 6, β = 2, t = 3: cosine", rho, tkf.mean_cosine(end), atol=1e-9))
    checks.append(close("Pre-LN, the same: radius", r, float(np.linalg.norm(end.x[0])), atol=1e-9))
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = "Common cosine of 32 tokens that start orthogonal, SA: scalar equation (lines), all tokens in R^32 (dots)."


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    for beta, (times, cosines) in curves.items():
        rho = np.concatenate([np.geomspace(1e-4, 0.1, 40), np.linspace(0.11, RHO1, 60)])
        ax.plot([time_to(value, beta) for value in rho], rho, color=COLORS[beta])
        ax.plot(times[1:], cosines[1:], "o", ms=4, color=COLORS[beta], label=f"β = {beta:g}")
    ax.set(xscale="log", xlabel="time t", ylabel="cosine ρ", xlim=(0.05, 300))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="equiangular_times",
    section="Equiangular model",
    title="Equal angles stay equal and obey one equation",
    statement="If all cosines between n tokens are equal they stay equal, and the common cosine obeys one scalar equation: "
    "under SA, ρ' = 2 e^{βρ}(1-ρ)((n-1)ρ+1)/(e^β+(n-1)e^{βρ}), and under Pre-LN the same divided by the radius r, "
    "r' = <θ, A>. Simulations of all tokens give the same times and values.",
    source="Rigollet, The mean-field dynamics of Transformers, §6.1–6.2; Geshkovski, Letrouit, Polyanskiy, Rigollet 2025; "
    "Karagodin, Ge, Polyanskiy, Rigollet 2025",
    measure=measure,
)
