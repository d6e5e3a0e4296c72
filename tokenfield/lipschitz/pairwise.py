"""The derivative of attention whose kernel is a function of the score, in blocks of rows (FORMULAS §6).

With scores `s_ij = <q_i, k_j> + b_j`, values `v_j` and `ds_ij = <dq_i, k_j> + <q_i, dk_j> + db_j`,

- softmax, `p_ij = w_j e^{s_ij} / Z_i`, `m_i = sum_j p_ij v_j`:
  `d m_i = sum_j p_ij dv_j + sum_j p_ij (v_j - m_i) ds_ij`;
- kernels that are not normalized, `c_ij = w_j phi(s_ij)`: `d m_i = sum_j c_ij dv_j + sum_j w_j phi'(s_ij) v_j ds_ij`.

Queries, keys, biases and values are cheap functions of the tokens; JAX differentiates them. The pair sums are
products of a (rows, n) matrix with (n, d) ones. The matrix is stored if it is small. Otherwise it is recomputed for
each block of rows, so that no n x n array exists.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._xla.arrays import materialize
from .._xla.exponential import exp2
from ..attention import AbstractPairwise, Measure
from ..attention.parameters import ValueMap
from .derivative import AbstractDerivative

BLOCK = 256  # rows per block
BLOCK_ENTRIES = 1 << 20  # a matrix that is stored has larger blocks, of up to this many entries
STORED_ENTRIES = 1 << 24  # maximum number of entries of the matrices that are stored: 128 MB
STRIPS = (
    8  # under a causal mask, rows are divided into this many strips, each as wide as the number of tokens it attends to
)
LOG2E = math.log2(math.e)


class Features(NamedTuple):
    """The queries, keys, biases and values of the tokens."""

    q: Float[Array, "n k"]
    k: Float[Array, "n k"]
    b: Float[Array, " n"] | None
    v: Float[Array, "n m"]


class Strip(NamedTuple):
    """Rows `start … stop-1`, which attend to the first `width` tokens, in blocks of `block` rows."""

    start: int
    stop: int
    width: int
    block: int

    def in_blocks(self, most: int) -> "Strip":
        """Return the same strip in equal blocks of at most `most` rows."""
        rows = self.stop - self.start
        return self._replace(block=-(-rows // -(-rows // most)))

    def rows(self, a: Array) -> Array:
        """Return the rows of an array cut into blocks, padded with zeros."""
        blocks = -(-(self.stop - self.start) // self.block)
        a = a[self.start : self.stop]
        a = jnp.pad(a, ((0, blocks * self.block - len(a)),) + ((0, 0),) * (a.ndim - 1))
        return a.reshape(blocks, self.block, *a.shape[1:])

    def columns(self, a: Array, never: Array) -> Array:
        """Return `rows(a)` with each block transposed, also in memory: products with a plain `.T` are slower."""
        return materialize(self.rows(a).transpose(0, 2, 1), never)

    def joined(self, a: Array) -> Array:
        return a.reshape(-1, *a.shape[2:])[: self.stop - self.start]


class PairwiseDerivative(AbstractDerivative):
    """The derivative of `x -> W V m(x)`, m as above, at weighted tokens. Built by `pairwise_derivative`."""

    head: AbstractPairwise
    output: ValueMap
    t: Float[Array, ""]
    x: Float[Array, "n d"]
    w: Float[Array, " n"]
    positions: Float[Array, " n"]
    order: Array | None
    log_z: Float[Array, " n"] | None
    mean: Float[Array, "n m"] | None
    stored: tuple[Array | tuple[Array, Array], ...] | None
    strips: tuple[Strip, ...] = eqx.field(static=True)

    def features(self, x: Float[Array, "n d"]) -> Features:
        q, k, b = self.head.factors(self.t, x, Measure(x, self.w, self.positions), self.positions)
        V = self.head.value.V
        narrow = V is not None and not callable(V) and V.ndim == 2 and V.shape[0] < V.shape[1]
        return Features(q, k, b, self.head.value(self.t, x) if narrow else x)

    def out(self, m: Float[Array, "n m"]) -> Float[Array, "n dv"]:
        """Return the rest of the map, which is linear: `m -> W V m`, or `W m` if the values are `Vx` already."""
        narrow = m.shape[1] != self.x.shape[1]
        return self.output(self.t, m if narrow else self.head.value(self.t, m))

    def scores(self, f: Features, strip: Strip, q: Array, position: Array, row: Array) -> tuple[Array, Array | None]:
        """Return the scores of a block of rows, and which of them count (None: all)."""
        width = strip.width
        k, b, tau = f.k[:width], None if f.b is None else f.b[:width], self.positions[:width]
        return self.head.scores(q, k, b, position, tau, row), self.head.seen(position, tau)

    def coefficients(self, f: Features, strip: Strip, q: Array, position: Array, row: Array, log_z: Array | None):
        """Return the coefficients of a block of rows, and those of ds (for softmax they are the same array)."""
        width = strip.width
        s, seen = self.scores(f, strip, q, position, row)
        if log_z is None:
            w = self.w[:width] if seen is None else jnp.where(seen, self.w[:width], 0)
            value, slope = jax.jvp(self.head.phi, (s,), (jnp.ones_like(s),))
            return w * value, w * slope
        p = exp2(LOG2E * jnp.minimum(s + jnp.log(self.w[:width]) - log_z[:, None], 0))
        return p if seen is None else jnp.where(seen, p, 0)

    def blocks(self, f: Features, strip: Strip, index: int):
        """Return the data of each block of rows, and the function that computes the coefficients from them."""
        if self.stored is not None:
            return self.stored[index], lambda stored: stored
        data = *self.queries(f, strip), None if self.log_z is None else strip.rows(self.log_z)
        return data, lambda data: self.coefficients(f, strip, *data)

    def queries(self, f: Features, strip: Strip) -> tuple[Array, Array, Array]:
        """Return queries, positions and row indices, in blocks."""
        return strip.rows(f.q), strip.rows(self.positions), strip.rows(jnp.arange(len(self.x)))

    def centered(self, f: Features) -> Features:
        """Return f with centered keys and values: no change in the result if rows sum to 1, and less cancellation."""
        if self.log_z is None:
            return f
        return f._replace(k=f.k - self.w @ f.k, v=self.centered_values(f))

    def centered_values(self, f: Features) -> Float[Array, "n m"]:
        return f.v - self.w @ f.v

    def apply(self, e):
        e = e if self.order is None else e[self.order]
        f, df = jax.jvp(self.features, (self.x,), (e,))
        c = self.centered(f)
        left, right = jnp.concatenate([df.q, f.q], 1), jnp.concatenate([c.k, df.k], 1)
        done = []
        for index, strip in enumerate(self.strips):
            data, coefficients = self.blocks(f, strip, index)
            columns, dv, v = right[: strip.width].T, df.v[: strip.width], c.v[: strip.width]
            db = None if df.b is None else df.b[: strip.width]

            def rows(block, coefficients=coefficients, columns=columns, dv=dv, v=v, db=db):
                data, left, mean = block
                p = coefficients(data)
                p, slope = p if isinstance(p, tuple) else (p, p)
                ds = left @ columns
                weighted = slope * (ds if db is None else ds + db)
                out = p @ dv + weighted @ v
                return out if mean is None else out - mean * weighted.sum(-1, keepdims=True)

            mean = None if self.mean is None else strip.rows(self.mean)
            done.append(strip.joined(_each(rows, (data, strip.rows(left), mean))))
        return self.out(_restored(jnp.concatenate(done), self.order))

    def transpose(self, u):
        m_shape = jax.eval_shape(lambda x: self.features(x).v, self.x)
        u = jax.linear_transpose(self.out, m_shape)(u)[0]
        u = u if self.order is None else u[self.order]
        f, pullback = jax.vjp(self.features, self.x)
        c = self.centered(f)
        n = len(self.x)
        dq, dk, dv = [], jnp.zeros_like(f.k.T), jnp.zeros_like(f.v.T)
        db = None if f.b is None else jnp.zeros(n)
        never = self.w[0] < 0
        for index, strip in enumerate(self.strips):
            data, coefficients = self.blocks(f, strip, index)
            k, v = c.k[: strip.width], c.v[: strip.width].T

            def rows(total, block, coefficients=coefficients, k=k, v=v):
                dk, dv, db = total
                data, u, u_columns, q_columns, mean = block
                p = coefficients(data)
                p, slope = p if isinstance(p, tuple) else (p, p)
                pull = u @ v
                pull = pull if mean is None else pull - (mean * u).sum(-1, keepdims=True)
                ds = slope * pull
                db = None if db is None else db + ds.sum(0)
                return (dk + q_columns @ ds, dv + u_columns @ p, db), ds @ k

            mean = None if self.mean is None else strip.rows(self.mean)
            none = tuple(a if a is None else jnp.zeros_like(a[..., : strip.width]) for a in (dk, dv, db))
            u_columns, q_columns = (strip.columns(a, never) for a in (u, f.q))
            total, own = _total(rows, none, (data, strip.rows(u), u_columns, q_columns, mean))
            dq.append(strip.joined(own))
            dk, dv = dk.at[:, : strip.width].add(total[0]), dv.at[:, : strip.width].add(total[1])
            db = None if db is None else db.at[: strip.width].add(total[2])
        dk, dv = (materialize(a, never).T for a in (dk, dv))
        return _restored(pullback(Features(jnp.concatenate(dq), dk, db, dv))[0], self.order)


def _total(rows: Callable, none: Any, blocks: Any) -> tuple[Any, Any]:
    """Return `jax.lax.scan(rows, none, blocks)`. A single block is used without slicing, which would copy it."""
    if len(jax.tree.leaves(blocks)[0]) > 1:
        return jax.lax.scan(rows, none, blocks)
    total, own = rows(none, jax.tree.map(lambda a: a[0], blocks))
    return total, jax.tree.map(lambda a: a[None], own)


def _each(rows: Callable, blocks: Any) -> Any:
    """Return `rows(block)` for each block."""
    return _total(lambda _, block: (None, rows(block)), None, blocks)[1]


def _restored(a: Array, order: Array | None) -> Array:
    return a if order is None else jnp.zeros_like(a).at[order].set(a)


def pairwise_derivative(
    head: AbstractPairwise,
    output: ValueMap,
    t: Float[Array, ""],
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    positions: Float[Array, " n"],
    entries: int | None = None,
) -> PairwiseDerivative:
    """Return the derivative, after one pass over all pairs for the normalizers `log Z_i` and the means.

    Args:
        entries: maximum number of entries of the coefficient matrix that are stored; `STORED_ENTRIES` by default.
    """
    order = None
    in_order = head.causal and not head.positions  # rows then attend to the first tokens only
    if in_order:
        sequence = np.argsort(np.asarray(positions), kind="stable")
        if (np.diff(sequence) != 1).any():
            order = jnp.asarray(sequence)
            x, w, positions = x[order], w[order], positions[order]
    strips = _strips(np.asarray(positions), in_order)
    size = sum((strip.stop - strip.start) * strip.width for strip in strips) * (1 if head.softmax else 2)
    keep = size <= (STORED_ENTRIES if entries is None else entries)
    strips = tuple(strip.in_blocks(max(BLOCK, BLOCK_ENTRIES // strip.width) if keep else BLOCK) for strip in strips)
    bare = PairwiseDerivative(head, output, t, x, w, positions, order, None, None, None, strips)
    return _prepared(bare, keep)


def _strips(positions: np.ndarray, causal: bool) -> tuple[Strip, ...]:
    n = len(positions)
    parts = min(STRIPS, -(-n // BLOCK)) if causal else 1
    edges = [n * part // parts for part in range(parts + 1)]
    widths = np.searchsorted(positions, positions[np.array(edges[1:]) - 1], side="right") if causal else [n]
    return tuple(
        Strip(start, stop, int(width), stop - start)
        for start, stop, width in zip(edges, edges[1:], widths, strict=False)
    )


@eqx.filter_jit
def _prepared(bare: PairwiseDerivative, keep: bool) -> PairwiseDerivative:
    f = bare.features(bare.x)
    if not bare.head.softmax:
        if not keep:
            return bare
        made = [bare.blocks(f, strip, index) for index, strip in enumerate(bare.strips)]
        both = tuple(_each(coefficients, data) for data, coefficients in made)
        return eqx.tree_at(lambda d: d.stored, bare, both, is_leaf=lambda a: a is None)
    v = bare.centered_values(f)
    log_z, mean, stored = [], [], []
    for strip in bare.strips:
        values = v[: strip.width]

        def rows(block, strip=strip, values=values):
            s, seen = bare.scores(f, strip, *block)
            s = s + jnp.log(bare.w[: strip.width])
            s = s if seen is None else jnp.where(seen, s, -jnp.inf)
            top = s.max(-1, keepdims=True)
            top = jnp.where(jnp.isfinite(top), top, 0)  # padding rows may attend to no token
            p = jnp.exp(s - top)
            z = p.sum(-1, keepdims=True)
            z = jnp.where(z > 0, z, 1)
            return (top + jnp.log(z))[:, 0], (p @ values) / z, p / z if keep else None

        z, m, p = _each(rows, bare.queries(f, strip))
        log_z.append(strip.joined(z))
        mean.append(strip.joined(m))
        stored.append(p)
    parts = jnp.concatenate(log_z), jnp.concatenate(mean), tuple(stored) if keep else None
    return eqx.tree_at(lambda d: (d.log_z, d.mean, d.stored), bare, parts, is_leaf=lambda a: a is None)
