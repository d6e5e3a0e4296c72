"""Rescaled tokens are the free flow in other coordinates, and go on where the free flow overflows."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, equal

N, D, T, FAR = 10, 3, 3.0, 1000.0


class Values(eqx.Module):
    """V(t) = V_0 + sin(2t) V_1."""

    V0: jnp.ndarray
    V1: jnp.ndarray

    def __call__(self, t):
        return self.V0 + jnp.sin(2 * t) * self.V1


def propagators(V: Values, times: np.ndarray) -> np.ndarray:
    """Phi at `times`, `Phi' = V Phi`, by SciPy."""
    from scipy.integrate import solve_ivp

    field = lambda t, phi: (np.asarray(V(t)) @ phi.reshape(D, D)).ravel()  # noqa: E731
    start = np.eye(D).ravel()
    return solve_ivp(field, (0, T), start, "DOP853", times, rtol=1e-12, atol=1e-13).y.T.reshape(-1, D, D)


def tokens(kernel, V, norm, x, t1: float = T, rtol: float = 1e-12) -> tkf.Trajectory:
    model = tkf.Transformer(kernel(A=np.diag([1.5, 1.0, 0.5]), V=V), norm)
    return tkf.simulate(model, tkf.Tokens(x), t1, save_at=11, rtol=rtol, atol=rtol / 100, progress=False)


def measure(quick: bool) -> Evidence:
    errors: dict[str, list[float]] = {}
    far = {}
    for seed in range(2 if quick else 20):
        rng = np.random.default_rng(seed)
        x, B, C = rng.standard_normal((N, D)), *(rng.standard_normal((2, D, D)) / np.sqrt(D))
        V0, V1 = np.eye(D) + 0.3 * B, 0.3 * C
        for name, kernel, V in (
            ("softmax, constant V", tkf.Softmax, Values(V0, 0 * V1)),
            ("softmax, V(t)", tkf.Softmax, Values(V0, V1)),
            ("sigmoid, constant V", tkf.Sigmoid, Values(V0, 0 * V1)),
        ):
            rescaled_V = V if "V(t)" in name else V0
            free = tokens(kernel, V, tkf.NoNorm(), x)
            z = tokens(kernel, rescaled_V, tkf.Rescaled(), x).dataset["x"].values
            back = np.einsum("tij,tnj->tni", propagators(V, free.times), z)
            gap = np.linalg.norm(back - free.dataset["x"].values, axis=-1).max(axis=1)
            scale = np.linalg.norm(free.dataset["x"].values, axis=-1).max(axis=1)
            errors.setdefault(name, []).append((gap / scale).max())
            if seed == 0 and kernel is tkf.Softmax:
                far[name] = tokens(kernel, rescaled_V, tkf.Rescaled(), x, FAR, rtol=1e-8)
                digits = np.trace(V0) / D * FAR / np.log(10)  # |det Phi| = exp ∫ tr V, so |Phi| >= exp ∫ tr V / d
    checks = [at_most(f"{k}: largest |Φz − x| / max|x|, t ≤ 3", 1e-8, max(v)) for k, v in errors.items()]
    checks.append(at_least("log₁₀ of the size of x at t = 1000 (doubles end at 308)", 308.3, digits))
    for name, run in far.items():
        z = run.dataset["x"].values
        checks.append(
            equal(f"{name}: time reached by the rescaled run, events", (FAR, 0), (run.times[-1], len(run.events)))
        )
        checks.append(at_most(f"{name}: largest |z| at t = 1000", 10.0, np.abs(z[-1]).max()))
    settled = far["softmax, constant V"].dataset["x"].values
    checks.append(
        at_most("constant V: largest change of z from t = 900 to 1000", 1e-6, np.abs(settled[-1] - settled[-2]).max())
    )
    return Evidence(tuple(checks))


CLAIM = Claim(
    id="rescaled_equals_free",
    section="Clustering in R^d",
    title="Rescaled tokens are the free flow",
    statement="Let Φ′ = VΦ, Φ(0) = I (Φ = e^{tV} if V is constant), and z = Φ^{−1}x. Then "
    "z_i′ = Φ^{−1}VΦ (Σ_j P_ij z_j − z_i) with the attention matrix P taken at Φz: the free flow in other coordinates, "
    "whether or not the rows of P sum to 1. Scores can be formed without x, so the rescaled run goes on when x overflows.",
    source="B. Geshkovski, C. Letrouit, Y. Polyanskiy, P. Rigollet, The emergence of clusters in self-attention dynamics, "
    "NeurIPS 2023, section 1 (constant V); V(t) and rows that do not sum to 1 are derived here",
    measure=measure,
)
