"""Growth of the local Lipschitz constants of trained attention layers with the length of real text."""

import numpy as np

from ..claim import OPEN, Check, Claim, Evidence, at_most
from ..real_models import COLORS, TITLES, loaded, passages, with_models

QUICK, FULL = ("minilm",), ("albert", "rxnfp", "smollm2")
BLOCKS = {"minilm": (0, 3), "albert": (0, 4, 8, 11), "rxnfp": (0, 4, 8, 11), "smollm2": (0, 5, 10, 15, 20, 25, 29)}


def growth(name: str, quick: bool):
    """Return the constants of some blocks of a model on parts of its texts."""
    from tokenfield.probe.smoothness import measure_smoothness

    lengths, samples = ((8, 24, 72), 2) if quick else ((8, 16, 32, 64, 128), 6)
    lengths = [n for n in lengths if n <= max(len(part.ids) for part in passages(name))]
    blocks = BLOCKS[name] if quick or name != "minilm" else range(6)
    return measure_smoothness(loaded(name), passages(name), lengths, samples=samples, blocks=blocks, progress=False)


@with_models(*QUICK, full=FULL)
def measure(quick: bool) -> Evidence:
    checks, found = [], {}
    for name in (*QUICK, *(() if quick else FULL)):
        data, notes = growth(name, quick)
        found[name] = data
        ratio = float((data["lipschitz"].max("sample") / data["lipschitz_upper"]).max())
        checks.append(at_most(f"{TITLES[name]}: largest constant / data-dependent bound", 1.0, ratio))
        for block in data["block"].values[np.isfinite(data["lipschitz_power"])]:
            power, low, high = (float(data[f"lipschitz_power{part}"][block]) for part in ("", "_low", "_high"))
            what = f"{TITLES[name]}, block {block}: fitted power of n"
            interval = f"95 %: {low:.2f} … {high:.2f}".replace("-", "−")
            checks.append(Check(what, OPEN, f"{power:.3f}", interval, not notes))
    first = found["minilm"].isel(block=0)
    inside = float(first["lipschitz_power_low"]) <= 0.25 <= float(first["lipschitz_power_high"])
    interval = f"{float(first['lipschitz_power_low']):.2f} … {float(first['lipschitz_power_high']):.2f}"
    checks.append(
        Check("MiniLM, block 0: power of n (claimed: ¼ in every layer)", "0.25", interval, "95 %", inside, printed=True)
    )
    return Evidence(tuple(checks), draw(found), CAPTION)


CAPTION = (
    "Left: geometric means of the constants over samples of text, one line per block, darker for later blocks. Right: the "
    "fitted powers with 95 % intervals against relative depth; dashed: ¼ and ½."
)


def draw(found):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for shift, (name, data) in enumerate(found.items()):
        blocks = data["block"].values[np.isfinite(data["lipschitz_power"])]
        depth = data.sizes["block"]
        for place, block in enumerate(blocks):
            values = np.exp(np.log(data["lipschitz"].isel(block=block)).mean("sample"))
            shade = 0.35 + 0.65 * (place + 1) / len(blocks)
            left.plot(data["length"], values, "o-", ms=3, lw=1, color=COLORS[name], alpha=shade)
        power, low, high = (data[f"lipschitz_power{part}"].values[blocks] for part in ("", "_low", "_high"))
        where = blocks / (depth - 1) + 0.008 * shift
        right.errorbar(
            where, power, (power - low, high - power), fmt="o", ms=3.5, lw=1, color=COLORS[name], label=TITLES[name]
        )
    left.set(xscale="log", yscale="log", xlabel="number of tokens n", ylabel="local Lipschitz constant")
    for level in (0.25, 0.5):
        right.axhline(level, color="black", lw=0.8, ls="--")
    right.set(xlabel="block / last block", ylabel="power of n")
    right.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="real_lipschitz",
    section="Real models",
    title="On real text the Lipschitz constant of attention grows with a power that depends on the layer",
    statement="About n^¼ was reported for the local Lipschitz constant of self-attention on text, with p = .24 for the first "
    "layer of BERT, and .51 for a middle layer of GPT-2. Measured here with the real weights, biases, heads, mask and positions of "
    "four models: powers differ from layer to layer, about 0.3 in the middle of MiniLM, less in its first layer, whose interval "
    "excludes 1/4. So 1/4 is typical but not universal. All constants stay below the data-dependent bound.",
    source="Castin, Ablin, Peyré, How smooth is attention?, 2024 (experiments on BERT and GPT-2); measured here",
    measure=measure,
)
