"""The ranks of the limits of Gaussian data, counted over random attention matrices."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from .._check import count
from .._shown import shown
from ..attention import L2, AbstractHead, Sinkhorn, Softmax
from ..driver import simulate_many
from ..states import Gaussian
from ..theory.gaussian import gaussian_rank_bound, gaussian_stationarity
from ..transformer import Transformer

KERNELS = tuple(kernel.kind for kernel in (Softmax, L2, Sinkhorn))
VALUES = ("identity", "random")
LARGE = 1e3  # starts have trace 1; a covariance with a trace above this has diverged


class LimitRanks(NamedTuple):
    """The outcome of each draw."""

    d: int
    tol: float
    kind: np.ndarray
    """(draws,) "settled", "diverged" or "unsettled"."""
    rank: np.ndarray
    """(draws,) number of eigenvalues above tol times the largest; 0 for a limit that is 0."""
    bound: np.ndarray
    """(draws,) `gaussian_rank_bound(A)`, proved for V = I and softmax."""
    change: np.ndarray
    """(draws,) `T |Sigma'| / |Sigma|` at the end, T the length of the last phase."""
    A: np.ndarray
    """(draws, d, d) the score matrices."""

    def counts(self, kind: str) -> np.ndarray:
        """Return the (d+1,) numbers of draws of a kind with rank 0, 1, ..., d."""
        return np.bincount(self.rank[self.kind == kind], minlength=self.d + 1)


def limit_ranks(
    d: int,
    draws: int = 100,
    seed: int = 0,
    kernel: str = "softmax",
    values: str = "identity",
    symmetric: bool = True,
    tol: float = 1e-2,
) -> LimitRanks:
    """Return the ranks of the limits of Sigma(t) for random A, V and Sigma_0, found by simulation (FORMULAS §5).

    A is Gaussian (symmetric by default), scaled to norm 1. V is I, or Gaussian and scaled to norm 1. Sigma_0 is Wishart, scaled to
    trace 1. L2 attention has K = I, Q = A. Every draw is counted as one of:

    - settled: Sigma would move by less than tol/2 of its size in a time T, the length of the last phase. The rank
      is the number of eigenvalues above tol times the largest. A draw whose trace is below tol and still decays is settled
      too, with limit 0.
    - diverged: the trace exceeded 1000. The rank is that of `Sigma/tr Sigma` there. For V = I and softmax this means a
      blow-up in finite time; L2 and Sinkhorn attention only grow.
    - unsettled: the rest.

    Eigenvalues may decay as slowly as 1/t, so a run lasts 100/tol in units of `1/tr Sigma`. It is divided into phases, each ten
    times longer than the one before. Between phases the time of each draw is rescaled by its current trace (a factor of V).

    Args:
        d: dimension.
        draws: number of draws.
        seed: seed of the draws.
        kernel: softmax, l2 or sinkhorn.
        values: "identity" for V = I, "random" for a Gaussian V.
        symmetric: whether A is symmetric.
        tol: relative tolerance of the ranks.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.studies.limit_ranks(2, draws=20, values="random", tol=0.1)
        >>> found.counts("settled"), found.counts("diverged"), (found.kind == "unsettled").sum()
        (array([ 0, 12,  0]), array([0, 8, 0]), np.int64(0))
    """
    d, draws = count("d", d), count("draws", draws)
    for name, value, allowed in (("kernel", kernel, KERNELS), ("values", values, VALUES)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie between 0 and 1, got {shown(tol)}")
    rng = np.random.default_rng(seed)
    A, V, roots = rng.standard_normal((3, draws, d, d))
    A = A + np.swapaxes(A, 1, 2) if symmetric else A
    A, V = (M / np.linalg.norm(M, 2, axis=(1, 2), keepdims=True) for M in (A, V))
    V = np.broadcast_to(np.eye(d), V.shape) if values == "identity" else V
    cov = roots @ np.swapaxes(roots, 1, 2)
    cov, diverged = cov / np.trace(cov, axis1=1, axis2=2)[:, None, None], np.zeros(draws, bool)
    for phase in range(2 + int(np.ceil(np.log10(1 / tol)))):
        length, trace = 10.0 * 10**phase, np.trace(cov, axis1=1, axis2=2)
        speed = np.where(diverged, 0.0, 1 / (trace if kernel == "softmax" else np.minimum(trace, 1)))
        if phase and not speed.any():
            break
        heads = [_head(kernel, a, c * v) for a, v, c in zip(A, V, speed, strict=True)]
        cov, left = _advance(heads, cov, length)
        diverged |= left
    moved = length * np.array([gaussian_stationarity(head, each) for head, each in zip(heads, cov, strict=True)])
    eigenvalues = np.linalg.eigvalsh(cov)
    change = moved / np.linalg.norm(cov, axis=(1, 2))
    zero = (eigenvalues.sum(axis=1) < tol) & (change >= tol / 2)  # it only decays like 1/t, and never settles
    settled = zero | (change < tol / 2)
    kind = np.where(diverged, "diverged", np.where(settled, "settled", "unsettled"))
    rank = np.where(zero & ~diverged, 0, (eigenvalues > tol * eigenvalues[:, -1:]).sum(axis=1))
    return LimitRanks(d, tol, kind, rank, np.array([gaussian_rank_bound(a) for a in A]), change, A)


def _head(kernel: str, A: np.ndarray, V: np.ndarray) -> AbstractHead:
    if kernel == "l2":
        return L2(0.5, Q=A, K=np.eye(len(A)), V=V)
    return Softmax(A=A, V=V) if kernel == "softmax" else Sinkhorn(A=A, V=V)


def _large(state: Gaussian):
    return jnp.trace(state.cov) > LARGE


def _advance(heads: Sequence[AbstractHead], cov: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariances after a time `length`, and which of them exceeded the trace `LARGE`."""
    models, states = [Transformer(head) for head in heads], [Gaussian(None, each) for each in cov]
    run = simulate_many(
        models, states, length, save_at=[length], rtol=1e-8, atol=1e-12, stop_when=_large, progress=False
    )
    return run.dataset["end_cov"].values, np.array([bool(events) for events in run.events])
