"""Attention of a measure at many points that are not among its tokens, beside the same sum in PyTorch."""

import math
from collections.abc import Iterator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import torch

import tokenfield as tkf

from .timing import against
from .velocity import cast

POINTS, TOKENS, DIMENSIONS = 100_000, 4096, (3, 64)
BLOCK = 1024  # rows of the matrix that torch holds at once: the whole would take 3.3 GB


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of each rival's time to ours), after checking that all give the same numbers."""
    for dtype in (np.float64, np.float32):
        for d in DIMENSIONS:
            rng, beta = np.random.default_rng(0), 1 / math.sqrt(d)
            x, y = (rng.standard_normal((size, d)).astype(dtype) for size in (POINTS, TOKENS))
            attention, mu, t = cast((tkf.Softmax(beta), tkf.Tokens(y), jnp.zeros(())), dtype)
            call = eqx.filter_jit(attention)
            points, X, Y = jnp.asarray(x), torch.from_numpy(x), torch.from_numpy(y)
            ours = lambda call=call, points=points, mu=mu, t=t: call(t, points, mu).block_until_ready()  # noqa: E731
            rivals = {
                "torch": lambda X=X, Y=Y, beta=beta: by_softmax(X, Y, beta),
                "SDPA": lambda X=X, Y=Y, beta=beta: by_sdpa(X, Y, beta),
            }
            for name, rival in rivals.items():
                error = np.abs(np.asarray(ours()) - rival().numpy()).max()
                assert error < (1e-12 if dtype == np.float64 else 1e-4), f"{name} differs by {error}"
            yield f"attention at {POINTS} points ({TOKENS}, {d}) {np.dtype(dtype).name}", against(ours, rivals, least=3)


def by_softmax(x: torch.Tensor, y: torch.Tensor, beta: float) -> torch.Tensor:
    """The sum as it is written, some points at a time."""
    return torch.cat([torch.softmax(beta * part @ y.T, dim=-1) @ y for part in x.split(BLOCK)])


def by_sdpa(x: torch.Tensor, y: torch.Tensor, beta: float) -> torch.Tensor:
    """The same by fused attention, which has no weights."""
    return torch.nn.functional.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None], scale=beta)[
        0, 0
    ]
