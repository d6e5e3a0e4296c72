r"""
Eight attention kernels, one start
==================================

Softmax is one way to turn scores into weights. There are others, and each is one class: swap it and run again. Here the
same 100 tokens on the sphere move under eight kernels with Post-LN and :math:`\beta = 5`. Kernels differ much in speed,
so each panel has its own end time.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

start = tkf.uniform_sphere(n=100, d=3, seed=2)
kernels = {
    "Softmax": (tkf.Softmax(beta=5.0), 12.0),
    "L2": (tkf.L2(beta=2.5), 12.0),
    "Sinkhorn": (tkf.Sinkhorn(beta=5.0), 12.0),
    "Unnormalized": (tkf.Unnormalized(beta=5.0), 0.4),
    "Linear": (tkf.Linear(beta=5.0), 3.0),
    "ReLU": (tkf.ReLU(beta=5.0), 8.0),
    "Sigmoid": (tkf.Sigmoid(beta=5.0), 40.0),
    "Hardmax": (tkf.Hardmax(rule="others"), 4.0),
}

# %%
# Open circles are starts, filled circles are ends, and colors are final clusters.
#
# - *Softmax* and *L2* give the same picture. On the unit sphere :math:`|x-y|^2 = 2 - 2\langle x, y\rangle`, so L2
#   attention with half the :math:`\beta` *is* softmax attention.
# - *Sinkhorn* divides rows and columns until both sum to one. No token can receive more attention than another.
# - *Unnormalized* attention has the same weights as softmax, without the division by their sum. It is faster by up to
#   :math:`e^\beta \approx 148`.
# - *Linear* attention moves a token by :math:`P_x M x`, with M the second moments of all tokens. Tokens go to the
#   leading eigenvector of M or to its opposite: two clusters at antipodes.
# - *ReLU* does not see tokens on the other side of the sphere. *Sigmoid* hardly does, and brings all tokens together.
# - *Hardmax* follows only the best score. Here a token may not choose its own place (``rule="others"``), so it goes to
#   its nearest neighbor, and many small groups form.

tkf.plotting.use_style()
figure, axes = plt.subplots(2, 4, figsize=(9.6, 5.2), layout="constrained")
for ax, (name, (attention, t1)) in zip(axes.flat, kernels.items(), strict=True):
    run = tkf.simulate(tkf.Transformer(attention, norm=tkf.PostLN()), start, t1)
    tkf.plotting.tokens_panel(run, ax, tol=0.02, legend=None)
    ax.set_title(f"{name}, $t = {t1:g}$")
plt.show()
