"""Statistics of the tokens of one text at one layer."""

import numpy as np

from ..observables import mean_cosine
from ..observables.order import directions
from ..observables.rank import spread_over
from ..states import Tokens
from .pairs import BINS, pairs

SCALES = (1.0, 4.0, 16.0)  # fixed values of beta at which layers can be compared with each other
ROUND = 64  # pad with tokens of weight 0 to a multiple of this, so that texts share compiled programs

SCALARS = (
    "mean_cosine", "mean_cosine_no_special", "special_cosine", "std_cosine", "clusters", "largest_cluster",
    "single_tokens", "cluster_cosine", "effective_rank", "mean_length", "norm_std", "normalized_energy",
)  # fmt: skip
HISTOGRAMS = ("cosine_histogram", "special_histogram")


def layer_statistics(x: np.ndarray, special: np.ndarray, beta: float | None) -> dict[str, np.ndarray]:
    """Return cosines, clusters, rank, lengths and energy of tokens.

    - `mean_cosine`, `std_cosine`: over all pairs i ≠ j of tokens; `mean_cosine_no_special`: over pairs without a special
      token; `special_cosine`: over pairs with one (NaN if there is none);
    - `cosine_histogram`, `special_histogram`: counts of pairs i < j, all and those with a special token;
    - `clusters`: connected components of at least two tokens at cosines of at least 0.9; `largest_cluster`: tokens in the
      largest; `cluster_cosine`: the smallest cosine between two of them (NaN without a cluster); `single_tokens`: tokens in
      no cluster (see `pairs`);
    - `effective_rank`: that of `tokenfield.effective_rank`, of the *directions* (Roy and Vetterli 2007), so that a few long
      tokens, which many trained models have, do not hide the rest;
    - `mean_length`, `norm_std`: of lengths |x_i|;
    - `normalized_energy`: `∬ e^{beta(<u,v>-1)} dmu dmu` of the directions (FORMULAS §2) at the given beta, NaN for None;
      `fixed_energy` the same at `SCALES`;
    - `labels`: (n,) the cluster of each token.

    Args:
        x: (n, d) tokens of one text, without padding.
        special: (n,) True for special tokens.
        beta: the beta of the layer, or None.

    Example:
        >>> import numpy as np
        >>> float(layer_statistics(np.eye(4), np.zeros(4, bool), beta=1.0)["mean_cosine"])
        0.0
    """
    n = len(x)
    lengths = np.linalg.norm(x, axis=1)
    u = np.asarray(directions(_padded(x, np.ones(n, bool))))[:n]
    every, plain = _padded(u, np.ones(n, bool)), _padded(u, ~special)
    mean = mean_cosine(every)
    without = int((~special).sum())
    mean_plain = mean_cosine(plain) if without > 1 else np.nan
    count, count_plain = n * (n - 1), without * (without - 1)
    rest = count - count_plain
    with_special = (mean * count - (mean_plain * count_plain if count_plain else 0.0)) / rest if rest else np.nan
    found = pairs(u, special, mean, [*SCALES, *([] if beta is None else [beta])])
    return {
        "mean_cosine": np.float64(mean),
        "mean_cosine_no_special": np.float64(mean_plain),
        "special_cosine": np.float64(with_special),
        "std_cosine": np.sqrt(found.squares / (count / 2)),
        "clusters": np.float64(found.clusters),
        "largest_cluster": np.float64(found.largest),
        "single_tokens": np.float64(found.single),
        "cluster_cosine": np.float64(found.least_cosine),
        "effective_rank": np.float64(spread_over(_singular_values(u))),
        "mean_length": lengths.mean(),
        "norm_std": lengths.std(),
        "normalized_energy": np.float64(np.nan if beta is None else found.energies[-1]),
        "fixed_energy": found.energies[: len(SCALES)],
        "cosine_histogram": found.histogram.astype(float),
        "special_histogram": found.special.astype(float),
        "labels": found.labels,
    }


def _singular_values(u: np.ndarray) -> np.ndarray:
    """Return singular values in decreasing order, from the smaller Gram matrix: several times faster than from u itself.

    Those below 1e-8 of the largest are lost in rounding, as they are in hidden states of single precision.
    """
    gram = u.T @ u if len(u) > u.shape[1] else u @ u.T
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0))


def _padded(x: np.ndarray, counted: np.ndarray) -> Tokens:
    """Return tokens of equal weight where `counted`, weight 0 elsewhere, up to a round number of them."""
    extra = -len(x) % ROUND
    weights = np.pad(counted / max(counted.sum(), 1), (0, extra))
    return Tokens(np.pad(x, ((0, extra), (0, 0))), weights if counted.any() else None)


def empty(depth: int, texts: int) -> dict[str, np.ndarray]:
    """Return arrays for all layers and texts, filled with NaN."""
    made = {name: np.full((depth + 1, texts), np.nan) for name in SCALARS}
    made["fixed_energy"] = np.full((depth + 1, texts, len(SCALES)), np.nan)
    return made | {name: np.full((depth + 1, texts, BINS), np.nan) for name in HISTOGRAMS}
