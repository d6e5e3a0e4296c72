r"""
Two clocks: how a bump collapses, and how a pair meets
======================================================

Two formulas without a simulation describe the two halves of clustering. A narrow bump of tokens collapses to a cluster
(``collapse_time``). Two clusters wait for a long time and then meet. In a time that is rescaled by their own inner
product, all pairs follow the same curve (``pair_cosine``).
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta, width = 400.0, 0.1
angles = width * np.random.default_rng(0).standard_normal(2000)
angles *= width / angles.std()
model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
bump = tkf.simulate(model, tkf.circle_tokens(angles - angles.mean()), t1=5.0, save_at=41)
x = bump.dataset["x"].values
spread = np.arctan2(x[..., 1], x[..., 0]).std(axis=1)

rho0 = -0.3
rhos = np.linspace(rho0, 0.99, 241)

# %%
# Left: the standard deviation of 2000 tokens on the circle that start in a Gaussian bump, and the time that theory gives for
# each width. At first the bump is wide compared with the kernel (:math:`\beta w^2 = 4`), and its variance falls
# linearly. Then each token sees all others, and the width falls like :math:`e^{-t}` (dotted).
#
# Right: the cosine of two equal clusters from -0.3 on. Over time (inset) they stand still and then meet, all the later
# the larger :math:`\beta` is. In time rescaled by :math:`e^{-\beta(1-\rho)}` all meet at once. As :math:`\beta` grows, the
# curve tends to :math:`\tanh(2s + \mathrm{artanh}\,\rho_0)`.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.7), layout="constrained")
widths = np.geomspace(width, spread[-1], 80)[1:]
left.semilogy(bump.times, spread, "o", ms=4, label="2000 tokens")
left.semilogy([tkf.theory.collapse_time(width, w, beta) for w in widths], widths, color="C1", label="theory")
left.semilogy(bump.times[24:], spread[-1] * np.exp(bump.times[-1] - bump.times[24:]), "k:", lw=1, label=r"$e^{-t}$")
left.set(xlabel="time $t$", ylabel="width of the bump")
left.legend()
inset = right.inset_axes((0.55, 0.16, 0.42, 0.36))
for k, b in enumerate((10.0, 20.0, 40.0)):
    waits = [tkf.theory.pair_merge_time(*pair, b) for pair in itertools.pairwise(rhos)]
    s = np.append(0.0, np.cumsum(waits * np.exp(-b * (1 - (rhos[1:] + rhos[:-1]) / 2))))
    right.plot(s[::4], rhos[::4], "o", ms=3, color=f"C{k}", label=rf"$\beta = {b:g}$")
    inset.semilogx(np.cumsum(waits), rhos[1:], color=f"C{k}")
grid = np.linspace(0, 1.8, 100)
right.plot(grid, [tkf.theory.pair_cosine(s, rho0) for s in grid], "k", lw=1, label="theory", zorder=0)
right.set(xlabel="rescaled time $s$", ylabel=r"cosine $\rho$", xlim=(0, 1.8))
inset.set(xlabel="time $t$")
right.legend(loc="upper left", bbox_to_anchor=(0.0, 1.0))
plt.show()
