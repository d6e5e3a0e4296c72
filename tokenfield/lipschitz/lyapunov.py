"""Finite-time Lyapunov exponents of a flow of tokens."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._check import count, positive
from .._jax import in_double
from .._shown import shown
from ..driver import SolverError
from ..driver.smooth import Options, Plan, integrate
from ..flows import Segment, segments
from ..flows.rescaled import ConstantV
from ..normalization import AbstractSphereNorm, Projected, Rescaled
from ..solver.base import FINISHED
from ..solver.methods import runge_kutta
from ..states import Tokens
from ..transformer import Transformer
from .local import check_metric, tokens_of
from .products import log_singular_values
from .tangent import Carried, TangentFlow

MOST_DIRECTIONS = 600
WORST_CONDITION = (
    1e3  # largest condition number of the derivative over one piece of the run, which bounds the growth of errors
)


@dataclass(frozen=True)
class Exponents:
    """Finite-time Lyapunov exponents.

    Attributes:
        values: (k,) `log(sigma_i)/t1`, decreasing, sigma_i the singular values of the derivative of the flow.
        final: the tokens at time t1.
        pieces: number of pieces into which the run was divided.
    """

    values: np.ndarray
    final: Tokens
    pieces: int


@in_double
def lyapunov(
    model: Transformer, x: Any, t1: float, k: int | None = None, *, rtol: float = 1e-9, atol: float = 1e-12
) -> Exponents:
    """Return `(1/t1) log sigma_i(D phi_{t1})`: the rates at which the flow phi of a model stretches small displacements.

    A full frame of tangent vectors is integrated with the tokens, `v' = D f(x) v`, both under error control. Whenever
    the frame becomes ill-conditioned, it is orthonormalized by QR. The singular values are those of the product of the
    triangular factors; small ones are as accurate as large ones. The norm of displacements is that of `local`. On a sphere
    of fixed radius only the n (d-1) tangent directions count.

    If all tokens are at one point of the sphere, `Softmax` with Post-LN has the exponents 0 (d-1 times: all tokens together) and
    -1 (all others: differences shrink like `e^{-t}`), as `v_i' = mean(v) - v_i` there.

    Args:
        model: a Transformer without noise.
        x: (n, d) tokens at time 0, or `Tokens`; n d at most 600.
        t1: end time.
        k: number of exponents, largest first; all by default.
        rtol, atol: tolerances of a step, for tokens and tangent vectors.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
        >>> tkf.lipschitz.lyapunov(model, tkf.uniform_sphere(4, 3, seed=0), t1=2.0).values
        array([ 0.48061077,  0.37709215,  0.05503363, -0.00518299, -0.10097279,
               -0.4353527 , -0.531664  , -0.62645985])
    """
    state, t1 = tokens_of(x), positive("t1", t1)
    rtol, atol = positive("rtol", rtol), positive("atol", atol)
    if not isinstance(model, Transformer):
        raise ValueError(f"model must be a Transformer, got {shown(model)}")
    if model.noise is not None:
        raise ValueError("model must be without noise: its flow has no derivative")
    n, d = state.x.shape
    if n * d > MOST_DIRECTIONS:
        raise ValueError(f"x must have n d <= {MOST_DIRECTIONS}, as a full frame is integrated, got {n} x {d}")
    check_metric(model)
    parts = segments(state, model)
    constant = all(isinstance(part.flow, ConstantV) and part.flow.held is None for part in parts)
    if isinstance(model.norm, Rescaled) and not constant:
        raise ValueError(
            "norm must not be Rescaled with a V that changes with time or has small eigenvalues: use NoNorm()"
        )
    frame = _first_frame(state, model)
    k = len(frame) if k is None else count("k", k)
    if k > len(frame):
        raise ValueError(f"k must be at most {len(frame)}, the number of directions, got {k}")

    root = np.sqrt(n * np.asarray(state.weights))[:, None]
    t, dt, factors = 0.0, t1, []
    while t < t1:
        dt = min(dt, t1 - t)
        end = t1 if t + dt >= t1 * (1 - 1e-12) else t + dt
        after, moved = _carry(parts, state, frame, root, t, end - t, rtol, atol)
        Q, R = np.linalg.qr((root * moved).reshape(len(frame), -1).T)
        sizes = np.linalg.svd(R, compute_uv=False)
        if sizes[-1] * WORST_CONDITION < sizes[0] and dt > 1e-6 * t1:
            dt /= 2
            continue
        factors.append(R)
        state, frame, t, dt = after, Q.T.reshape(-1, n, d) / root, end, 1.5 * dt
    return Exponents(log_singular_values(factors)[:k] / t1, state, len(factors))


def _first_frame(state: Tokens, model: Transformer) -> np.ndarray:
    """Return orthonormal displacements, in the norm of weighted tokens: all, or those tangent to the sphere or another space."""
    x, n, d = np.asarray(state.x), state.n, state.d
    root = np.sqrt(n * np.asarray(state.weights))
    fixed = isinstance(model.norm, AbstractSphereNorm) and model.norm.radius(d) is not None
    frame = []
    for i in range(n):
        own = np.eye(d)
        if fixed:
            own = np.linalg.qr(np.column_stack([x[i], np.eye(d)]))[0][:, 1:d].T
        elif isinstance(model.norm, Projected):
            here = jnp.broadcast_to(jnp.asarray(x[i]), (d, d))
            axes, sizes, _ = np.linalg.svd(np.asarray(model.space.tangent(here, jnp.eye(d))))
            own = axes[:, sizes > 0.5].T
        for direction in own:
            e = np.zeros((n, d))
            e[i] = direction / root[i]
            frame.append(e)
    return np.array(frame)


def _carry(
    parts: tuple[Segment, ...],
    state: Tokens,
    frame: np.ndarray,
    root: np.ndarray,
    t: float,
    span: float,
    rtol: float,
    atol: float,
) -> tuple[Tokens, np.ndarray]:
    """Return the tokens and the frame after a time span from t."""
    begin = jnp.asarray(t)
    ahead = tuple(Segment(part.until - t, TangentFlow(part.flow, begin)) for part in parts if part.until > t)
    y0 = _packed(ahead[0].flow.flow, state, jnp.asarray(frame, float))  # type: ignore[attr-defined]
    options = Options(span, np.array([]), rtol, atol, runge_kutta("tsit5"), None, 1_000_000)
    outcome = integrate(Plan(options, ahead, y0))
    if outcome.status != FINISHED:
        raise SolverError(
            f"the flow could not be integrated beyond t = {t + outcome.t:.6g}: it blows up, or a token reaches length 0"
        )
    x, moved = _unpacked(outcome.flow.flow, outcome.y)
    return eqx.tree_at(lambda s: s.x, state, x), np.asarray(moved)


@eqx.filter_jit
def _packed(flow, state: Tokens, frame):
    pack = lambda x: flow.pack(eqx.tree_at(lambda s: s.x, state, x))  # noqa: E731
    y, push = jax.linearize(pack, state.x)
    return Carried(y, jax.vmap(push)(frame))


@eqx.filter_jit
def _unpacked(flow, carried):
    x, push = jax.linearize(lambda y: flow.unpack(y).x, carried.y)
    return x, jax.vmap(push)(carried.tangents)
