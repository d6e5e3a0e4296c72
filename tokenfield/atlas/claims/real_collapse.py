"""Do the tokens of trained models collapse with depth, also when a shared block is iterated beyond its trained depth?"""

import numpy as np

from ..claim import Claim, Evidence, at_least, at_most
from ..real_models import COLORS, TITLES, layers, with_models

QUICK, FULL = ("minilm", "albert"), ("rxnfp", "smollm2")
DEEP = 48
NEAR = 0.9


@with_models(*QUICK, full=FULL)
def measure(quick: bool) -> Evidence:
    found = {name: layers(name, DEEP if name == "albert" else None) for name in (*QUICK, *(() if quick else FULL))}
    random = layers("albert", DEEP, 0)
    checks = []
    for name, one in found.items():
        rho = one.cosine.mean(1)
        depths = (12, 24, DEEP) if name == "albert" else (len(rho) - 1,)
        title = TITLES[name]
        checks.append(
            at_least(f"{title}: mean cosine at layer {depths[0]} minus that of embeddings", 0, rho[depths[0]] - rho[0])
        )
        for depth in depths:
            checks.append(
                at_least(
                    f"{title}: mean cosine at layer {depth} (claimed: near 1)",
                    NEAR,
                    rho[depth],
                    printed=True,
                )
            )
    albert = found["albert"]
    checks += [
        at_most(f"ALBERT, {DEEP} iterations: fraction of pairs with a cosine above {NEAR}", 0.1, albert.near[DEEP]),
        at_least(f"ALBERT with random weights, {DEEP} iterations: mean cosine", NEAR, random.cosine[DEEP].mean()),
        at_least(
            "ALBERT with random weights: smallest increase of the mean cosine per iteration, after the first",
            0,
            np.diff(random.cosine.mean(1)[1:]).min(),
        ),
    ]
    return Evidence(tuple(checks), draw(found, random), CAPTION)


CAPTION = (
    "Left: mean cosine over pairs of tokens at each layer; bands: range over the texts; the last layer of SmolLM2 is after its "
    "final norm. Right: histogram of all cosines for ALBERT's trained block on reactions, iterated up to four times its trained "
    "depth (dashed); darker means more pairs."
)


def draw(found, random):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, one in found.items():
        layer = np.arange(len(one.cosine))
        left.fill_between(layer, one.cosine.min(1), one.cosine.max(1), color=COLORS[name], alpha=0.15, lw=0)
        left.plot(layer, one.cosine.mean(1), color=COLORS[name], label=TITLES[name])
    left.plot(random.cosine.mean(1), color=COLORS["albert"], ls="--", label="ALBERT, random weights")
    left.set(xlabel="layer", ylabel="mean cosine", ylim=(0, 1.02), xlim=(0, DEEP))
    figure.legend(*left.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=5)
    counts = found["albert"].histogram
    edges = np.linspace(-0.6, 1.0, counts.shape[1] + 1)
    share = counts / counts.sum(1, keepdims=True)
    right.pcolormesh(np.arange(DEEP + 2) - 0.5, edges, np.sqrt(share).T, cmap="YlGnBu", rasterized=True)
    right.axvline(12, color="black", lw=0.8, ls="--")
    right.set(xlabel="iteration of the block", ylabel="cosine of two tokens")
    return figure


CLAIM = Claim(
    id="real_collapse",
    section="Real models",
    title="Cosines in trained models rise with depth, but need not concentrate near 1",
    statement="The survey's Figure 1 shows the cosines between tokens of ALBERT-xlarge concentrating near 1 over 48 layers. In the "
    "models measured here the mean cosine after the last layer is above that of the embeddings, but far from 1. ALBERT's shared "
    "block (trained on reactions, 12 iterations) does not collapse tokens when it is iterated 24 or 48 times either. With random "
    "weights the same block does: the mean cosine rises in every iteration but the first, which also normalizes the embeddings.",
    source="Rigollet, The mean-field dynamics of Transformers, Figure 1 (after Geshkovski, Letrouit, Polyanskiy, Rigollet); "
    "measured here on models inside registry packages",
    measure=measure,
)
