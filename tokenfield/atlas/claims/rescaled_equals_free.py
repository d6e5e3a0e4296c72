"""Rescaled tokens are the free flow in other coordinates, without its overflow."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, equal

N, D, FAR, TIMES = 10, 3, 1000.0, np.linspace(0, 3, 11)
A = np.array([[1.5, 0.4, 0.0], [0.1, 1.0, 0.2], [0.0, 0.3, 0.5]])


class Values(eqx.Module):
    """`V(t) = V_0 + sin(2t) V_1`."""

    V0: Array
    V1: Array

    def __call__(self, t):
        return self.V0 + jnp.sin(2 * t) * self.V1


def free(kernel, V0, V1, x) -> tuple[np.ndarray, np.ndarray]:
    """Return x and Phi at TIMES, `x_i' = sum_j P_ij V x_j` and `Phi' = V Phi`, in plain NumPy, integrated by SciPy."""
    from scipy.integrate import solve_ivp

    def field(t, y):
        V, x, phi = V0 + np.sin(2 * t) * V1, y[: N * D].reshape(N, D), y[N * D :].reshape(D, D)
        s = x @ A.T @ x.T
        P = 1 / (1 + np.exp(-s)) / N if kernel is tkf.Sigmoid else np.exp(s - s.max(axis=1, keepdims=True))
        P = P if kernel is tkf.Sigmoid else P / P.sum(axis=1, keepdims=True)
        return np.concatenate([(P @ x @ V.T).ravel(), (V @ phi).ravel()])

    start = np.concatenate([x.ravel(), np.eye(D).ravel()])
    y = solve_ivp(field, (0, TIMES[-1]), start, "DOP853", TIMES, rtol=1e-12, atol=1e-12).y.T
    return y[:, : N * D].reshape(-1, N, D), y[:, N * D :].reshape(-1, D, D)


def rescaled(kernel, V, x, t1: float = TIMES[-1], rtol: float = 1e-12) -> tkf.Trajectory:
    model = tkf.Transformer(kernel(A=A, V=V), tkf.Rescaled())
    return tkf.simulate(model, tkf.Tokens(x), t1, save_at=11, rtol=rtol, atol=rtol / 100, progress=False)


def measure(quick: bool) -> Evidence:
    errors: dict[str, list[float]] = {}
    for seed in range(2 if quick else 20):
        rng = np.random.default_rng(seed)
        x, B, C = rng.standard_normal((N, D)), *(rng.standard_normal((2, D, D)) / np.sqrt(D))
        V0, V1 = np.eye(D) + 0.3 * B, 0.3 * C
        for name, kernel, V in (
            ("softmax, constant V", tkf.Softmax, V0),
            ("softmax, V(t)", tkf.Softmax, Values(V0, V1)),
            ("sigmoid, constant V", tkf.Sigmoid, V0),
        ):
            z = rescaled(kernel, V, x).dataset["x"].values
            exact, phi = free(kernel, V0, V1 if callable(V) else 0 * V1, x)
            gap = np.linalg.norm(np.einsum("tij,tnj->tni", phi, z) - exact, axis=-1).max(axis=1)
            errors.setdefault(name, []).append((gap / np.linalg.norm(exact, axis=-1).max(axis=1)).max())
    choices = (("constant V", V0), ("V(t) = I + sin(2t) V₁", Values(np.eye(D), V1)))
    far = {name: rescaled(tkf.Softmax, V, x, FAR, rtol=1e-8) for name, V in choices}
    digits = min(np.trace(V0) / D, 1.0) * FAR / np.log(10)  # |det Phi| = exp ∫ tr V, so |Phi| >= exp ∫ tr V / d
    checks = [at_most(f"{k}: largest |Φz − x| / max|x|, t ≤ 3", 1e-8, max(v)) for k, v in errors.items()]
    checks.append(
        at_least("log₁₀ of a lower bound on |Φ| at t = 1000 (double precision overflows at 308.3)", 308.3, digits)
    )
    for name, run in far.items():
        reached = (float(run.times[-1]), len(run.events))
        checks.append(equal(f"softmax, {name}: time reached by the rescaled run, and events", (FAR, 0), reached))
        largest = np.abs(run.dataset["x"].values[-1]).max()
        checks.append(at_most(f"softmax, {name}: largest entry of z at t = 1000", 10.0, largest))
    return Evidence(tuple(checks))


CLAIM = Claim(
    id="rescaled_equals_free",
    section="Clustering in R^d",
    title="Rescaled tokens are the free flow",
    statement="Let Φ′ = VΦ, Φ(0) = I (for constant V, Φ = e^{tV}), and z = Φ^{−1}x. Then z_i′ = Φ^{−1}VΦ (Σ_j P_{ij} "
    "z_j − z_i) with the attention matrix P evaluated at Φz: the free flow in other coordinates, whether or not the rows "
    "of P sum to 1. Scores can be formed without x, so the rescaled run continues when x overflows (if V(t) makes "
    "directions grow at different rates, Φ^{−1}VΦ grows with t, and rescaling does not help).",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet, The emergence of clusters in self-attention dynamics, NeurIPS "
    "2023, section 1 (constant V, softmax); V(t) and rows that do not sum to 1 are derived here",
    measure=measure,
)
