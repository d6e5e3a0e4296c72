"""BERT and similar models: post-LN encoders with absolute positions."""

from typing import Any, ClassVar

from ..._shown import shown
from .base import AbstractFamily, BlockWeights, HeadWeights, by_heads, linear, output_by_heads


class Bert(AbstractFamily):
    """`x <- LN(x + A(x))`, then `x <- LN(x + MLP(x))` (Devlin et al. 2019); MiniLM has this layout."""

    model_types: ClassVar[tuple[str, ...]] = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
    norm: ClassVar[str] = "post"

    def causal(self, config):
        return bool(getattr(config, "is_decoder", False))

    def supports(self, config):
        kind = getattr(config, "position_embedding_type", "absolute") or "absolute"
        if kind != "absolute":
            return False, f"position_embedding_type {shown(kind)} is not supported (supported: 'absolute')"
        return True, ""

    def lost_positions(self, config):
        # RoBERTa counts positions from pad_token_id + 1.
        shifted = config.model_type in ("roberta", "xlm-roberta", "camembert")
        return (config.pad_token_id or 0) + 1 if shifted else 0

    def blocks(self, model):
        return list(model.encoder.layer)

    def attention(self, block):
        return block.attention.self

    def projection(self, block):
        return block.attention.output.dense

    def block(self, model, block):
        norms = block.attention.output.LayerNorm, block.output.LayerNorm
        maps = linear(block.intermediate.dense), linear(block.output.dense)
        return BlockWeights(*norms, *maps, model.config.hidden_act)

    def embedded(self, model, ids):
        x = model.embeddings(ids)
        return model.embeddings_project(x) if hasattr(model, "embeddings_project") else x

    def final(self, model):
        return None

    def weights(self, model: Any, block: Any) -> HeadWeights:
        own, heads = block.attention.self, model.config.num_attention_heads
        (Q, q), (K, k), (V, v) = (by_heads(*linear(layer), heads) for layer in (own.query, own.key, own.value))
        W, b = linear(block.attention.output.dense)
        causal = self.causal(model.config)
        return HeadWeights(Q, q, K, k, V, v, output_by_heads(W, heads), b, own.scaling, causal=causal)
