r"""
How many clusters? Two theories and an experiment
=================================================

How many clusters do random tokens on the circle form at first? Two theories give an answer.

- *Modes*: near the uniform measure, the mode that grows fastest has k peaks. For large :math:`\beta` that is
  :math:`k \approx \sqrt{2\beta}`.
- *Mean shift*: tokens climb the hills of the kernel density :math:`\sum_j e^{\beta\cos(\theta-\theta_j)}`. For many
  random tokens the expected number of hills is about :math:`\sqrt{3\beta/2}` (Kac–Rice formula).
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

betas = np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
starts = [tkf.uniform_sphere(n=300, d=2, seed=seed) for seed in range(12)]
hills = np.array([[len(tkf.kde_modes(start, beta)) for start in starts] for beta in betas])
models = [tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN()) for beta in np.repeat(betas, len(starts))]
runs = tkf.simulate_many(models, starts * len(betas), t1=8.0, save_at=[0.0, 8.0], rtol=1e-4)
counts = np.reshape([tkf.soft_cluster_count(run.final, tol=0.02) for run in runs], hills.shape)

# %%
# Lines are the two theories. Crosses are the hills of the start, counted with ``kde_modes``, and dots are clusters at t
# = 8, both as means over 12 starts (bars: standard deviation).
#
# The hills follow their theory closely. The clusters follow the hills, and at :math:`\beta = 128` some neighboring
# hills have merged by t = 8. At small :math:`\beta` there are a few more clusters than hills: hills that are too flat
# to be maxima at the start sharpen when tokens gather. The modes overestimate, as random tokens are too far from
# uniform for one mode to dominate.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.2, 4.0), layout="constrained")
grid = np.geomspace(3.5, 150, 80)
ax.plot(grid, [tkf.theory.first_clusters(beta, d=2) for beta in grid], color="C1", label="fastest mode")
ax.plot(grid, [tkf.theory.kde_modes_circle(beta) for beta in grid], color="C2", label="expected hills")
ax.errorbar(betas * 0.97, hills.mean(axis=1), hills.std(axis=1), fmt="x", color="C2", label="hills of the start")
ax.errorbar(
    betas * 1.03, counts.mean(axis=1), counts.std(axis=1), fmt="o", color="C0", ms=5, label="clusters at $t = 8$"
)
ax.set(xlabel=r"inverse temperature $\beta$", ylabel="number", xscale="log")
ax.set_xticks(betas, [f"{beta:g}" for beta in betas])
ax.minorticks_off()
ax.legend()
plt.show()
