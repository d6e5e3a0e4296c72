r"""
Cross-attention is mean shift
=============================

In cross-attention the queries come from one set of tokens, and keys and values from another: the *context*. If the
context stays where it is, the tokens climb the hills of its density. For softmax attention on the sphere these are
exactly the hills of a kernel density estimate, :math:`\hat p(x) = \int e^{\beta \langle x, y \rangle} d\nu(y)`. This is
mean shift, an old algorithm for clustering.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta = 30.0
context = tkf.separated_clusters(n=90, d=2, k=3, spread=0.35, seed=1)
model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN(), context=context)
start = tkf.circle_tokens(np.linspace(-np.pi, np.pi, 72, endpoint=False))
times = np.append(0.0, np.geomspace(0.05, 40.0, 200))
traj = tkf.simulate(model, start, t1=40.0, save_at=times)
modes = tkf.kde_modes(context, beta)

# %%
# Left: the density estimate of the context (its tokens are the ticks on the axis). Right: the angle of 72 tokens that
# start evenly spread. Each climbs uphill and stops on top. The dashed lines are the maxima of the density, found by
# ``kde_modes`` without any simulation.
#
# Tokens do not see each other here. In self-attention the context moves along with the tokens (this is called
# *blurring* mean shift), the hills themselves merge, and one is left in the end.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.8), width_ratios=(1, 2), sharey=True, layout="constrained")
grid = np.linspace(-np.pi, np.pi, 721)
density = np.exp(beta * (np.cos(grid[:, None] - np.arctan2(*np.asarray(context.x).T[::-1])) - 1)).mean(axis=1)
left.plot(density, grid)
left.plot(0 * context.weights, np.arctan2(*np.asarray(context.x).T[::-1]), "_", color="C3", ms=8, clip_on=False)
left.set(xlabel="density of the context", ylabel="angle", ylim=(-np.pi, np.pi), xlim=(0, None))
x = traj.dataset["x"].values
right.plot(traj.times, np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0), color="C0", lw=0.7, alpha=0.7)
for mode in np.angle(np.exp(1j * modes)):
    for ax in (left, right):
        ax.axhline(mode, color="C1", ls="--", lw=1, zorder=0)
right.set(xlabel="time $t$", xscale="log", xlim=(0.05, 40))
plt.show()
