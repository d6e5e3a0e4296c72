r"""
Your own noise
==============

A noise is a class that says how a token is displaced in a time h, given standard normal numbers. Here noise in
:math:`\mathbb{R}^2` that grows with the height of a token: hot at the top, cold at the bottom.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf
from tokenfield.noise import AbstractNoise


class HotTop(AbstractNoise):
    kappa: jnp.ndarray
    space = tkf.Euclidean  # where it acts

    def draws(self, n, d):  # how many normal numbers
        return n, d

    def displacement(self, xi, x, h, space):
        strength = jnp.exp(jnp.clip(x[:, 1:], -3, 1))
        return strength * jnp.sqrt(2 * h / self.kappa) * xi

    def rate(self, x, space):  # correlations need not decay
        return jnp.zeros(())

    def check(self, d):
        assert d == 2


start = tkf.gaussian_tokens(200, 2, seed=0)
noises = {"the same everywhere": tkf.EuclideanNoise(kappa=2.0), "own noise: hot at the top": HotTop(jnp.asarray(2.0))}
runs = {
    name: tkf.simulate(tkf.Transformer(tkf.Softmax(beta=1.0, V=-0.3), noise=noise), start, t1=8.0, dt=0.02, seed=1)
    for name, noise in noises.items()
}

# %%
# 200 tokens with two kinds of noise. Gray dots are the start, and colors are tokens at t = 8. The values (V = -0.3) push
# tokens back to the center, against the noise. With the same noise everywhere the cloud is round. With the own noise tokens at
# the top are thrown far apart, while those that come to the bottom hardly move, and gather there.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.8), sharex=True, sharey=True, layout="constrained")
for k, (ax, (name, run)) in enumerate(zip(axes, runs.items(), strict=True)):
    ax.plot(*np.asarray(start.x).T, ".", ms=4, color="0.75")
    ax.plot(*np.asarray(run.final.x).T, "o", ms=3.5, color=f"C{k}")
    ax.set(title=name, xlabel="$x_1$", aspect="equal")
axes[0].set_ylabel("$x_2$")
plt.show()
