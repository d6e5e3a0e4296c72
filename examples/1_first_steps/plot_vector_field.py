r"""
The field that tokens make
==========================

Attention is a map on the whole sphere: given the tokens, it says how *any* point would move. ``tkf.velocity_field``
evaluates it at points of your choice. Each token follows this field, and the field follows the tokens.

On the circle the field is one number for each angle: positive is counterclockwise.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=12.0), norm=tkf.PostLN())
traj = tkf.simulate(model, tkf.uniform_sphere(n=24, d=2, seed=8), t1=4.0, save_at=[0.0, 1.0, 4.0])

grid = np.linspace(-np.pi, np.pi, 721)
points = np.stack([np.cos(grid), np.sin(grid)], 1)
tangents = np.stack([-np.sin(grid), np.cos(grid)], 1)

# %%
# The dots are the tokens, the curve is the field. Where it falls through zero, points on both sides are pushed
# together: a cluster will be there. Where it rises through zero, points are pushed apart: the border between two
# basins.
#
# At first the field is a smoothed picture of the gaps between tokens. As the tokens gather, the field becomes a row of
# straight slopes with steep rises between them. A token in a basin sees hardly anything but its own cluster: at an
# angle :math:`\varphi` from it, it moves at the velocity :math:`-\sin\varphi`. The size of the cluster does not matter:
# softmax divides by the sum of the weights.

tkf.plotting.use_style()
figure, axes = plt.subplots(3, 1, figsize=(6.4, 5.2), sharex=True, sharey=True, layout="constrained")
for ax, time, state in zip(axes, traj.times, traj.states, strict=True):
    velocity = (np.asarray(tkf.velocity_field(model, state, points)) * tangents).sum(1)
    ax.axhline(0, color="0.7", lw=0.8)
    ax.plot(np.degrees(grid), velocity)
    ax.plot(
        np.degrees(np.arctan2(*np.asarray(state).T[::-1])),
        0 * np.asarray(state)[:, 0],
        "o",
        color="C1",
        ms=5,
        alpha=0.7,
    )
    ax.set_title(f"$t = {time:g}$", loc="left")
axes[1].set(ylabel="velocity (radians per unit of time)")
axes[2].set(xlabel="angle (degrees)", xticks=range(-180, 181, 60), xlim=(-180, 180))
plt.show()

# %%
# On the sphere ``traj.plot_field`` draws the same thing as arrows, with the speed as color. The tokens sit in the
# middle of basins; on the borders between them, and at the clusters themselves, the field vanishes.

traj = tkf.simulate(model, tkf.uniform_sphere(n=200, d=3, seed=1), t1=6.0, save_at=13)
figure = traj.plot_field(6.0)
figure.show()
