"""Llama and similar models: causal, pre-RMSNorm, rotary positions, key-value heads shared by several query heads."""

from typing import Any, ClassVar

from ..._shown import shown
from .base import AbstractFamily, BlockWeights, HeadWeights, array, by_heads, linear, output_by_heads


class Llama(AbstractFamily):
    """`x <- x + A(N(x))`, `x <- x + MLP(N(x))` (Touvron et al. 2023); SmolLM2, Mistral and Qwen2 have this layout."""

    model_types: ClassVar[tuple[str, ...]] = ("llama", "mistral", "qwen2")
    norm: ClassVar[str] = "pre"
    rms: ClassVar[bool] = True
    rotary: ClassVar[bool] = True

    def causal(self, config):
        return True

    def supports(self, config):
        kind = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
        if kind not in ("default", "linear", "llama3"):
            return (
                False,
                f"rotary positions of type {shown(kind)} are not supported (supported: default, linear, llama3)",
            )
        return True, ""

    def blocks(self, model):
        return list(model.layers[: model.config.num_hidden_layers])

    def attention(self, block):
        return block.self_attn

    def projection(self, block):
        return block.self_attn.o_proj

    def block(self, model, block):
        mlp = block.mlp
        maps = (linear(layer) for layer in (mlp.up_proj, mlp.down_proj, mlp.gate_proj))
        inner, outer, (gate, bias) = maps
        if bias.any():
            raise ValueError("model: a gate with a bias is not supported")
        norms = block.input_layernorm, block.post_attention_layernorm
        return BlockWeights(*norms, inner, outer, model.config.hidden_act, gate)

    def embedded(self, model, ids):
        return model.embed_tokens(ids)

    def final(self, model):
        return model.norm

    def weights(self, model: Any, block: Any) -> HeadWeights:
        own, config = block.self_attn, model.config
        heads, kv = config.num_attention_heads, config.num_key_value_heads
        shared = heads // kv
        Q, q = by_heads(*linear(own.q_proj), heads)
        K, k = by_heads(*linear(own.k_proj), kv, shared)
        V, v = by_heads(*linear(own.v_proj), kv, shared)
        W, b = linear(own.o_proj)
        everywhere = getattr(config, "sliding_window", None) if config.model_type == "mistral" else None
        window = getattr(own, "sliding_window", everywhere)
        return HeadWeights(
            Q, q, K, k, V, v, output_by_heads(W, heads), b, own.scaling,
            frequencies=array(model.rotary_emb.inv_freq), causal=True, window=window,
        )  # fmt: skip
