"""Value and gradient of a run beside the same drift in Diffrax and in torchdiffeq: at equal tolerance, and at equal error.

Our error control takes the maximum over tokens, that of the rivals their mean square, so ours is more accurate at equal
tolerance. At equal error, ours has the largest tolerance with which its gradient is no worse than the rival's.
"""

from collections.abc import Callable, Iterator
from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import torch

import tokenfield as tkf

from .timing import against

N, D, T, BETA = 256, 8, 5.0, 4.0
RTOL, ATOL = 1e-6, 1e-9
TOLERANCES = np.geomspace(RTOL, 100 * RTOL, 33)
WORST = {"torchdiffeq adjoint": 1e-3}  # errors of gradients; those of the others are below 1e-5
EXACT = 1e-11
Gradient = tuple[float, float, np.ndarray]


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of each rival's time to ours), after checking that all give the same gradient."""
    x = np.asarray(tkf.uniform_sphere(N, D, seed=0).x)
    rivals = {
        "diffrax": by_diffrax(x),
        "torchdiffeq": by_torchdiffeq(x, adjoint=False),
        "torchdiffeq adjoint": by_torchdiffeq(x, adjoint=True),
    }
    ours = by_us(x)
    exact = ours(EXACT)
    errors = {name: error(x, call(), exact) for name, call in rivals.items()}
    mine = {float(rtol): error(x, ours(rtol), exact) for rtol in TOLERANCES}
    for name, found in {"tokenfield": mine[RTOL], **errors}.items():
        assert found < WORST.get(name, 1e-5), f"{name}: the gradient is wrong by {found:.1e}"
    print("  error of the gradient: " + ", ".join(f"{name} {found:.1e}" for name, found in errors.items()))
    case = f"value and gradient of a run to T = {T:g} ({N}, {D})"
    yield case, against(partial(ours, RTOL), rivals)
    ratios = {}
    for name, call in rivals.items():
        equal = max((rtol for rtol in mine if mine[rtol] <= errors[name]), default=RTOL)
        print(
            f"  tokenfield: {mine[RTOL]:.1e} with rtol {RTOL:g}; for the error of {name} rtol {equal:.1e}: {mine[equal]:.1e}"
        )
        ratios |= against(partial(ours, equal), {name: call})
    yield f"{case}, equal error", ratios


def error(x: np.ndarray, found: Gradient, exact: Gradient) -> float:
    """Largest relative error of the value and of the gradients, those by tokens along the sphere.

    Across the sphere they differ: our drift is that of x/|x|, and the drift of the rivals is another one off the sphere.
    """

    def along(gradient: Gradient) -> Gradient:
        value, by_beta, by_x = gradient
        by_x = np.asarray(by_x)
        return value, by_beta, by_x - (by_x * x).sum(1, keepdims=True) * x

    pairs = zip(along(found), along(exact), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max()) for a, b in pairs)


def mean_cosine(x: jax.Array) -> jax.Array:
    """Mean cosine between different tokens, by the sum of their directions."""
    theta = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    return (jnp.sum(theta.sum(0) ** 2) - N) / (N * (N - 1))


def by_us(x: np.ndarray) -> Callable[[float], Gradient]:
    def value(beta, x, rtol):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        return mean_cosine(tkf.solve(model, tkf.Tokens(x), T, rtol=rtol, atol=rtol * ATOL / RTOL).final.x)

    return called(value, x)


def by_diffrax(x: np.ndarray) -> Callable[[], Gradient]:
    """Tsit5 on the drift that one writes down: softmax attention and the tangent projection."""

    def drift(t, x, beta):
        pull = jax.nn.softmax(beta * x @ x.T, axis=1) @ x
        return pull - (pull * x).sum(1, keepdims=True) * x

    def value(beta, x):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(drift),
            diffrax.Tsit5(),
            0.0,
            T,
            None,
            x,
            args=beta,
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            adjoint=diffrax.RecursiveCheckpointAdjoint(),
        )
        return mean_cosine(solution.ys[-1])

    return called(value, x)


def called(value: Callable, x: np.ndarray) -> Callable[..., Gradient]:
    gradient, start = jax.jit(jax.value_and_grad(value, (0, 1))), jnp.asarray(x)

    def call(*settings: float) -> Gradient:
        found, (by_beta, by_x) = jax.block_until_ready(gradient(jnp.asarray(BETA), start, *settings))
        return found, by_beta, by_x

    return call


def by_torchdiffeq(x: np.ndarray, adjoint: bool) -> Callable[[], Gradient]:
    """Dopri5 and backpropagation through its steps, the fastest of torchdiffeq's ways that fits in memory here.

    With `adjoint`, by the adjoint equation backwards in time: what its documentation recommends for memory.
    """
    from torchdiffeq import odeint, odeint_adjoint

    class Drift(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.beta = torch.nn.Parameter(torch.tensor(BETA, dtype=torch.float64))

        def forward(self, t, x):
            pull = torch.softmax(self.beta * x @ x.T, dim=1) @ x
            return pull - (pull * x).sum(1, keepdim=True) * x

    def call() -> Gradient:
        drift, start = Drift(), torch.tensor(x, requires_grad=True)
        times = torch.tensor([0.0, T], dtype=torch.float64)
        run = (odeint_adjoint if adjoint else odeint)(drift, start, times, rtol=RTOL, atol=ATOL, method="dopri5")
        theta = run[-1] / torch.linalg.norm(run[-1], dim=1, keepdim=True)
        value = ((theta.sum(0) ** 2).sum() - N) / (N * (N - 1))
        value.backward()
        assert drift.beta.grad is not None
        assert start.grad is not None
        return value.item(), drift.beta.grad.item(), start.grad.numpy()

    return call
