r"""
Noise in the plane and on a torus
=================================

Noise works in every space. In :math:`R^d` it has an exact reference. Let V = -I, so that attention pushes tokens
together toward the origin, and let noise spread them. Gaussian data stay Gaussian, and each variance s obeys

.. math:: \dot s = -2\beta s^2 + \frac{2}{\kappa}, \qquad s_\infty = \frac{1}{\sqrt{\beta\kappa}} .
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta, kappa = 0.5, 20.0
model = tkf.Transformer(tkf.Softmax(beta=beta, V=-1.0), noise=tkf.EuclideanNoise(kappa=kappa))
exact = tkf.simulate(model, tkf.Gaussian(None, [[1.5, 0.0], [0.0, 0.05]]), t1=8.0)
cloud = tkf.gaussian_tokens(400, cov=np.diag([1.5, 0.05]), seed=0)
tokens = tkf.simulate(model, cloud, t1=8.0, save_at=41, seed=1, dt=0.05)

torus = tkf.tokens_in(tkf.Torus(), n=200, d=4, seed=0)
noisy = {}
for strength in (200.0, 10.0):
    other = tkf.Transformer(tkf.Softmax(beta=4.0), space=tkf.Torus(), noise=tkf.BrownianNoise(kappa=strength))
    noisy[strength] = tkf.simulate(other, torus, t1=12.0, save_at=2, seed=2, dt=0.05)

# %%
# Left: the two variances of the Gaussian run (lines), of 400 random tokens (dots), and the limit. One variance falls
# and the other rises, to the same value. The dots scatter by about 7 percent, as the variance of 400 samples does.
#
# Middle and right: tokens on a torus, drawn by their two angles, under ``BrownianNoise`` at t = 12. With weak noise
# there are clusters, a little fuzzy. With strong noise attention holds them only loosely.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.2), layout="constrained")
variances = np.array([np.cov(np.asarray(state.x).T, bias=True).diagonal() for state in tokens.states])
for k in range(2):
    axes[0].plot(exact.times, exact.dataset["cov"][:, k, k], color=f"C{k}", label=f"variance {k + 1}, Gaussian")
    axes[0].plot(tokens.times, variances[:, k], "o", ms=3, color=f"C{k}", label=f"variance {k + 1}, tokens")
axes[0].axhline(1 / np.sqrt(beta * kappa), color="k", ls="--", lw=1, label=r"$1/\sqrt{\beta\kappa}$")
axes[0].legend(fontsize=7)
axes[0].set(xlabel="time $t$", ylabel="variances", yscale="log")
axes[0].set_yticks([0.05, 0.1, 0.3, 1], [0.05, 0.1, 0.3, 1])
for ax, (strength, run) in zip(axes[1:], noisy.items(), strict=True):
    x = np.asarray(run.final.x)
    ax.plot(np.arctan2(x[:, 1], x[:, 0]), np.arctan2(x[:, 3], x[:, 2]), "o", ms=3, alpha=0.6)
    ax.set(title=rf"torus, $\kappa = {strength:g}$", xlim=(-np.pi, np.pi), ylim=(-np.pi, np.pi), aspect="equal")
    ax.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
plt.show()
