r"""
Which positions does a real model use?
======================================

The gradient of the last token's hidden state says how much it depends on each token of a text. Here it is measured in
SmolLM2, a causal model (``make models`` installs it), after one to eight of its layers, for three texts.
"""

import tokenfield as tkf

try:
    pre = tkf.from_pretrained("smollm2")
    text = tkf.probe.english_text()
except ValueError as error:
    pre = None
    print("skipped:", error)

if pre is not None:
    texts = [text[start : start + 500] for start in (0, 2000, 4000)]
    found = tkf.probe.position_influence(pre, texts, tokens=64, depths=(1, 2, 4, 8))
    own = found.share[:, -1]  # what the last token itself has
    for depth, share, lost, fit in zip(found.depths, own, found.lost, found.fit(), strict=True):
        print(f"{depth} layers: itself {share:.0%}, least at {lost:.2f}; alpha {fit.alpha:.2f}, slope {fit.slope:.2f}")

# %%
# Dots are the shares of the positions, from gradients through all parts of a layer: attention with its scores, norms
# and MLPs. One is an equal share. The last token depends on itself most (circles), and on its neighbors. After one
# layer the influence grows slowly toward the end. With more layers the first positions gain, and the middle loses.
#
# Lines are theory for layers in which attention depends on positions only, and recent positions are favored at a rate
# :math:`\lambda`. Two numbers are fitted in each panel. Without :math:`\lambda` (dashed) the curve can only fall, so
# it misses the rise at the end.

if pre is not None:
    figure = found.plot()
    figure.show()
