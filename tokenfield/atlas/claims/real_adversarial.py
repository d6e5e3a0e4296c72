"""Worst-case tokens for trained weights: does the Lipschitz constant really grow like √n, and up to which n?"""

import math

import numpy as np

from ..claim import OPEN, Check, Claim, Evidence, at_least, at_most, close
from ..real_models import COLORS, TITLES, attention_reads, loaded, with_models

QUICK, FULL = ("minilm", "albert"), ("rxnfp", "smollm2")
BLOCKS = {"minilm": (0, 3, 5), "albert": (0,), "rxnfp": (0, 6, 11), "smollm2": (0, 10, 20, 29)}


@with_models(*QUICK, full=FULL)
def measure(quick: bool) -> Evidence:
    from tokenfield.probe.extract import head_weights
    from tokenfield.probe.scores import lower_bound_gamma
    from tokenfield.probe.worst_case import extremes, worst_case

    lengths = (16, 64, 256) if quick else (16, 64, 256, 1024)
    checks, runs = [], {}
    for name in (*QUICK, *(() if quick else FULL)):
        powers, ratios, whole, printed, sharp, reach = [], [], [], [], [], []
        chosen = BLOCKS[name][: 1 if quick else None]
        for block in chosen:
            weights = head_weights(loaded(name), block)
            R = max(float(np.linalg.norm(text[block], axis=1).max()) for text in attention_reads(name))
            gaps = [extremes(weights, head).gap for head in range(len(weights.Q))]
            head = int(np.argmax(gaps))
            alone = worst_case(weights, head, R, lengths)
            powers.append(alone.law.power)
            ratios += [(alone.lower / alone.constants).max(), (alone.constants / alone.upper).max()]
            whole.append(worst_case(weights, head, R, lengths[:-1], whole=True).law.power)
            printed += list(R**2 * lower_bound_gamma(weights))
            sharp += [R**2 * gap / 2 for gap in gaps]
            reach.append(alone.exponent)
            runs[name, block] = alone
        title, blocks = TITLES[name], ", ".join(map(str, chosen))
        worst = powers[int(np.argmax(np.abs(np.array(powers) - 0.5)))]
        checks += [
            close(
                f"{title}, block {blocks}, worst tokens of a head: power of n farthest from ½", 0.5, worst, atol=0.02
            ),
            at_most(f"{title}: larger of lower bound / constant and constant / upper bound", 1.0, max(ratios)),
            Check(
                f"{title}: power of n of the whole layer at these tokens",
                OPEN,
                ", ".join(f"{power:.2f}" for power in whole),
                "no theorem",
                True,
            ),
            at_least(f"{title}: R²g of that head, so that √n holds up to a million tokens", math.log(1e6), min(reach)),
            at_least(
                f"{title}: least R²γ over heads (claimed: between 10² and 10³)", 100.0, min(printed), printed=True
            ),
            Check(
                f"{title}: medians over heads of R²γ, and of its sharp form R²g/2",
                OPEN,
                f"{np.median(printed):.3g}, {np.median(sharp):.3g}",
                "measured",
                True,
            ),
        ]
    return Evidence(tuple(checks), draw(runs), CAPTION)


CAPTION = (
    "For some blocks, local constants (dots) of the head with the largest score gap, at its explicit worst tokens in the smallest "
    "centered ball that contains the real ones, with the lower bound (lines). Dashed: slope ½."
)


def draw(runs):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    axes = figure.add_subplot(
        xlabel="number of tokens n", ylabel="local Lipschitz constant", xscale="log", yscale="log"
    )
    for index, ((name, block), one) in enumerate(runs.items()):
        axes.plot(one.lengths, one.lower, color=COLORS[name], lw=1)
        mark, label = "os^vDP*"[index % 7], f"{TITLES[name]}, block {block}"
        axes.plot(one.lengths, one.constants, mark, color=COLORS[name], ms=5, label=label)
    n = next(iter(runs.values())).lengths
    axes.plot(n, 0.5 * np.sqrt(n), color="black", ls="--", lw=1, label="$\\sqrt{n}$")
    axes.set_xticks(n, [str(k) for k in n])
    axes.set_xticks([], minor=True)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside right center")
    return figure


CLAIM = Claim(
    id="real_adversarial",
    section="Real models",
    title="With trained weights, worst-case tokens reach √n",
    statement="With the real A = KᵀQ/√k and OV of a trained head, and token norms no larger than in real texts, the explicit "
    "configuration of the lower bound has a local Lipschitz constant that grows like √n, between the proved bounds. This growth "
    "ends only near n = exp(R²g), more than a million. For the whole layer, with its other heads, biases and "
    "positions, the same tokens give a smaller power in some models. R²γ, from the real eigenvalues of A, is quoted as 10² to 10³ "
    "in practice: here many heads have less, though the sharp form R²g/2, which needs no real eigenvalue, is larger.",
    source="Castin, Ablin, Peyré, How smooth is attention?, 2024; Castin, Mean-field Transformer dynamics (talk, Hamburg 2025); "
    "the sharp form derived here",
    measure=measure,
)
