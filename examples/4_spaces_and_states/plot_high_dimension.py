r"""
In high dimension all tokens do the same
========================================

Random tokens in high dimension are nearly orthogonal. If all angles are equal they stay equal, by symmetry, and n
tokens in :math:`R^d` are described by one number: their cosine :math:`\rho`. ``Equiangular`` is this state. How good is
it for real random tokens?
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, beta = 32, 4.0
model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
curve = tkf.simulate(model, tkf.Equiangular(rho=0.0, n=n), t1=10.0)
dimensions = (4, 32, 1024)
runs = {d: tkf.simulate(model, tkf.uniform_sphere(n, d, seed=0), t1=10.0) for d in dimensions}

# %%
# Each panel shows the cosines of all 496 pairs of tokens: the band holds 90 percent of them, and the thin lines are ten
# pairs. The dashed curve is the single cosine of the equiangular state.
#
# In four dimensions every pair has its own fate. In 1024 dimensions all pairs follow the same curve: wait, then
# collapse together, near t = 4. Tokens in real Transformers live in hundreds of dimensions, which is why this simple
# model says so much.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.2), sharey=True, layout="constrained")
for ax, (d, run) in zip(axes, runs.items(), strict=True):
    cosines = tkf.pairwise_cosines(run).values
    low, high = np.quantile(cosines, [0.05, 0.95], axis=1)
    ax.fill_between(run.times, low, high, alpha=0.25, lw=0, label="90 % of the pairs")
    ax.plot(run.times, cosines[:, ::50], color="C0", lw=0.6)
    ax.plot(curve.times, curve.dataset["rho"], "k--", label="equiangular")
    ax.set(title=f"$d = {d}$", xlabel="time $t$", ylim=(-1, 1.05))
axes[0].set_ylabel("cosine")
axes[2].legend(loc="lower right")
plt.show()
