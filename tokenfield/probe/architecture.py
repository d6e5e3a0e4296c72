"""The architecture of a model, read from its config."""

import dataclasses
from typing import Any

from .families import FAMILIES, family_of


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The properties of a model that the theory needs.

    Attributes:
        family: the `model_type` of the config, such as "bert".
        norm: "post" for `x <- N(x + A(x))`, "pre" for `x <- x + A(N(x))`, "unknown" for a family not in the table.
        rms: True for RMS norm (lengths only), False for layer norm (the mean is subtracted too).
        causal: token i attends to tokens j <= i only.
        depth: number of blocks that are run; hidden states are 0 (embeddings) … depth.
        heads, kv_heads: query heads, and key-value heads (fewer where several queries share one).
        width, head_width: dimension of a token, and of a head's queries.
        shared_block: one block is used for all layers, as in the autonomous flow of the theory.
        rotary: queries and keys are rotated by their positions.
        positions_limit: the longest sequence, or None.
        quantized: how the weights were stored, e.g. "Q4_1", or None for plain floating point.
        supported: attention can be extracted and rebuilt.
        reason: why attention is not supported.
    """

    family: str
    norm: str
    rms: bool
    causal: bool
    depth: int
    heads: int
    kv_heads: int
    width: int
    head_width: int
    shared_block: bool
    rotary: bool
    positions_limit: int | None
    quantized: str | None
    supported: bool
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return dataclasses.asdict(self)

    @property
    def norm_name(self) -> str:
        """The name of the rule, e.g. "post-LN" or "pre-RMSNorm"."""
        return "norm unknown" if self.norm == "unknown" else f"{self.norm}-{'RMSNorm' if self.rms else 'LN'}"


def detect(config: Any, *, quantized: str | None = None, iterations: int | None = None) -> Architecture:
    """Return the architecture of a `transformers` config; new families are added to the table `families.FAMILIES`.

    Example:
        >>> from transformers import BertConfig
        >>> detect(BertConfig()).norm_name
        'post-LN'
    """
    family = family_of(config)
    name = str(getattr(config, "model_type", "") or "unknown")
    heads = int(getattr(config, "num_attention_heads", 0) or 0)
    width = int(getattr(config, "hidden_size", 0) or 0)
    depth = int(getattr(config, "num_hidden_layers", 0) or 0)
    if depth < 1 or width < 1:
        raise ValueError(f"model: a {name} model has no layers of tokens to measure (num_hidden_layers, hidden_size)")
    shared = family is not None and family.shared(config)
    if iterations is not None:
        if not shared:
            raise ValueError(
                f"iterations must be None for a {name} model, got {iterations}: only a model with one shared block (ALBERT) "
                "can be run deeper than trained"
            )
        depth = iterations
    supported, reason = (False, "") if family is None else family.supports(config)
    if family is None:
        known = ", ".join(sorted(name for family in FAMILIES for name in family.model_types))
        reason = (
            f"attention of models of type {name} is not supported (supported: {known}); only hidden states are measured"
        )
    limit = getattr(config, "max_position_embeddings", None)
    return Architecture(
        family=name,
        norm="unknown" if family is None else family.norm,
        rms=family is not None and family.rms,
        causal=family is not None and family.causal(config),
        depth=depth,
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        width=width,
        head_width=int(getattr(config, "head_dim", None) or (width // heads if heads else 0)),
        shared_block=shared,
        rotary=family is not None and family.rotary,
        positions_limit=None
        if limit is None
        else int(limit) - (0 if family is None else family.lost_positions(config)),
        quantized=quantized,
        supported=supported,
        reason=reason,
    )
