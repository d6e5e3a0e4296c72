"""A pretrained model as a `Transformer`: its real weights, layer by layer, and its texts as `Tokens`."""

import dataclasses
import os
from typing import Any

import numpy as np

from .._check import count
from .._explained import card
from .._shown import shown
from ..mlp import ACTIVATIONS, MLP
from ..normalization import AbstractTokenMap, LayerNorm, PostNorm, PreNorm, RMSNorm
from ..states import Tokens
from ..transformer import Transformer, by_layer
from .extract import attention_of, in_sequence
from .families.base import AbstractFamily, array
from .loading import Loaded, load

NAMES = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}  # names in transformers


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A pretrained model.

    Attributes:
        model: the Transformer: `tkf.layers(pre.model, pre.tokens(text), depth=pre.depth)` has the hidden states of the model.
        depth: its number of layers.
        notes: notes for readers, e.g. that its weights are quantized.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.from_pretrained("path/to/model").tokens("To be, or not to be")  # doctest: +SKIP
    """

    model: Transformer
    depth: int
    notes: tuple[str, ...]
    loaded: Loaded

    def tokens(self, text: str, most: int | None = None) -> Tokens:
        """Return the input of the first layer for a text: embedded tokens at positions 0, 1, 2, …; at most `most` of them."""
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"text must be a string that is not empty, got {shown(text)}")
        ids = self.ids(text)[: None if most is None else count("most", most)]
        limit = self.loaded.architecture.positions_limit
        if limit is not None and len(ids) > limit:
            raise ValueError(f"text has {len(ids)} tokens, but the model has positions for {limit}")
        import torch

        # Convert to double and back, which changes no weight. transformers forbids this conversion if the file was quantized.
        model = torch.nn.Module.double(self.loaded.model)
        try:
            with torch.no_grad():
                x = self._family.embedded(model, torch.as_tensor(ids)[None])[0]
        finally:
            torch.nn.Module.float(model)
        return in_sequence(x.numpy())

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text, special ones included."""
        tokenizer = self.loaded.tokenizer
        return [*tokenizer.prefix, *tokenizer.pieces(text), *tokenizer.suffix]

    def __repr__(self) -> str:
        return f"Pretrained({self.loaded.short()})"

    def _repr_html_(self) -> str:
        return card(
            "Pretrained", self.loaded.facts(), "pre.model, pre.tokens(text), tkf.layers(pre.model, tokens, pre.depth)"
        )

    @property
    def _family(self) -> AbstractFamily:
        assert self.loaded.family is not None
        return self.loaded.family


def from_pretrained(
    path: str | os.PathLike, *, iterations: int | None = None, allow_pickle: bool = False
) -> Pretrained:
    """Return a pretrained model as a `Transformer`, from a local folder, a GGUF file, or the cache of the hub.

    BERT, RoBERTa, ELECTRA, ALBERT, GPT-2, Llama, Mistral and Qwen2 are supported. Nothing is downloaded and no code is run (see
    `tokenfield probe`). Needs the extra "models".

    Args:
        path: a folder, a `.gguf` file, a hub name that is already cached, or the name of a model of `make models`, such as
            "minilm".
        iterations: how many times to apply a shared block (ALBERT); by default as often as in training.
        allow_pickle: also read a `.bin` file, by torch's restricted reader.

    Example:
        >>> import tokenfield as tkf
        >>> pre = tkf.from_pretrained("path/to/model")  # doctest: +SKIP
        >>> tkf.layers(pre.model, pre.tokens("To be, or not to be"), depth=pre.depth).plot()  # doctest: +SKIP
    """
    return as_transformer(load(path, iterations=iterations, allow_pickle=allow_pickle))


def as_transformer(loaded: Loaded) -> Pretrained:
    """Return a loaded model as a `Transformer`."""
    if loaded.family is None or not loaded.architecture.supported:
        raise ValueError(f"model: {loaded.architecture.reason}")
    family, torch_model = loaded.family, loaded.model
    blocks = family.blocks(torch_model)
    found: dict[int, Transformer] = {}
    for block in blocks:
        if id(block) not in found:
            found[id(block)] = _layer(family, torch_model, block)
    last = family.final(torch_model)
    final = None if last is None else token_map(last)
    if len(found) == 1 and final is None:
        model = next(iter(found.values()))
    else:
        model = by_layer([found[id(block)] for block in blocks], final)
    return Pretrained(model, len(blocks), loaded.notes, loaded)


def _layer(family: AbstractFamily, torch_model: Any, block: Any) -> Transformer:
    """Return one block as a Transformer."""
    weights = family.block(torch_model, block)
    activation = NAMES.get(weights.activation, weights.activation)
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"model: activation {shown(activation)} is not supported (supported: {', '.join(ACTIVATIONS)})"
        )
    (W1, b1), (W2, b2) = weights.inner, weights.outer
    rule = PreNorm if family.norm == "pre" else PostNorm
    return Transformer(
        attention_of(family.weights(torch_model, block)),
        norm=rule(token_map(weights.attention_norm)),
        mlp=MLP(W1, W2, b1, b2, activation, weights.gate),
        mlp_norm=rule(token_map(weights.mlp_norm)),
    )


def token_map(module: Any) -> AbstractTokenMap:
    """Return a norm of torch, or of transformers, as a map of tokens."""
    gain = array(module.weight)
    if hasattr(module, "variance_epsilon"):
        return RMSNorm(gain, module.variance_epsilon)
    return LayerNorm(gain, np.zeros_like(gain) if module.bias is None else array(module.bias), module.eps)
