"""A forward pass that passes every layer to a visitor and stores none."""

import abc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from .extra import need
from .loading import Loaded
from .texts import Batch

NAME = "tokenfield_probe"  # of our attention function in the registry of transformers
EAGER_ENTRIES = 1 << 24  # up to this many scores, the model's own softmax is run; above, a fused one in blocks


class AbstractVisitor(abc.ABC):
    """The callbacks of a forward pass, in order: `hidden(0)`, `attention(0)`, `output(0)`, `hidden(1)`, …, `hidden(depth)`.

    Tensors are the model's own: copy them to keep them.
    """

    @abc.abstractmethod
    def hidden(self, layer: int, x: Any) -> None:
        """Receive the input of block `layer`, (B, n, d); for layer = depth, the output of the model (after its final norm)."""

    def attention(self, block: int, x: Any, q: Any, k: Any, v: Any, scaling: float) -> None:
        """Receive the input of attention, (B, n, d), its queries, (B, H, n, k), and keys and values, (B, H', n, k), H' <= H."""
        return

    def output(self, block: int, y: Any) -> None:
        """Receive the output of attention, (B, n, d), before residual and norm."""
        return

    def stream(self, x: Any) -> None:
        """Receive the output of the last block, (B, n, d), before the final norm."""
        return


def stream(loaded: Loaded, batch: Batch, visitor: AbstractVisitor) -> None:
    """Run the model on a batch and call `visitor` for every layer; memory does not grow with depth.

    Hidden states are those of `output_hidden_states=True`. Queries and keys are taken just before their product, after rotary
    positions, so that their softmax is that of `output_attentions=True`. The attention of families that are not in the
    table is not passed on.
    """
    torch = need("torch")
    model, family = loaded.model, loaded.family
    blocks = family.blocks(model) if family is not None else plain_blocks(model)
    state = _State(visitor, len(blocks))
    with ExitStack() as stack, torch.inference_mode():
        for block in _distinct(blocks):
            stack.callback(block.register_forward_pre_hook(state.enter, with_kwargs=True).remove)
            stack.callback(block.register_forward_hook(state.leave).remove)
            if family is not None:
                attention, projection = family.attention(block), family.projection(block)
                stack.callback(attention.register_forward_pre_hook(state.attention_input, with_kwargs=True).remove)
                stack.callback(projection.register_forward_hook(state.attention_output).remove)
        if family is not None:
            stack.enter_context(_showing(model, state))
        ids = torch.as_tensor(batch.ids, dtype=torch.long)
        found = model(input_ids=ids, attention_mask=torch.as_tensor(batch.mask, dtype=torch.long))
        visitor.hidden(len(blocks), found.last_hidden_state)


def plain_blocks(model: Any) -> list[Any]:
    """Return the blocks of any model: the list of modules whose length is the depth in the config."""
    torch, depth = need("torch"), model.config.num_hidden_layers
    lists = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == depth]
    if not lists:
        raise ValueError(f"model: the {depth} blocks of the model, of type {model.config.model_type}, were not found")
    return list(lists[0])


def _distinct(blocks: list[Any]) -> list[Any]:
    return list({id(block): block for block in blocks}.values())


class _State:
    """Count blocks; a shared block is entered several times."""

    def __init__(self, visitor: AbstractVisitor, depth: int):
        self.visitor, self.depth, self.block, self.x = visitor, depth, -1, None

    def enter(self, module: Any, arguments: tuple, named: dict[str, Any]) -> None:
        self.block += 1
        self.visitor.hidden(self.block, _first(arguments, named))

    def attention_input(self, module: Any, arguments: tuple, named: dict[str, Any]) -> None:
        self.x = _first(arguments, named)

    def attention_scores(self, q: Any, k: Any, v: Any, scaling: float) -> None:
        self.visitor.attention(self.block, self.x, q, k, v, scaling)
        self.x = None

    def attention_output(self, module: Any, arguments: tuple, output: Any) -> None:
        self.visitor.output(self.block, output)

    def leave(self, module: Any, arguments: tuple, output: Any) -> None:
        if self.block == self.depth - 1:
            self.visitor.stream(output[0] if isinstance(output, tuple) else output)


def _first(arguments: tuple, named: dict[str, Any]) -> Any:
    return arguments[0] if arguments else named["hidden_states"]


@contextmanager
def _showing(model: Any, state: _State) -> Iterator[None]:
    """Replace the model's attention by one that passes q, k, v to the visitor and then computes the same."""
    utils, masks = need("transformers.modeling_utils"), need("transformers.masking_utils")
    sdpa = need("transformers.integrations.sdpa_attention").sdpa_attention_forward

    def many(texts, n):
        return texts * model.config.num_attention_heads * n**2 > EAGER_ENTRIES

    def mask(batch_size, q_length, *arguments, **options):
        """Return the mask, or None if the fused softmax does not need it: n x n numbers would take most of the memory."""
        make = masks.sdpa_mask if many(batch_size, q_length) else masks.eager_mask
        return make(batch_size, q_length, *arguments, **options)

    def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **options):
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        state.attention_scores(query, key, value, scale)
        eager = import_module(type(module).__module__).eager_attention_forward
        own = sdpa if many(query.shape[0], query.shape[2]) else eager
        return own(module, query, key, value, attention_mask, scaling=scale, dropout=0.0, **options)

    before = model.config._attn_implementation
    utils.AttentionInterface.register(NAME, attention)
    masks.AttentionMaskInterface.register(NAME, mask)
    model.config._attn_implementation = NAME
    try:
        yield
    finally:
        model.config._attn_implementation = before
