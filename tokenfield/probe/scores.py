"""Statistics of one block's attention on one text, from its real queries and keys, in blocks of rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .extra import need
from .families import HeadWeights

ENTRIES = 1 << 21  # maximum number of scores in memory at once
NOTHING = -80.0  # log attention that adds nothing to the entropy, so that 0 log 0 = 0 without slow subnormal numbers
ALIKE = 1e-12  # cosines that vary less than this along rows differ by rounding only: they have no scale
PER_HEAD = ("entropy", "self_mass", "first_mass", "beta", "beta_slope", "gamma", "r2gamma")


class Rows(NamedTuple):
    """Some rows of all heads.

    Attributes:
        start: the first row.
        scores: (H, b, n).
        seen: (b, n) the tokens that each row attends to, or None for all.
    """

    start: int
    scores: Any
    seen: Any | None

    @property
    def log_attention(self) -> Any:
        """Return (H, b, n) logarithms of rows that sum to 1; -inf for masked tokens."""
        hidden = self.scores if self.seen is None else self.scores.masked_fill(~self.seen, -float("inf"))
        return hidden.log_softmax(-1)


def score_rows(q: Any, k: Any, scaling: float, causal: bool, window: int | None = None) -> Iterator[Rows]:
    """Yield the scores of every head, `scaling <q_i, k_j>`, and the tokens j that row i attends to, in blocks of rows.

    Args:
        q: (H, n, k) queries; k: (H', n, k) keys, each shared by H/H' queries.
        causal: j <= i only; window: and j > i - window.
    """
    torch = need("torch")
    heads, n, _ = q.shape
    k = k.repeat_interleave(heads // k.shape[0], 0).transpose(1, 2)
    size = max(1, ENTRIES // (heads * n))
    column = torch.arange(n)
    for start in range(0, n, size):
        row = torch.arange(start, min(start + size, n))[:, None]
        seen = column <= row if causal else None
        if window is not None:
            seen = (torch.ones(len(row), n, dtype=torch.bool) if seen is None else seen) & (column > row - window)
        yield Rows(start, torch.matmul(q[:, start : start + size], k) * scaling, seen)


def attention_rows(q: Any, k: Any, scaling: float, causal: bool, window: int | None = None) -> Iterator[Any]:
    """Yield (H, b, n) blocks of rows of the attention matrix of every head, `p_ij = softmax_j(scaling <q_i, k_j>)`."""
    for rows in score_rows(q, k, scaling, causal, window):
        yield rows.log_attention.exp()


def head_statistics(
    x: Any, q: Any, k: Any, scaling: float, causal: bool, window: int | None, gammas: np.ndarray
) -> dict[str, np.ndarray]:
    """Return entropy, mass on self and first token, and effective scale of each head on one text.

    - `entropy`: mean over rows of `-sum_j p_ij log p_ij`;
    - `self_mass`: mean of `p_ii`; `first_mass`: mean of `p_i1` over rows i > 1;
    - `beta`: in the theory scores are `beta <u_i, u_j>` for directions u. Here it is the beta whose scores spread as much
      along a row as the real ones do, `( sum_i Var_j s_ij / sum_i Var_j c_ij )^{1/2}`, where c are the cosines of the inputs
      of attention. A constant added to a row changes neither the softmax nor this beta. An isotropic head gives its own beta
      exactly; if all tokens are alike, there is no beta (NaN);
    - `beta_slope`: the slope of s on c within rows, `sum_i Cov_j(s_ij, c_ij) / sum_i Var_j c_ij`: beta times the
      correlation of scores with cosines, so it is negative for a head that attends to dissimilar tokens;
    - `gamma = beta / log n`, and `critical_gamma = 1/(1 - rho)` (FORMULAS §7), where rho = `input_cosine` is the mean cosine
      of the inputs of attention;
    - `r2gamma = R^2 gamma_A` of the lower Lipschitz bound (FORMULAS §6), where R is the length of the longest input.

    Args:
        x: (n, d) inputs of attention; q, k: as in `score_rows`.
        gammas: (H,) the result of `lower_bound_gamma`.
    """
    torch = need("torch")
    heads, n, _ = q.shape
    x = x.double()
    lengths = x.norm(dim=1)
    u = x / lengths.clamp_min(torch.finfo(torch.float64).tiny)[:, None]
    sums = {name: torch.zeros(heads, dtype=torch.float64) for name in ("entropy", "self", "first", "ss", "sc")}
    cc, dot = 0.0, torch.linalg.vecdot
    for rows in score_rows(q, k, scaling, causal, window):
        row = torch.arange(rows.scores.shape[1])
        c, s = u[rows.start : rows.start + len(row)] @ u.T, rows.scores
        seen = torch.ones_like(c) if rows.seen is None else rows.seen.to(c.dtype)
        number = seen.sum(1, keepdim=True)
        c = (c - dot(c, seen)[:, None] / number) * seen
        cc += float((c * c / number).sum())
        s -= dot(s, seen.to(s.dtype))[..., None] / number.to(s.dtype)  # a constant along a row changes nothing
        sums["sc"] += dot(s, (c / number).to(s.dtype)).double().sum(1)
        sums["ss"] += (dot(s if rows.seen is None else s * seen.to(s.dtype), s) / number[:, 0]).sum(1)
        log_p = rows.log_attention.clamp_min_(NOTHING)
        p = log_p.exp()
        sums["entropy"] -= dot(p, log_p).double().sum(1)
        sums["self"] += p[:, row, row + rows.start].double().sum(1)
        sums["first"] += p[:, (1 if rows.start == 0 else 0) :, 0].double().sum(1)
    rho = float((u.sum(0).square().sum() - u.square().sum()) / (n * (n - 1)))
    spread = cc if cc > n * ALIKE**2 else np.nan
    beta, slope = np.sqrt(sums["ss"].numpy() / spread), sums["sc"].numpy() / spread
    return {
        "entropy": sums["entropy"].numpy() / n,
        "self_mass": sums["self"].numpy() / n,
        "first_mass": sums["first"].numpy() / (n - 1),
        "beta": beta,
        "beta_slope": slope,
        "gamma": beta / np.log(n),
        "r2gamma": float(lengths.max()) ** 2 * gammas,
        "critical_gamma": np.float64(1 / (1 - rho) if rho < 1 else np.inf),
        "input_cosine": np.float64(rho),
    }


def lower_bound_gamma(weights: HeadWeights) -> np.ndarray:
    """Return (H,) `gamma = max(-lambda_min, lambda_max/8)` over the real eigenvalues of `A = scaling K^T Q` (FORMULAS §6).

    A has rank k < d, so 0 is among them; the others are those of the (k, k) matrix `scaling Q K^T`. With rotary
    positions, this is the A of two tokens at the same position.
    """
    found = []
    for Q, K in zip(weights.Q, weights.K, strict=True):
        values = np.linalg.eigvals(weights.scaling * Q @ K.T)
        real = values.real[np.abs(values.imag) <= 1e-9 * np.abs(values).max(initial=0.0)]
        if K.shape[0] < K.shape[1]:
            real = np.append(real, 0.0)
        found.append(max(-real.min(initial=0.0), real.max(initial=0.0) / 8))
    return np.array(found)


def empty(depth: int, heads: int, texts: int) -> dict[str, np.ndarray]:
    """Return arrays for all blocks, heads and texts, filled with NaN."""
    made = {name: np.full((depth, heads, texts), np.nan) for name in PER_HEAD}
    return made | {name: np.full((depth, texts), np.nan) for name in ("critical_gamma", "input_cosine")}
