r"""
One dominant direction: three parallel lines
============================================

Tokens move in :math:`R^d` without a norm, and V is a matrix whose largest eigenvalue is simple and positive. Then the
rescaled tokens :math:`z = e^{-tV} x` gather on at most *three* parallel hyperplanes. Two are at the extremes of the
leading coordinate, and the third goes through zero.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

V = np.array([[1.0, 0.3], [0.0, 0.35]])
values, vectors = np.linalg.eig(V.T)
left_vector = vectors[:, np.argmax(values)]
left_vector = left_vector / np.linalg.norm(left_vector) * np.sign(left_vector[0])
start = tkf.gaussian_tokens(n=80, d=2, seed=2, cov=0.5)
model = tkf.Transformer(tkf.Softmax(beta=2.0, V=V), norm=tkf.Rescaled())
traj = tkf.simulate(model, start, t1=8.0, save_at=161)
z = traj.dataset["x"].values
level = z @ left_vector

# %%
# Left: the tokens in the plane. They stop on two parallel lines, and stay apart along these lines: there is no collapse
# to points. Right: the level of each token, its coordinate along the leading left eigenvector of V. Levels go to two
# values. The third, zero, would be for a token that is attracted equally to both, which does not happen here.
#
# Along the leading direction the tokens grow fastest. So the scores of a token are soon decided by one number, the sign
# of its level: it looks either to the largest level or to the smallest.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.7), layout="constrained")
side = np.where(level[-1] > 0, "C0", "C1")
for k in range(80):
    left.plot(*z[:, k].T, color=side[k], lw=0.7, alpha=0.5)
    right.plot(traj.times, level[:, k], color=side[k], lw=0.7, alpha=0.7)
left.scatter(*z[0].T, s=10, facecolors="none", edgecolors=side, lw=0.8)
left.scatter(*z[-1].T, s=12, color=side, zorder=3)
left.set(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
right.set(xlabel="time $t$", ylabel="level")
plt.show()
