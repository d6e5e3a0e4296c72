r"""
Without a norm: tokens go to the corners of a polytope
======================================================

In :math:`R^d` without a norm and with V = I, tokens grow like :math:`e^t`. Divide this out, :math:`z = e^{-t} x`, and a
limit appears: the convex hull of the rescaled tokens shrinks to a polytope, and nearly every token ends at a corner.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import tokenfield as tkf

rng = np.random.default_rng(6)
A = np.array([[9.0, 2.0], [2.0, 7.0]])
disc = np.sqrt(rng.uniform(size=(60, 1))) * np.asarray(tkf.uniform_sphere(60, 2, seed=6).x)
model = tkf.Transformer(tkf.Softmax(A=A), norm=tkf.Rescaled())
traj = tkf.simulate(model, tkf.Tokens(disc), t1=12.0, save_at=241, rtol=1e-8)
final = tkf.clusters(traj.final, tol=1e-3, metric="distance")
print("corners:", len(final.sizes), "with", final.sizes, "tokens")

# %%
# Thin outlines are hulls at different times, from light to dark. Each lies inside the one before it. Gray lines are the
# paths of the tokens.
#
# Why corners? As the tokens :math:`x = e^t z` grow, so do the scores :math:`\langle Ax_i, x_j\rangle`, like
# :math:`e^{2t}`. Softmax then picks the token with the largest score, and the largest value of a linear function on a
# polytope is at a corner.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
z = traj.dataset["x"].values
ax.plot(z[..., 0], z[..., 1], color="0.8", lw=0.7, zorder=0)
for k, index in enumerate((0, 10, 20, 40, 240)):
    corners = z[index][ConvexHull(z[index]).vertices] if index < 240 else final.centers
    hull = ConvexHull(corners)
    for side in hull.simplices:
        ax.plot(*corners[side].T, color=plt.cm.YlGnBu(0.3 + 0.17 * k), lw=1 + 0.25 * k)
ax.plot(*z[0].T, "o", ms=3.5, color="C1", label="start")
ax.scatter(*final.centers.T, s=12 * final.sizes, color="C0", zorder=3, label="end (area: number of tokens)")
ax.set(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
plt.show()
