r"""
The layers of a real model as a flow
====================================

A stack of residual layers is Euler's method with step 1 for a differential equation in depth. Is the step small? We
give MiniLM (``make models`` installs it) a Pre-LN norm, run its six layers, and then the flow in which layer l acts
from time l to l + 1. We also add ALiBi, which makes tokens look at their neighbors.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

TEXT = "Before we proceed any further, hear me speak. You are all resolved rather to die than to famish?"

try:
    pre = tkf.from_pretrained("minilm", allow_pickle=True)
except ValueError as error:
    pre = None
    print("skipped:", error)

if pre is not None:
    model, tokens = pre.model.with_norm(tkf.PreLN()), pre.tokens(TEXT)
    variants = {"no ALiBi": model, "ALiBi, slope 1": model.with_positions(tkf.ALiBi(1.0))}
    layers = {name: tkf.layers(variant, tokens, depth=pre.depth) for name, variant in variants.items()}
    flows = {
        name: tkf.simulate(variant.continuous(), tokens, t1=6.0, rtol=1e-3, save_at=61)
        for name, variant in variants.items()
    }

# %%
# Dots are the mean cosine after each layer, lines are the flow. They differ by less than 0.01, so a layer is a small step
# here, and what the theory says about flows applies to these layers too. The kinks are the borders between layers,
# where the weights change.
#
# ALiBi hardly changes the mean cosine of this model under Pre-LN.

if pre is not None:
    tkf.plotting.use_style()
    figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for k, name in enumerate(layers):
        ax.plot(flows[name].times, tkf.mean_cosine(flows[name]), color=f"C{k}", label=name)
        ax.plot(layers[name].times, tkf.mean_cosine(layers[name]), "o", color=f"C{k}")
    ax.set(xlabel="depth (layers)", ylabel="mean cosine", ylim=(0, 0.5))
    ax.legend()
    plt.show()
