"""Value and gradient of a run beside the same drift in Diffrax and in torchdiffeq, with the same tolerance."""

from collections.abc import Callable, Iterator

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import torch

import tokenfield as tkf

from .timing import against

N, D, T, BETA = 256, 8, 5.0, 4.0
RTOL, ATOL = 1e-6, 1e-9
Gradient = tuple[float, float, np.ndarray]


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of each rival's time to ours), after checking that all give the same gradient."""
    x = np.asarray(tkf.uniform_sphere(N, D, seed=0).x)
    ours, rivals = by_us(x), {"diffrax": by_diffrax(x), "torchdiffeq": by_torchdiffeq(x)}
    agree(x, ours(), {name: call() for name, call in rivals.items()})
    case = f"value and gradient of a run to T = {T:g} ({N}, {D})"
    yield case, against(ours, rivals)


def agree(x: np.ndarray, ours: Gradient, theirs: dict[str, Gradient], tolerance: float = 1e-5) -> None:
    """Raise AssertionError unless value and gradients agree, those by tokens along the sphere; the runs' tolerance is 1e-6.

    Across the sphere they differ: our drift is that of x/|x|, and the drift of the rivals is another one off the sphere.
    """

    def along(found: Gradient) -> Gradient:
        value, by_beta, by_x = found
        by_x = np.asarray(by_x)
        return value, by_beta, by_x - (by_x * x).sum(1, keepdims=True) * x

    for name, found in theirs.items():
        for a, b in zip(along(ours), along(found), strict=True):
            error = np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max()
            assert error < tolerance, f"{name}: gradients differ by {error:.1e}"


def mean_cosine(x: jax.Array) -> jax.Array:
    """Mean cosine between different tokens, by the sum of their directions."""
    theta = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    return (jnp.sum(theta.sum(0) ** 2) - N) / (N * (N - 1))


def by_us(x: np.ndarray) -> Callable[[], Gradient]:
    def value(beta, x):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        return mean_cosine(tkf.solve(model, tkf.Tokens(x), T, rtol=RTOL, atol=ATOL).final.x)

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


def called(value: Callable, x: np.ndarray) -> Callable[[], Gradient]:
    gradient, start = jax.jit(jax.value_and_grad(value, (0, 1))), jnp.asarray(x)

    def call() -> Gradient:
        found, (by_beta, by_x) = jax.block_until_ready(gradient(jnp.asarray(BETA), start))
        return found, by_beta, by_x

    return call


def by_torchdiffeq(x: np.ndarray) -> Callable[[], Gradient]:
    """Dopri5 and backpropagation through its steps: the fastest of torchdiffeq's ways that fits in memory here."""
    from torchdiffeq import odeint

    def call() -> Gradient:
        beta = torch.tensor(BETA, dtype=torch.float64, requires_grad=True)
        start = torch.tensor(x, requires_grad=True)

        def drift(t, x):
            pull = torch.softmax(beta * x @ x.T, dim=1) @ x
            return pull - (pull * x).sum(1, keepdim=True) * x

        times = torch.tensor([0.0, T], dtype=torch.float64)
        end = odeint(drift, start, times, rtol=RTOL, atol=ATOL, method="dopri5")[-1]
        theta = end / torch.linalg.norm(end, dim=1, keepdim=True)
        value = ((theta.sum(0) ** 2).sum() - N) / (N * (N - 1))
        value.backward()
        assert beta.grad is not None
        assert start.grad is not None
        return value.item(), beta.grad.item(), start.grad.numpy()

    return call
