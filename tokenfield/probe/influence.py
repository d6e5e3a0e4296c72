"""How a causal model's last token depends on each position of a text: measured by gradients, compared with theory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._check import count, items
from .._shown import shown
from ..lipschitz.influence import influence
from ..theory.response_fit import InfluenceFit, fit_influence
from .extract import in_sequence
from .pretrained import Pretrained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 8  # minimum number of tokens of a text


@dataclass(frozen=True)
class PositionInfluence:
    """How much the last token's hidden state depends on the embedding at each position.

    Attributes:
        depths: (m,) numbers of layers.
        size: (texts, m, n) `|∂h_n(L)/∂x_j|_F / sqrt(d)` for position j, L layers deep.
    """

    depths: np.ndarray
    size: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """(m, n) share of each position: geometric mean over texts, normalized to sum 1 over positions."""
        mean = np.exp(np.log(self.size / self.size.sum(-1, keepdims=True)).mean(0))
        return mean / mean.sum(-1, keepdims=True)

    @property
    def lost(self) -> np.ndarray:
        """(m,) position in (0, 1) with the smallest share, in a running geometric mean over an eighth of the text."""
        n = self.size.shape[-1]
        width = max(1, n // 8)
        logs = np.log(self.share[:, :-1])  # without the last token's own share, which is not part of the curve
        means = np.stack([np.convolve(row, np.full(width, 1 / width), "valid") for row in logs])
        return (means.argmin(1) + (width + 1) / 2) / n

    def fit(self, slope: float | None = None) -> list[InfluenceFit]:
        """Fit `theory.token_influence` at each depth; with a given slope, fit alpha alone (see `theory.fit_influence`)."""
        return [fit_influence(row, int(L), slope=slope) for row, L in zip(self.share, self.depths, strict=True)]

    def plot(self, **options: Any) -> "Figure":
        """Draw measured shares and fitted theory; see `tokenfield.plotting.influence_figure`."""
        from ..plotting import influence_figure

        return influence_figure(self.share, self.depths.tolist(), **options)


def position_influence(
    pre: Pretrained,
    texts: str | Sequence[str],
    *,
    tokens: int = 128,
    depths: Sequence[int] | None = None,
    directions: int = 8,
    seed: int = 0,
) -> PositionInfluence:
    """Measure how much the last token's hidden state depends on the embedding at each position of a text.

    The gradient passes through all layers of `pre.model`: attention with its scores, norms and MLPs. The words of
    a single text have a larger effect than positions: give several texts.

    Args:
        pre: a causal model, from `from_pretrained`.
        texts: one text or several; each is cut to the same number of tokens.
        tokens: maximum of this number. If a text is shorter, all are cut to its length.
        depths: numbers of layers; by default five from 1 to all of them. After all layers the final norm is included.
        directions: number of random directions of the hidden state to differentiate (see `lipschitz.influence`).
        seed: seed of these directions.

    Example:
        >>> import tokenfield as tkf
        >>> pre = tkf.from_pretrained("path/to/model")  # doctest: +SKIP
        >>> tkf.probe.position_influence(pre, ["To be, or not to be …", "Now is the winter …"]).plot()  # doctest: +SKIP
    """
    if not isinstance(pre, Pretrained):
        raise ValueError(f"pre must be a model from from_pretrained, got {shown(pre)}")
    if not pre.loaded.architecture.causal:
        raise ValueError(
            "pre must be causal: in a bidirectional model the last token has no special role; "
            "tkf.lipschitz.influence measures any token"
        )
    given = (texts,) if isinstance(texts, str) else items("texts", texts, "texts")
    if not given:
        raise ValueError("texts must hold at least one text, got none")
    states = [pre.tokens(text, count("tokens", tokens, LEAST)).x for text in given]
    n = min(len(x) for x in states)
    if n < LEAST:
        raise ValueError(f"texts must each have at least {LEAST} tokens, got one with {n}")
    if depths is None:
        depths = np.unique(np.geomspace(1, pre.depth, 5).round().astype(int)).tolist()
    levels = [count("depths", depth, 1, pre.depth) for depth in items("depths", depths, "numbers of layers")]
    k = min(count("directions", directions), states[0].shape[1])
    found = [influence(pre.model, in_sequence(x[:n]), levels, directions=k, seed=seed) for x in states]
    return PositionInfluence(np.array(levels), np.stack(found))
