"""GPT-2: causal, pre-LN, absolute positions."""

from typing import Any, ClassVar

import numpy as np

from .base import AbstractFamily, BlockWeights, HeadWeights, array, by_heads, output_by_heads


class GPT2(AbstractFamily):
    """`x <- x + A(LN(x))`, `x <- x + MLP(LN(x))` (Radford et al. 2019)."""

    model_types: ClassVar[tuple[str, ...]] = ("gpt2",)
    norm: ClassVar[str] = "pre"

    def causal(self, config):
        return True

    def supports(self, config):
        if getattr(config, "add_cross_attention", False):
            return False, "cross-attention is not supported (supported: self-attention)"
        if getattr(config, "reorder_and_upcast_attn", False):
            return False, "reorder_and_upcast_attn is not supported (supported: the default order of products)"
        return True, ""

    def blocks(self, model):
        return list(model.h)

    def attention(self, block):
        return block.attn

    def projection(self, block):
        return block.attn.c_proj

    def block(self, model, block):
        first, second = block.mlp.c_fc, block.mlp.c_proj  # which store their matrices transposed
        inner, outer = ((array(layer.weight).T, array(layer.bias)) for layer in (first, second))
        return BlockWeights(block.ln_1, block.ln_2, inner, outer, model.config.activation_function)

    def embedded(self, model, ids):
        import torch

        return model.wte(ids) + model.wpe(torch.arange(ids.shape[1])[None])

    def final(self, model):
        return model.ln_f

    def weights(self, model: Any, block: Any) -> HeadWeights:
        own, heads = block.attn, model.config.num_attention_heads
        # These layers store their matrices transposed, and queries, keys and values side by side.
        W, b = array(own.c_attn.weight).T, array(own.c_attn.bias)
        (Q, q), (K, k), (V, v) = map(lambda W, b: by_heads(W, b, heads), np.split(W, 3), np.split(b, 3))
        O = output_by_heads(array(own.c_proj.weight).T, heads)  # noqa: E741
        return HeadWeights(Q, q, K, k, V, v, O, array(own.c_proj.bias), own.scaling, causal=True)
