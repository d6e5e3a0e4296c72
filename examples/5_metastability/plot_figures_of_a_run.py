r"""
The figures of one run
======================

A run of tokens on the circle that goes on until one cluster is left. The package has several figures for it, each a
function of the run that also draws into axes of your own (``ax=``). Together they tell the whole story of metastable
clusters: fast gathering, long waiting, sudden merges.
"""

import math

import matplotlib.pyplot as plt

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=40.0), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=16, d=2, seed=3)
early = tkf.simulate(model, start, t1=150.0, save_at=301)
traj = tkf.simulate(model, start, t1=math.inf)
print(f"{len([event for event in traj.events if event.kind == 'merge'])} merges")

# %%
# Top left (``space_time``): the angle of each token up to t = 150. Within a few units of time tokens gather in
# clusters, which have one color each. Clusters that are close then merge.
#
# Top right (``energy_panel``): the energy and the order parameter over the same time. The energy rises in steps,
# while the order parameter, a mean over the whole circle, hardly changes.
#
# Bottom left (``staircase``): the energy up to the last merge, over the logarithm of time. Gray bars are the plateaus
# of the metastable states and dots are merges. Each state lasts many times longer than all earlier ones together.
#
# Bottom right (``merge_tree``): who merges with whom, with thick lines for large clusters.

tkf.plotting.use_style()
figure, axes = plt.subplots(2, 2, figsize=(8.8, 6.4), layout="constrained")
tkf.plotting.space_time(early, ax=axes[0, 0])
tkf.plotting.energy_panel(early, axes[0, 1])
tkf.plotting.staircase(traj, ax=axes[1, 0])
tkf.plotting.merge_tree(traj, ax=axes[1, 1])
plt.show()
