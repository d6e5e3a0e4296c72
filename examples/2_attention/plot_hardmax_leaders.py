r"""
Hardmax attention: leaders and followers
========================================

As :math:`\beta \to \infty` softmax attention becomes hardmax: token i follows only the tokens with the largest score
:math:`\langle z_i, z_j\rangle`. In :math:`R^d` without a norm tokens grow like :math:`e^t`, so we look at the rescaled
tokens :math:`z = e^{-t} x`.

A token whose best score is the one with itself is a *leader*. It never moves. All other tokens follow.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

start = tkf.gaussian_tokens(n=60, d=2, seed=0)
lead = tkf.leaders(start)
model = tkf.Transformer(tkf.Hardmax(), norm=tkf.Rescaled())
traj = tkf.simulate(model, start, t1=20.0)
z = traj.dataset["x"].values
print("leaders:", lead, "| clusters at the end:", tkf.clusters(traj.final).sizes)
print("largest move of a leader:", abs(z[-1, lead] - z[0, lead]).max())

# %%
# Rings mark the leaders, which are found from the start alone. Followers walk straight to the leader that suits them
# best. Some paths have a bend: on its way the token came to prefer another leader. The leaders are corners of the
# cloud, so the final clusters outline its shape, and nothing is left of its middle.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
ax.plot(z[..., 0], z[..., 1], color="0.75", lw=0.7, zorder=0)
ax.plot(*z[0].T, "o", ms=3.5, color="C0", label="start")
ax.plot(*z[-1].T, "x", ms=6, color="C1", label="end")
ax.plot(*z[0, lead].T, "o", ms=11, mfc="none", color="k", mew=1, label="leader")
ax.set(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
