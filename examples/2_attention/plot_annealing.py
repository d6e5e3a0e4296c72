r"""
Heating the tokens: weights that change in time
===============================================

Every parameter of attention may be a function of time: :math:`\beta(t)`, A(t), Q(t), K(t), V(t). In a real
Transformer each layer has its own weights; a function of time is the same thing for a flow.

Here :math:`\beta` falls slowly from 100 to 2. It is as if the tokens were heated: they look farther and farther.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf


def beta(t):
    return 2 + 98 * jnp.exp(-t / 12)


model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=120, d=2, seed=0)
times = np.append(0.0, np.geomspace(0.1, 120.0, 300))
traj = tkf.simulate(model, start, t1=120.0, save_at=times)

# %%
# Each line is the angle of a token. At first :math:`\beta` is large, tokens see only their neighbors, and many small
# clusters form. At a fixed :math:`\beta` these would wait for exponentially long times. Because :math:`\beta` falls,
# the range of attention, about :math:`\beta^{-1/2}`, grows. Clusters merge whenever the range reaches the gap between
# them, and in the end one is left.
#
# The lower panel counts the clusters. The dashed curve is the mode of the uniform measure that grows fastest at the
# current :math:`\beta(t)`, about :math:`\sqrt{2\beta}`. From t = 5 on the count follows it down. (The last two
# lines on top, near 3.2 and -3.0, are the same place on the circle.)

tkf.plotting.use_style()
figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.6, 5.0), sharex=True, height_ratios=(2, 1), layout="constrained")
x = traj.dataset["x"].values
angle = np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0)
top.plot(traj.times, angle, color="C0", lw=0.6, alpha=0.6)
top.set(ylabel="angle", xscale="log", xlim=(0.1, 120), title=r"$\beta(t) = 2 + 98\, e^{-t/12}$")
bottom.plot(traj.times, tkf.soft_cluster_count(traj, tol=1e-2), color="C1", label="clusters (soft count)")
bottom.plot(
    traj.times, [tkf.theory.first_clusters(beta(t), d=2) for t in traj.times], "k--", lw=1, label="fastest mode"
)
bottom.set(xlabel="time $t$", yscale="log", ylim=(0.8, 100))
bottom.set_yticks([1, 3, 10, 30], [1, 3, 10, 30])
bottom.legend()
plt.show()
