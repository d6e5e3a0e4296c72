"""The layers of real models beside transformers: all hidden states of one text, with eager attention and the same threads."""

from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch

import tokenfield as tkf
from tokenfield._xla import WIDE_VECTORS
from tokenfield.flows.layers import LayerFlow
from tokenfield.probe.packages import english_text, model_path
from tokenfield.probe.pretrained import Pretrained

from .timing import against
from .velocity import cast

CASES = {"MiniLM": ("minilm", 256), "SmolLM2": ("smollm2", 512)}
ERRORS = {
    "float64": 1e-4,
    "float32": 1e-3,
}  # relative to the largest entry: parts of SmolLM2 are in single whatever it is given


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, time of transformers over ours), after comparing the last hidden states. Models that are not there are left out."""
    for name, (package, n) in CASES.items():
        try:
            pre, words = tkf.from_pretrained(model_path(package)), english_text().split()
        except ValueError as missing:
            print(f"  layers of {name} are left out: {missing}")
            continue
        text = next(text for text in (" ".join(words[:count]) for count in range(n // 2, n)) if len(pre.ids(text)) >= n)
        tokens = pre.tokens(text)
        for dtype in (np.float64, np.float32):
            ours = in_double(pre, tokens) if dtype == np.float64 else in_single(pre, tokens)
            theirs = by_transformers(pre, text, dtype)
            mine, expected = ours(), theirs()
            error = np.abs(mine - expected).max() / np.abs(expected).max()
            assert error < ERRORS[np.dtype(dtype).name], f"hidden states of {name} differ by {error}"
            case = f"layers of {name}, {tokens.n} tokens, {np.dtype(dtype).name}"
            yield case, against(ours, {"transformers": theirs}, least=3)


def in_double(pre: Pretrained, tokens: tkf.Tokens) -> Callable[[], np.ndarray]:
    return lambda: np.asarray(tkf.layers(pre.model, tokens, depth=pre.depth, progress=False).final.x)


def in_single(pre: Pretrained, tokens: tkf.Tokens) -> Callable[[], np.ndarray]:
    """The compiled layers alone, for `layers` runs in double."""
    flow, x = cast(
        (LayerFlow(model=pre.model, weights=tokens.weights, positions=tokens.positions), tokens.x), np.float32
    )

    def layer(flow: LayerFlow, x: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, _ = flow.layer(index, x, jnp.ones((), x.dtype))
        return y, y

    @eqx.filter_jit(compiler_options=WIDE_VECTORS)  # type: ignore[call-overload]
    def run(flow, x):
        return jax.lax.scan(lambda x, index: layer(flow, x, index), x, jnp.arange(pre.depth, dtype=x.dtype))[1]

    return lambda: np.asarray(run(flow, x))[-1]


def by_transformers(pre: Pretrained, text: str, dtype: type) -> Callable[[], np.ndarray]:
    """A pass of the model in a precision. Its own method to change it is forbidden if its file was quantized."""
    ids = torch.as_tensor(pre.ids(text))[None]
    model = (torch.nn.Module.double if dtype == np.float64 else torch.nn.Module.float)(pre.loaded.model)
    assert model.config._attn_implementation == "eager"

    def call() -> np.ndarray:
        with torch.no_grad():
            return model(ids, output_hidden_states=True).hidden_states[-1][0].numpy()

    return call
