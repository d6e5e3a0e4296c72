"""A block's attention as an attention of tokenfield, with the model's real weights."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..attention import MultiHead, Softmax
from ..attention.base import AbstractAttention, AbstractHead
from .affine import AffineScore, AffineSoftmax, Offset
from .families import HeadWeights
from .hooks import AbstractVisitor, stream
from .loading import Loaded
from .texts import Batch, Window, padded


def head_weights(loaded: Loaded, layer: int) -> HeadWeights:
    """The real Q, K, V, O of block `layer` (from 0), in float64."""
    if loaded.family is None:
        raise ValueError(f"model: {loaded.architecture.reason}")
    blocks = loaded.family.blocks(loaded.model)
    if not 0 <= layer < len(blocks):
        raise ValueError(f"layer must be between 0 and {len(blocks) - 1}, got {layer}")
    return loaded.family.weights(loaded.model, blocks[layer])


def attention_of(weights: HeadWeights) -> AbstractAttention:
    """The attention `x -> sum_h O_h Gamma^h(x) + b` of tokenfield that these weights are.

    Heads without biases and rotations are plain `Softmax` heads. Others are `AffineSoftmax`, whose scores have the biases
    and rotations in them; so displacements are those of the tokens x alone, and `lipschitz.local` is that of the real layer.
    Biases of values and outputs, which move every output by the same vector, are one more head, `Offset`.
    """
    heads: list[AbstractHead] = []
    plain = weights.frequencies is None and not weights.q.any() and not weights.k.any()
    for Q, q, K, k, V in zip(weights.Q, weights.q, weights.K, weights.k, weights.V, strict=True):
        if plain:
            heads.append(Softmax(weights.scaling, Q=Q, K=K, V=V, causal=weights.causal))
        else:
            score = AffineScore(Q, q, K, k, weights.scaling, weights.frequencies)
            heads.append(AffineSoftmax(score, V, weights.causal))
    outputs: list[Any] = list(weights.O)
    b = np.einsum("hdk,hk->d", weights.O, weights.v) + weights.o
    if b.any():
        heads.append(Offset(b))
        outputs.append(None)
    return MultiHead(heads, outputs)


def layer_attention(loaded: Loaded, layer: int, x: Any) -> tuple[AbstractAttention, np.ndarray]:
    """The attention of block `layer` and its inputs, such that `output(attention, X)` is what the model's own gives.

    Args:
        loaded: a model of a supported family.
        layer: block number, from 0.
        x: (n, d) what attention reads, for one text without padding, from its first token on (rotary positions count from
            there); see `attention_record`.

    Returns:
        A `MultiHead` of tokenfield, for `tkf.lipschitz.local(attention, X)` and all else, and X in float64.

    Example:
        >>> from tokenfield.probe.extract import attention_record, layer_attention, output
        >>> attention, X = layer_attention(loaded, 0, attention_record(loaded, window).inputs[0])  # doctest: +SKIP
        >>> output(attention, X)  # doctest: +SKIP
    """
    weights = head_weights(loaded, layer)
    import torch

    X = np.asarray(x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else x, float)
    if X.ndim != 2 or X.shape[1] != weights.Q.shape[2]:
        raise ValueError(f"x must have shape (n, {weights.Q.shape[2]}), got {X.shape}")
    if weights.window is not None and len(X) > weights.window:
        raise ValueError(f"x has {len(X)} tokens, but this attention sees only {weights.window}: give fewer tokens")
    return attention_of(weights), X


def output(attention: AbstractAttention, X: np.ndarray) -> np.ndarray:
    """(n, d) what attention gives at tokens of equal weight in their order."""
    n = len(X)
    out = attention(jnp.zeros(()), jnp.asarray(X), jnp.full(n, 1 / n), jnp.asarray(np.arange(1, n + 1) / n))
    return np.asarray(out)


class Reading(AbstractVisitor):
    """Keeps what attention reads, and what it gives, of some blocks."""

    def __init__(self, batch: Batch, layers: set[int]):
        self.batch, self.layers = batch, layers
        self.inputs: dict[int, np.ndarray] = {}
        self.outputs: dict[int, np.ndarray] = {}

    def hidden(self, layer, x):
        return

    def attention(self, block, x, q, k, v, scaling):
        if block in self.layers:
            self.inputs[block] = x[0].double().numpy()

    def output(self, block, y):
        if block in self.layers:
            self.outputs[block] = y[0].double().numpy()


def attention_record(loaded: Loaded, window: Window, layers: Any = None) -> Reading:
    """What attention reads and gives in each of some blocks (all by default) on one text."""
    if loaded.family is None:
        raise ValueError(f"model: {loaded.architecture.reason}")
    wanted = set(range(loaded.architecture.depth)) if layers is None else {int(layer) for layer in layers}
    batch = padded([window], loaded.tokenizer.pad)
    record = Reading(batch, wanted)
    stream(loaded, batch, record)
    return record
