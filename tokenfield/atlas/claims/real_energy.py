"""Does the interaction energy rise from layer to layer in trained models, as it does along the flow?"""

import numpy as np

from ..claim import Claim, Evidence, at_least, equal
from ..real_models import COLORS, SCALES, TITLES, layers, with_models

QUICK, FULL = ("minilm", "albert"), ("rxnfp", "smollm2")


def falls(energy: np.ndarray) -> int:
    """Return the number of layers in which the mean energy over texts falls."""
    return int((np.diff(energy) < 0).sum())


@with_models(*QUICK, full=FULL)
def measure(quick: bool) -> Evidence:
    found = {name: layers(name, 48 if name == "albert" else None) for name in (*QUICK, *(() if quick else FULL))}
    checks = []
    for name, one in found.items():
        for place, beta in enumerate(SCALES):
            energy = one.energy[..., place].mean(1)
            what = f"{TITLES[name]}, β = {beta:g}"
            if beta == 4:
                ends = f"{what}: energy after the last layer / energy of the embeddings"
                checks.append(at_least(ends, 1.0, energy[-1] / energy[0]))
            checks.append(
                equal(
                    f"{what}: number of layers, of {len(energy) - 1}, in which the energy falls",
                    0,
                    falls(energy),
                    printed=True,
                )
            )
    random = layers("albert", 48, 0)
    for place, beta in enumerate(SCALES):
        fallen = falls(random.energy[1:, :, place].mean(1))
        checks.append(
            equal(
                f"ALBERT with random weights, β = {beta:g}: number of iterations 2 to 48 in which it falls", 0, fallen
            )
        )
    return Evidence(tuple(checks), draw(found, random), CAPTION)


CAPTION = "Normalized energy of the directions of tokens at β = 4, mean over texts; dots mark layers in which it falls."


def draw(found, random):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, 3.6), layout="constrained")
    axes = figure.add_subplot(xlabel="layer", ylabel="normalized energy, β = 4", yscale="log")
    place = SCALES.index(4.0)
    for name, one in found.items():
        energy = one.energy[..., place].mean(1)
        axes.plot(energy, color=COLORS[name], label=TITLES[name])
        down = np.flatnonzero(np.diff(energy) < 0) + 1
        axes.plot(down, energy[down], "o", color=COLORS[name], ms=3.5)
    axes.plot(random.energy[..., place].mean(1), color=COLORS["albert"], ls="--", label="ALBERT, random weights")
    axes.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="real_energy",
    section="Real models",
    title="The interaction energy of trained models rises overall, but not in every layer",
    statement="Along SA and USA the interaction energy never falls. Trained models have other value matrices, MLPs and a finite "
    "step: in all models measured here the normalized energy of token directions (at fixed β, so that layers can be compared) "
    "falls in some layers, though at β = 4 it ends above its initial value. With random weights ALBERT's iterated block increases "
    "it in every iteration after the first, which also normalizes the embeddings.",
    source="Rigollet, The mean-field dynamics of Transformers, §3 (gradient ascent of the energy); measured here",
    measure=measure,
)
