"""The SA velocity beside PyTorch's fused attention, KeOps (if installed) and the NumPy that a researcher writes."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import torch

import tokenfield as tkf
from tokenfield.flows import segments

from .timing import against

SIZES = [(256, 3), (4096, 3), (4096, 64), (2048, 512)]
BETA = 9.0


def numpy_velocity(x: np.ndarray) -> np.ndarray:
    """The script: the whole n x n matrix at once."""
    scores = BETA * x @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    drift = weights @ x / weights.sum(axis=1, keepdims=True)
    return drift - (drift * x).sum(axis=1, keepdims=True) * x


def torch_velocity(x: torch.Tensor) -> torch.Tensor:
    """Fused attention and the projection."""
    drift = torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], scale=BETA)[
        0, 0
    ]
    return drift - (drift * x).sum(dim=1, keepdim=True) * x


def keops_velocity(x: torch.Tensor):
    """The same by KeOps; None when it is not installed."""
    try:
        from pykeops.torch import LazyTensor
    except ImportError:
        return None

    def call():
        scores = BETA * (LazyTensor(x[:, None, :]) | LazyTensor(x[None, :, :]))
        drift = scores.sumsoftmaxweight(LazyTensor(x[None, :, :].contiguous()), axis=1)
        return drift - (drift * x).sum(dim=1, keepdim=True) * x

    return call


def cast(tree, dtype):
    """All arrays of a tree in another precision."""
    return jax.tree.map(lambda a: a.astype(dtype) if hasattr(a, "dtype") else a, tree)


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of each rival's time to ours), after checking that all give the same velocity."""
    for dtype in (np.float64, np.float32):
        for n, d in SIZES:
            x = np.asarray(tkf.uniform_sphere(n, d, seed=0).x, dtype)
            state = tkf.Tokens(x)
            model = tkf.Transformer(tkf.Softmax(BETA), norm=tkf.PostLN())
            (segment,) = segments(state, model)
            flow, y = cast((segment.flow, segment.flow.pack(state)), dtype)
            time = jnp.zeros((), dtype)
            ours = jax.jit(lambda y, flow=flow, time=time: flow.velocity(time, y).theta)
            tensor = torch.from_numpy(x.copy())
            mine = lambda ours=ours, y=y: ours(y).block_until_ready()  # noqa: E731
            rivals = {"SDPA": lambda tensor=tensor: torch_velocity(tensor), "NumPy": lambda x=x: numpy_velocity(x)}
            if keops := keops_velocity(tensor):
                rivals["KeOps"] = keops
            exact = numpy_velocity(x.astype(np.float64))
            for name, call in {"tokenfield": mine, **rivals}.items():
                error = np.abs(np.asarray(call()) - exact).max()
                assert error < (1e-13 if dtype == np.float64 else 1e-4), f"{name} is wrong by {error}"
            yield f"velocity ({n}, {d}) {np.dtype(dtype).name}", against(mine, rivals)
