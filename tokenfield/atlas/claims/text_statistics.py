"""Which statistics of real text explain how the Lipschitz constant of attention grows."""

import numpy as np

import tokenfield as tkf
from tokenfield.attention import AbstractAttention
from tokenfield.lipschitz import Growth, correlation_by_distance, data_model, growth, sequence_model
from tokenfield.lipschitz.data_models import Sampler

from ..claim import OPEN, Check, Claim, Evidence, at_least, close
from ..real_models import PASSAGES, loaded, with_models
from .lipschitz_growth import KINDS

TEXT = {
    "text": "text",
    "shuffled": "random tokens of text",
    "model": "Gaussian fit, correlated",
    "independent": "Gaussian fit, independent",
}
QUICK = ("text", "model", "independent", "gaussian")
BLOCKS = {"block 0": 0, "block 3": 3}
LETTERS, TOKENS = 1200, 200  # characters and tokens of a passage


def hidden_states() -> tuple[tkf.Transformer, list[np.ndarray]]:
    """Return MiniLM, and all hidden states (layers, n, d) of a few English passages."""
    from ...probe.packages import english_text
    from ...probe.pretrained import as_transformer

    pre, text = as_transformer(loaded("minilm")), english_text()
    starts = range(0, len(text), len(text) // PASSAGES)[:PASSAGES]
    begun = [tkf.Tokens(pre.tokens(text[at : at + LETTERS]).x[:TOKENS]) for at in starts]
    runs = [tkf.layers(pre.model, each, pre.depth, progress=False) for each in begun]
    return pre.model, [run.dataset["x"].values for run in runs]


def samplers(states: list[np.ndarray]) -> dict:
    """Return samplers `(n, seed) -> tokens` of text, of Gaussian fits to it, and of the data models, with equal mean |x|^2."""
    tokens = np.concatenate(states)
    d = tokens.shape[1]
    scale = float(np.sqrt(np.square(tokens).sum(1).mean() / d))

    def text(n: int, seed: int) -> np.ndarray:
        part = states[seed % len(states)]
        begin = np.random.default_rng(seed).integers(len(part) - n + 1)
        return part[begin : begin + n]

    def shuffled(n: int, seed: int) -> np.ndarray:
        return tokens[np.random.default_rng(seed).choice(len(tokens), n, replace=False)]

    like = {"model": sequence_model(states), "independent": sequence_model(states, independent=True)}
    return {"text": text, "shuffled": shuffled} | like | {kind: data_model(kind, d, scale=scale) for kind in KINDS}


def neighbors(label: str, states: list[np.ndarray]) -> Check:
    """Check that neighbors have the same correlation in the Gaussian model as in text."""
    text, length = correlation_by_distance(states)[1], min(map(len, states))
    draws = [sequence_model(states)(length, seed).x for seed in range(20)]
    what = f"{label}: correlation of neighbors in text, and in its Gaussian model"
    return close(what, text, correlation_by_distance(draws)[1], atol=0.01)


def without_order(label: str, attention: AbstractAttention, text: Sampler) -> Check:
    """Check that the order within a window of text does not matter: attention is permutation equivariant."""
    x = text(32, 1)
    mixed = x[np.random.default_rng(0).permutation(len(x))]
    constant, other = (tkf.lipschitz.local(attention, tkf.Tokens(each), rtol=1e-8).constant for each in (x, mixed))
    return close(
        f"{label}: constant of 32 consecutive tokens / the same in another order", 1.0, constant / other, atol=1e-6
    )


def powers(label: str, found: dict[str, Growth]) -> list[Check]:
    """Return checks of the fitted powers, and of what makes them larger."""
    checks = []
    for name, each in found.items():
        low, high = each.law.interval
        interval = f"95 %: {low:.2f} … {high:.2f}".replace("-", "−")
        what = f"{label}, {(TEXT | KINDS)[name]}: fitted power of n"
        checks.append(Check(what, OPEN, f"{each.law.power:.3f}", interval, each.converged))
    law = {name: each.law for name, each in found.items()}
    half = lambda name: (law[name].interval[1] - law[name].interval[0]) / 2  # noqa: E731
    change = law["model"].power - law["independent"].power
    allowed = float(np.hypot(half("model"), half("independent")))
    gain = law["independent"].power - law["gaussian"].power
    return [
        *checks,
        close(f"{label}: power with correlations minus power without", 0.0, change, atol=allowed),
        at_least(f"{label}: power with the covariance of text minus power of isotropic tokens", 0.0, gain),
    ]


@with_models("minilm")
def measure(quick: bool) -> Evidence:
    model, states = hidden_states()
    lengths, repeats = ((8, 48), 5) if quick else ((8, 16, 32, 64, 128), 12)
    checks, found, decay = [], {}, {}
    for label, layer in list(BLOCKS.items())[: 1 if quick else 2]:
        here = [each[layer] for each in states]
        drawn = {name: each for name, each in samplers(here).items() if not quick or name in QUICK}
        attention = model.at_layer(layer).attention
        found[label] = {
            name: growth(attention, each, lengths, repeats, rtol=1e-3, progress=False) for name, each in drawn.items()
        }
        decay[label] = correlation_by_distance(here)
        checks += [neighbors(label, here), without_order(label, attention, drawn["text"]), *powers(label, found[label])]
    return Evidence(tuple(checks), draw(found, decay), CAPTION)


CAPTION = (
    "Left: correlation of tokens of text at distance k, at the input of two blocks of MiniLM. Right: powers of n fitted to the "
    "local Lipschitz constant of these blocks, with 95 % intervals, for text, for Gaussian fits to it, and for random tokens "
    "with the same mean square norm; dashed: 1/4 and 1/2."
)
COLORS = {"block 0": "#0072B2", "block 3": "#D55E00"}


def draw(found, decay):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    for shift, (label, growths) in enumerate(found.items()):
        color, places = COLORS[label], np.arange(len(growths))[::-1] - 0.22 * shift
        left.plot(np.arange(1, 64), decay[label][1:64], "o-", ms=2.5, lw=1, color=color, label=label)
        power = np.array([each.law.power for each in growths.values()])
        low, high = np.array([each.law.interval for each in growths.values()]).T
        right.errorbar(power, places, xerr=(power - low, high - power), fmt="o", ms=4, lw=1, color=color, label=label)
        right.set_yticks(np.arange(len(growths))[::-1], [(TEXT | KINDS)[name] for name in growths])
    left.axhline(0, color="black", lw=0.8)
    left.set(xlabel="distance k in the text", ylabel="correlation")
    for power in (0.25, 0.5):
        right.axvline(power, color="black", lw=0.8, ls="--")
    right.set(xlabel="power of n")
    left.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="text_statistics",
    section="Real models",
    title="What makes the Lipschitz constant grow on text: the directions of its tokens more than their correlations",
    statement="Which statistical model of data explains the growth like n^¼ on real text is an open question. In the first block "
    "of MiniLM the power is about 1/4 on text, and the same on tokens drawn from it at random. Attention does not see the order of "
    "tokens, only which tokens occur together. In a Gaussian model with the mean and the covariance of text, adding the measured "
    "decay of correlations changes the power, 0.3 to 0.4, by less than the error of the fit: the correlation of neighbors is only "
    "0.1. Isotropic tokens with the same mean square norm have a power of 0.16, so the directions in which tokens vary matter; the "
    "Gaussian model gives too large a power. In a middle block the constant hardly grows on consecutive text, while it does on "
    "random tokens of text and in the Gaussian models, with powers near 0.2: there these statistics do not explain it.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part IV (the question), on How smooth is "
    "attention?, 2024; measured here",
    measure=measure,
)
