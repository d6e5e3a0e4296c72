r"""
Who merges with whom, and when: a tree
======================================

Sixteen tokens at :math:`\beta = 60`, followed until one cluster is left. Each merge is an event of the run with its
time, its sizes and an error estimate. Together they form a tree, like those of hierarchical clustering. The axis is the
logarithm of time.
"""

import math

import numpy as np

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=60.0), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=16, d=3, seed=11)
traj = tkf.simulate(model, start, t1=math.inf)

merges = [event for event in traj.events if event.kind == "merge"]
for event in merges[-3:]:
    power, sizes = event.detail["log_time"] / math.log(10), event.detail["sizes"]
    print(f"clusters of {sizes[0]} and {sizes[1]} tokens meet at t = 10^{power:.2f}")

cosines = np.asarray(start.x) @ np.asarray(start.x).T - 2 * np.eye(16)
first = np.unravel_index(np.argmax(cosines), cosines.shape)
print("closest pair at the start:", sorted(map(int, first)))

# %%
# Thick lines are large clusters. Tokens that are close merge first and within a short time. The last merges are
# between clusters on opposite sides of the sphere, at cosine :math:`\rho \approx -0.3`, and need a time of order
# :math:`e^{\beta(1-\rho)}`: thirty orders of magnitude later.
#
# Unlike other hierarchical clusterings, the tree is not an algorithm applied to the data. It is what attention does.

figure = tkf.plotting.merge_tree(traj, width=6.4, height=3.8)
figure.show()
