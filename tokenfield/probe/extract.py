"""Convert the attention of a block, with its real weights, to an attention of tokenfield."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..attention import MultiHead, RoPE, Softmax, Window
from ..attention.base import AbstractAttention
from ..states import Tokens
from .families import HeadWeights
from .hooks import AbstractVisitor, stream
from .loading import Loaded
from .texts import Batch, padded
from .texts import Window as TextWindow


def head_weights(loaded: Loaded, layer: int) -> HeadWeights:
    """Return the real Q, K, V, O of block `layer` (from 0), in float64."""
    if loaded.family is None:
        raise ValueError(f"model: {loaded.architecture.reason}")
    blocks = loaded.family.blocks(loaded.model)
    if not 0 <= layer < len(blocks):
        raise ValueError(f"layer must be between 0 and {len(blocks) - 1}, got {layer}")
    return loaded.family.weights(loaded.model, blocks[layer])


def attention_of(weights: HeadWeights) -> AbstractAttention:
    """Return the tokenfield attention `x -> sum_h O_h Gamma^h(x) + b` with these weights.

    Biases of values shift every output of a head by the same vector, because rows of softmax sum to 1.
    """
    rules: list[Any] = []
    if weights.frequencies is not None:
        rules.append(RoPE(frequencies=weights.frequencies, halves=True))
    if weights.window is not None:
        rules.append(Window(weights.window - 1))
    heads = []
    for Q, q, K, k, V in zip(weights.Q, weights.q, weights.K, weights.k, weights.V, strict=True):
        biases = {"q": q, "k": k} if q.any() or k.any() else {}
        heads.append(Softmax(weights.scaling, Q=Q, K=K, V=V, causal=weights.causal, positions=rules, **biases))
    bias, offsets = weights.o if weights.o.any() else None, weights.v if weights.v.any() else None
    return MultiHead(heads, list(weights.O), bias, offsets)


def layer_attention(loaded: Loaded, layer: int, x: Any) -> tuple[AbstractAttention, Tokens]:
    """Return the attention of block `layer` and its inputs; `output(attention, tokens)` is the output of the model's own.

    Args:
        loaded: a model of a supported family.
        layer: block number, from 0.
        x: (n, d) input of attention for one text without padding, from its first token on (rotary positions count from
            there); see `attention_record`.

    Returns:
        A `MultiHead` of tokenfield, e.g. for `tkf.lipschitz.local(attention, tokens)`, and the tokens in float64, at positions
        0, 1, 2, ….

    Example:
        >>> from tokenfield.probe.extract import attention_record, layer_attention, output
        >>> attention, tokens = layer_attention(loaded, 0, attention_record(loaded, window).inputs[0])  # doctest: +SKIP
        >>> output(attention, tokens)  # doctest: +SKIP
    """
    weights = head_weights(loaded, layer)
    import torch

    X = np.asarray(x.detach().cpu().double().numpy() if isinstance(x, torch.Tensor) else x, float)
    if X.ndim != 2 or X.shape[1] != weights.Q.shape[2]:
        raise ValueError(f"x must have shape (n, {weights.Q.shape[2]}), got {X.shape}")
    return attention_of(weights), in_sequence(X)


def in_sequence(X: Any) -> Tokens:
    """Return tokens at positions 0, 1, 2, …, as real models count them."""
    return Tokens(X, positions=np.arange(len(X), dtype=float))


def output(attention: AbstractAttention, tokens: Tokens) -> np.ndarray:
    """Return the output of attention at tokens, (n, d)."""
    return np.asarray(attention.of_itself(jnp.zeros(()), tokens))


class Reading(AbstractVisitor):
    """Store the input and output of attention of some blocks."""

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


def attention_record(loaded: Loaded, window: TextWindow, layers: Any = None) -> Reading:
    """Return the input and output of attention in some blocks (all by default) on one text."""
    if loaded.family is None:
        raise ValueError(f"model: {loaded.architecture.reason}")
    wanted = set(range(loaded.architecture.depth)) if layers is None else {int(layer) for layer in layers}
    batch = padded([window], loaded.tokenizer.pad)
    record = Reading(batch, wanted)
    stream(loaded, batch, record)
    return record
