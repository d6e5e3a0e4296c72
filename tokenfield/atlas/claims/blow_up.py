"""Three kernels blow up in finite time in R^d, at computable times; a layer norm prevents it."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, close, equal

N, D, T, SPEED = 6, 2, 10.0, 1.5  # V = SPEED * I
LOCAL = {"unnormalized": tkf.Unnormalized, "linear": tkf.Linear, "ReLU": tkf.ReLU}
GLOBAL = {"softmax": tkf.Softmax, "L2": lambda A, V: tkf.L2(Q=A, K=np.eye(D), V=V), "sigmoid": tkf.Sigmoid}
A = np.array([[1.2, 0.3], [0.3, 0.7]])
PLACE = np.tile(np.linalg.eigh(A)[1][:, 1], (N, 1))  # all tokens at the leading eigenvector, of length 1
CLOUD = np.random.default_rng(0).standard_normal((N, D))


def run(attention, x: np.ndarray, norm=None, t1: float = T) -> tuple[float, tkf.Trajectory]:
    """Return the time of blow-up (infinite if there is none before t1) and the run."""
    model, times = tkf.Transformer(attention, norm), np.append(np.linspace(0, 0.4, 401), t1)
    done = tkf.simulate(model, tkf.Tokens(x), t1, save_at=times, rtol=1e-11, atol=1e-13, progress=False)
    return next((event.time for event in done.events if event.kind == "blow_up"), np.inf), done


def only(name: str, kernels: dict) -> tkf.MultiHead:
    """Return several heads with all but one switched off, so that one compiled loop serves all kernels."""
    return tkf.MultiHead([head(A=A, V=SPEED) for head in kernels.values()], [float(name == each) for each in kernels])


def linear_time(x: np.ndarray) -> float:
    """Return the blow-up time of linear attention: `M' = 2 v M A M`, so `M^{-1} = M_0^{-1} - 2 v t A`, M the second moments.

    The same holds for ReLU attention if all scores are >= 0.
    """
    return 1 / (2 * SPEED * np.linalg.eigvals(x.T @ x / N @ A).real.max())


def measure(quick: bool) -> Evidence:
    from scipy.integrate import quad
    from scipy.special import exp1

    a = np.linalg.eigvalsh(A)[-1]
    pair_time = quad(lambda u: 1 / (2 * SPEED * u * np.sinh(u)), a, 60, epsabs=0, epsrel=1e-12)[0]
    cases = [
        ("unnormalized", "all tokens at one point", PLACE, exp1(a) / (2 * SPEED)),
        ("unnormalized", "half at x, half at −x", PLACE * np.resize([1.0, -1.0], (N, 1)), pair_time),
        ("linear", "all tokens at one point", PLACE, 1 / (2 * SPEED * a)),
        ("linear", "random cloud", CLOUD, linear_time(CLOUD)),
        ("ReLU", "all tokens at one point", PLACE, 1 / (2 * SPEED * a)),
        ("ReLU", "random cloud in a quadrant", np.abs(CLOUD), linear_time(np.abs(CLOUD))),
    ]
    checks, shown = [], {}
    for name, start, x, exact in cases:
        time, done = run(LOCAL[name](A=A, V=SPEED), x)
        shown.setdefault(name, done)
        checks.append(close(f"{name}, {start}: time of blow-up", exact, time, rtol=1e-8))
    for norm in (tkf.PreLN(),) if quick else (tkf.PreLN(), tkf.PostLN()):
        for name in LOCAL:
            time, _ = run(only(name, LOCAL), tkf.Tokens(CLOUD).normalized().x, norm)
            checks.append(equal(f"{name} under {type(norm).__name__}: blow-up before t = 10", False, time < np.inf))
    for name in GLOBAL:
        heads = only(name, GLOBAL)
        (time, shown[name]), (again, _) = run(heads, PLACE), run(heads, CLOUD)
        checks.append(equal(f"{name}: blow-up before t = 10", False, (time := min(time, again)) < np.inf))
    checks.append(equal("as printed, sigmoid has no global solution: blow-up", True, time < np.inf, printed=True))
    end = 1.0 if quick else 3.0
    sinkhorn = run(tkf.Sinkhorn(A=A, V=SPEED), CLOUD, t1=end)[0]
    checks.append(equal(f"Sinkhorn: blow-up before t = {end:g}", False, sinkhorn < np.inf))
    caption = (
        "All tokens at one point, V = 1.5 I; dotted: predicted times. Rounding ends the steepest curve at |x| = 4.6."
    )
    return Evidence(tuple(checks), draw(shown, [cases[0][3], cases[2][3]]), caption)


def draw(shown, times):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="time $t$", ylabel="$|x(t)|$", yscale="log", xlim=(0, 0.4), ylim=(0.9, 100))
    colors = ("#D55E00", "#E69F00", "black", "#0072B2", "#56B4E9", "#CC79A7")
    for (name, done), color, dash in zip(shown.items(), colors, ("-", "-", ":", "-", "--", "-"), strict=True):
        length = np.linalg.norm(done.dataset["x"].values[:, 0], axis=-1)
        axes.plot(done.times, length, dash, color=color, lw=2, label=name)
    axes.vlines(times, 0.9, 100, color="black", ls=":", lw=1)
    axes.legend(frameon=False, loc="upper right", fontsize=9)
    return figure


CLAIM = Claim(
    id="blow_up",
    section="Well-posedness and stability",
    title="Which kernels blow up in R^d",
    statement="Unnormalized, linear and ReLU attention can blow up in finite time. With V = vI and A > 0, a cloud with "
    "second moments M blows up under linear attention at t* = 1/(2v λ_max(MA)), and tokens at one point blow up under "
    "unnormalized attention at t* = E₁(⟨Ax, x⟩)/2v. A layer norm prevents blow-up. Softmax, L2, Sinkhorn and also sigmoid "
    "attention never blow up; the talks wrongly list sigmoid among the kernels that do.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part II; Castin, Ablin, Carrillo, Peyré 2025; "
    "the times are derived here",
    measure=measure,
)
