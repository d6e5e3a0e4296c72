r"""
Surgery on a pretrained model
=============================

What would a real model do without its MLPs, with another norm, with sharper attention, or with one head fewer? Each
question is one method of the model: it returns a changed model that runs at once, without training. The model is
MiniLM, a small BERT with 6 layers (``make models`` installs it).
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
    tokens, model = pre.tokens(TEXT), pre.model
    variants = {
        "as trained": model,
        "without MLPs": model.without_mlp(),
        "without heads 0 to 5": model.without_heads(range(6)),
        "scores × 3": model.with_scale(3 * 32**-0.5),
        "Pre-LN": model.with_norm(tkf.PreLN()),
        "its layers four times": model.repeated(4),
    }
    runs = {name: tkf.layers(variant, tokens, depth=24 if "four" in name else 6) for name, variant in variants.items()}

# %%
# Left: the mean cosine of the tokens, layer by layer. Half of the heads can go, and scores can be three times as large,
# with little effect. Without the MLPs tokens come together nearly twice as fast: attention makes tokens alike, and the
# MLPs set them apart again. A norm other than the one used in training has about the same effect.
#
# Right: the same six layers, applied four times. The mean cosine goes on rising, to 0.7 after 24 layers: a slow
# collapse, which the trained depth does not reach.

if pre is not None:
    tkf.plotting.use_style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.7), sharey=True, layout="constrained")
    for k, (name, run) in enumerate(runs.items()):
        ax = right if "four" in name else left
        ax.plot(run.times, tkf.mean_cosine(run), "o-", ms=3, color=f"C{k}", label=name)
    left.set(xlabel="layer", ylabel="mean cosine", ylim=(0, 1.02))
    right.set(xlabel="layer", title=f"{len(tokens.x)} tokens, layers applied four times")
    left.legend()
    plt.show()
