r"""
Covariances as points in a cone
===============================

A covariance of tokens in the plane is a point of three-dimensional space, and all covariances fill a cone. So the
fate of Gaussian data under attention can be seen in one picture: here for two score matrices A, and V = I.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

angles = np.linspace(0, 2 * np.pi, 13)[:-1]
starts = [np.eye(2) / 2 + 0.35 * np.array([[np.cos(a), np.sin(a)], [np.sin(a), -np.cos(a)]]) for a in angles]
states = [tkf.Gaussian(None, start) for start in starts]
matrices = {"A = diag(-1, 0)": np.diag([-1.0, 0.0]), "A = diag(-1, -1/4)": np.diag([-1.0, -0.25])}
runs = {
    name: tkf.simulate_many(tkf.Transformer(tkf.Softmax(A=A)), states, t1=200.0, save_at=np.geomspace(0.01, 200, 80))
    for name, A in matrices.items()
}
limits = [tkf.theory.gaussian_limit(matrices["A = diag(-1, 0)"], None, start) for start in starts]

# %%
# Circles are starts, all of trace 1, and dots are the covariances at t = 200. Height is the trace; the surface of the cone
# has the covariances of rank one.
#
# Left: A has a kernel. The part of the data along the kernel survives, and covariances end on one ray of the surface: all
# tokens on a line. Crosses are ``gaussian_limit``, the exact limits. Right: A is negative definite, and all covariances shrink to
# the tip of the cone, along the direction in which A is weaker.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 2, figsize=(8.0, 4.2), subplot_kw={"projection": "3d"}, layout="constrained")
for ax, (name, found) in zip(axes, runs.items(), strict=True):
    tkf.plotting.cone_plot(found, ax, labels=False)
    ax.set_title(name, y=0.95)
axes[0].plot(*tkf.plotting.cone_coordinates(limits).T, "kx", ms=6)
plt.show()
