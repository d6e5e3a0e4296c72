"""ALBERT: BERT with one block used for all layers."""

from typing import Any, ClassVar

from .base import AbstractFamily, BlockWeights, HeadWeights, by_heads, linear, output_by_heads


class Albert(AbstractFamily):
    """`x <- LN(x + A(x))`, `x <- LN(x + MLP(x))` with the same A and MLP every time (Lan et al. 2020)."""

    model_types: ClassVar[tuple[str, ...]] = ("albert",)
    norm: ClassVar[str] = "post"

    def causal(self, config):
        return False

    def shared(self, config):
        return config.num_hidden_groups == 1 and config.inner_group_num == 1

    def blocks(self, model):
        depth, groups = model.config.num_hidden_layers, model.encoder.albert_layer_groups
        return [block for i in range(depth) for block in groups[int(i / (depth / len(groups)))].albert_layers]

    def attention(self, block):
        return block.attention

    def projection(self, block):
        return block.attention.dense

    def block(self, model, block):
        norms = block.attention.LayerNorm, block.full_layer_layer_norm
        maps = linear(block.ffn), linear(block.ffn_output)
        return BlockWeights(*norms, *maps, model.config.hidden_act)

    def embedded(self, model, ids):
        return model.encoder.embedding_hidden_mapping_in(model.embeddings(ids))

    def final(self, model):
        return None

    def weights(self, model: Any, block: Any) -> HeadWeights:
        own, heads = block.attention, model.config.num_attention_heads
        (Q, q), (K, k), (V, v) = (by_heads(*linear(layer), heads) for layer in (own.query, own.key, own.value))
        W, b = linear(own.dense)
        return HeadWeights(Q, q, K, k, V, v, output_by_heads(W, heads), b, own.scaling)
