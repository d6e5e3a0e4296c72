"""
One noise for all tokens
========================

If every token has its own noise, the law of many tokens is smooth and not random. If one Brownian motion pushes all of them, the
law itself is random: it differs from seed to seed, and the tokens follow it.
"""

# %%
# The same density on the circle, under softmax attention with common noise, for three seeds. The lines are the density at the
# end, and the gray histograms are 2000 tokens that start at its quantiles and run with the same seed: each follows its own density,
# path by path.
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN(), noise=tkf.CommonNoise(kappa=6.0))
density = tkf.CircleDensity.from_function(lambda a: 1 + 0.4 * np.cos(a) + 0.3 * np.sin(2 * a), modes=64)
tokens = tkf.circle_tokens(density.angles((np.arange(2000) + 0.5) / 2000))

a = np.linspace(0, 2 * np.pi, 400)
circle = np.stack([np.cos(a), np.sin(a)], axis=1)
tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(8, 2.8), sharey=True, layout="constrained")
for seed, ax in enumerate(axes):
    x = tkf.simulate(model, tokens, t1=0.5, seed=seed, save_at=2).final.x
    angles = np.mod(np.arctan2(x[:, 1], x[:, 0]), 2 * np.pi)
    ax.hist(angles, 60, range=(0, 2 * np.pi), weights=np.full(2000, 60 / 2000), color="0.8")
    ax.plot(a, tkf.simulate(model, density, t1=0.5, seed=seed, save_at=2).final.density(circle))
    ax.set(xlabel="angle $a$", title=f"seed {seed}", xlim=(0, 2 * np.pi))
    ax.set_xticks([0, np.pi, 2 * np.pi], labels=["0", "π", "2π"])
axes[0].set_ylabel("density")
plt.show()
