r"""
Do tokens cluster in a trained model? (Figure 1 of the survey)
==============================================================

Figure 1 of the survey shows cosines of tokens in ALBERT XLarge, whose one block is applied again and again. They move
toward 1 as the depth grows. We do the same with a small ALBERT, which was trained on chemical reactions and comes with
a package that ``make models`` installs. Without it, this example says so and stops.

``from_pretrained`` turns the model into a ``Transformer``: the same layers, with the weights of the real one.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf
from tokenfield.probe.packages import model_path, reactions

try:
    pre = tkf.from_pretrained(model_path("albert"), iterations=48, allow_pickle=True)
except ValueError as error:
    pre = None
    print("skipped:", error)

if pre is not None:
    tokens = pre.tokens(reactions()[0])
    traj = tkf.layers(pre.model, tokens, depth=48)
    print(
        f"{len(tokens.x)} tokens in R^{tokens.x.shape[1]}; mean cosines:", tkf.mean_cosine(traj)[::12].values.round(3)
    )

# %%
# Histograms of the cosines of all pairs of tokens, at four depths. The dashed line is the mean. The block was trained
# to be applied 12 times. Applied 48 times, it does bring tokens closer, but not to one point: a few pairs have become
# one (the bar at 1), while most stay near 0.2. The survey's picture, in which nearly all cosines are close to 1 at the
# end, is not a law of all trained models.

if pre is not None:
    tkf.plotting.use_style()
    figure, axes = plt.subplots(1, 4, figsize=(9.4, 2.8), sharex=True, sharey=True, layout="constrained")
    for ax, layer in zip(axes, (0, 5, 30, 48), strict=True):
        cosines = tkf.pairwise_cosines(traj.state(layer))
        ax.hist(cosines, bins=np.linspace(-0.5, 1, 61), density=True)
        ax.axvline(cosines.mean(), color="C1", ls="--")
        ax.set(title=f"layer {layer}, mean {cosines.mean():.2f}", xlabel="cosine of two tokens")
    axes[0].set_ylabel("density of pairs")
    plt.show()
