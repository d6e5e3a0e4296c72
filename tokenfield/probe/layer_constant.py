"""The local Lipschitz constant of one attention layer with its real weights: all heads at once."""

from typing import NamedTuple

import numpy as np

from ..lipschitz.singular import Singular, largest_singular
from .families import HeadWeights

MAX_PRODUCTS = 300


class HeadsDerivative:
    """`D f_i[e] = sum_h O_h { sum_j p_ij V e_j + sum_j p_ij (v_j - m_i) ds_ij }`, `ds_ij = <dq_i, k_j> + <q_i, dk_j>`.

    The formula of FORMULAS §6 for queries and keys that are affine in the tokens and rotated by position:
    `q_i = s R_i(Q x_i + b)`, `k_j = R_j(K x_j + c)`. It is what `tkf.lipschitz.local` computes for the `MultiHead` of
    `extract.layer_attention`, by products over all heads at once, with nothing to compile for each number of tokens.
    It stores (H, n, n) numbers.

    Args:
        weights: the attention weights of a block.
        x: (n, d) input tokens of attention.
    """

    def __init__(self, weights: HeadWeights, x: np.ndarray):
        self.weights, (self.n, self.d) = weights, x.shape
        width = weights.Q.shape[1]
        angles = np.zeros((self.n, width))
        if weights.frequencies is not None:
            angles = np.arange(self.n)[:, None] * np.tile(weights.frequencies, 2)
        self.cos, self.sin = np.cos(angles), np.sin(angles)
        self.q = weights.scaling * self.rotated(by_map(weights.Q, x) + weights.q[:, None])
        self.k = self.rotated(by_map(weights.K, x) + weights.k[:, None])
        s = self.q @ self.k.transpose(0, 2, 1)
        row, column = np.arange(self.n)[:, None], np.arange(self.n)
        seen = column <= row if weights.causal else np.ones((self.n, self.n), bool)
        if weights.window is not None:
            seen &= column > row - weights.window
        s = np.where(seen, s, -np.inf)
        P = np.exp(s - s.max(-1, keepdims=True))
        self.P = P / P.sum(-1, keepdims=True)
        v = by_map(weights.V, x)
        self.v = v - v.mean(1, keepdims=True)  # a constant does not change the result; without it, less cancels
        self.mean = self.P @ self.v

    def rotated(self, q: np.ndarray, back: bool = False) -> np.ndarray:
        """Return (H, n, k) with row i rotated by position i, as pairs of coordinates j and j + k/2 (Su et al. 2021; Llama)."""
        if self.weights.frequencies is None:
            return q
        half = q.shape[-1] // 2
        sign = -1.0 if back else 1.0
        return q * self.cos + sign * np.concatenate([-q[..., half:], q[..., :half]], -1) * self.sin

    def apply(self, e: np.ndarray) -> np.ndarray:
        """Return `D e`, (n, d) to (n, d)."""
        w = self.weights
        dq, dk = w.scaling * self.rotated(by_map(w.Q, e)), self.rotated(by_map(w.K, e))
        ds = self.P * (dq @ self.k.transpose(0, 2, 1) + self.q @ dk.transpose(0, 2, 1))
        moved = self.P @ by_map(w.V, e) + ds @ self.v - self.mean * ds.sum(-1, keepdims=True)
        return from_map(w.O.transpose(0, 2, 1), moved)

    def transpose(self, u: np.ndarray) -> np.ndarray:
        """Return `D^T u`, (n, d) to (n, d)."""
        w = self.weights
        moved = by_map(w.O.transpose(0, 2, 1), u)
        ds = self.P * (moved @ self.v.transpose(0, 2, 1) - (moved * self.mean).sum(-1, keepdims=True))
        dq, dk = (
            w.scaling * self.rotated(ds @ self.k, back=True),
            self.rotated(ds.transpose(0, 2, 1) @ self.q, back=True),
        )
        return from_map(w.Q, dq) + from_map(w.K, dk) + from_map(w.V, self.P.transpose(0, 2, 1) @ moved)


def by_map(map: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return (H, n, k): all tokens (n, d) by the maps (H, k, d) of all heads, in one product."""
    heads, width, d = map.shape
    return (x @ map.reshape(-1, d).T).reshape(len(x), heads, width).transpose(1, 0, 2)


def from_map(map: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return (n, d): `sum_h map_h^T y_h`, the transpose of `by_map`."""
    heads, width, d = map.shape
    return y.transpose(1, 0, 2).reshape(-1, heads * width) @ map.reshape(-1, d)


class LayerConstant(NamedTuple):
    """The local constant of a layer, and a bound on it from the tokens.

    Attributes:
        constant: the largest singular value of the derivative.
        radius: a singular value lies within this distance of it.
        converged: True if the radius is within the tolerance.
        upper: see `upper_bound`.
    """

    constant: float
    radius: float
    converged: bool
    upper: float


def layer_constant(weights: HeadWeights, x: np.ndarray, rtol: float = 1e-3) -> LayerConstant:
    """Return `|D_X f|_2` of an attention layer `X -> sum_h O_h Gamma_h(X)` at its input tokens (FORMULAS §6).

    Biases, heads, shared keys, mask and rotary positions are those of the model; biases of values and of the output have no
    derivative.

    Args:
        weights: the attention weights of the block.
        x: (n, d) input tokens of attention.
        rtol: allowed radius of the interval, relative to the value.

    Example:
        >>> from tokenfield.probe.layer_constant import layer_constant
        >>> layer_constant(head_weights(loaded, 0), x).constant  # doctest: +SKIP
    """
    x = np.asarray(x, float)
    D = HeadsDerivative(weights, x)
    found = singular_values(D, rtol)
    return LayerConstant(float(found.values[0]), float(found.radius[0]), found.converged, upper_bound(D))


def singular_values(D: HeadsDerivative, rtol: float) -> Singular:
    """Return the largest singular value, by the Lanczos method of `tkf.lipschitz.local`."""
    shape = (-1, D.n, D.d)
    apply = lambda e: np.stack([D.apply(one) for one in e.reshape(shape)]).reshape(len(e), -1)  # noqa: E731
    transpose = lambda u: np.stack([D.transpose(one) for one in u.reshape(shape)]).reshape(len(u), -1)  # noqa: E731
    return largest_singular(apply, transpose, D.n * D.d, 1, rtol, MAX_PRODUCTS)


def upper_bound(D: HeadsDerivative) -> float:
    """Return a bound from the tokens, `sum_h sqrt(c) ( |OV| + |K| max|q_i| D_v/2 ) + s |Q| D_v D_k/4` over heads.

    It is `tkf.lipschitz.data_bounds` for queries and keys in place of one matrix A: c is the largest column sum of the
    attention matrix, D_v and D_k the diameters of the values `O V x_j` and of the keys, s the scale of scores, in q too.
    """
    total = 0.0
    for h, (Q, K, V, O) in enumerate(zip(*D.weights[:6:2], D.weights.O, strict=True)):  # noqa: E741
        # |OV| is that of the (k, k) product R_O R_V^T of the triangular factors.
        OV = np.linalg.norm(np.linalg.qr(O)[1] @ np.linalg.qr(V.T)[1].T, 2)
        most, q = D.P[h].sum(0).max(), np.linalg.norm(D.q[h], axis=1).max()
        spread, keys = _diameter(D.v[h] @ O.T), _diameter(D.k[h])
        total += most**0.5 * (OV + np.linalg.norm(K, 2) * q * spread / 2)
        total += D.weights.scaling * np.linalg.norm(Q, 2) * spread * keys / 4
    return float(total)


def _diameter(points: np.ndarray) -> float:
    """Return `max_ij |p_i - p_j|`, rounded up."""
    points = points - points.mean(0)  # far from 0, the squares would cancel
    squares = (points * points).sum(1)
    distances = squares[:, None] + squares - 2 * points @ points.T
    return float(np.sqrt(max(distances.max(), 0.0) + 1e-12 * squares.max()))
