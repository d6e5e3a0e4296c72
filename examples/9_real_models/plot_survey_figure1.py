r"""
Do tokens cluster in a trained model? (Figure 1 of the survey)
==============================================================

Figure 1 of the survey shows cosines of tokens in ALBERT XLarge, whose one block is applied again and again. They move
toward 1 as the depth grows. We do the same with a small ALBERT, which was trained on chemical reactions and comes with
a package that ``make models`` installs. Without it, this example says so and stops.

``from_pretrained`` turns the model into a ``Transformer``: the same layers, with the weights of the real one.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

try:
    pre = tkf.from_pretrained("albert", iterations=48, allow_pickle=True)
except ValueError as error:
    pre = None
    print("skipped:", error)

if pre is not None:
    tokens = pre.tokens(tkf.probe.reactions()[0])
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
    figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    tkf.plotting.cosine_histograms(traj, layers=(0, 5, 30, 48), ax=ax)
    plt.show()
