r"""
Your own rules for positions
============================

How attention depends on positions is a class too. A bias (``AbstractBias``) adds a number to each score, and a mask
(``AbstractMask``) hides keys. Here a bias that falls off like the logarithm of the distance, and a dilated mask that
shows every third token.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt

import tokenfield as tkf
from tokenfield.attention import AbstractBias, AbstractMask


class LogDistance(AbstractBias):
    def bias(self, s, tau, row):  # s: positions of queries, tau: of keys
        return -jnp.log1p(jnp.abs(s - tau))

    def check(self, width):  # it fits queries of any width
        pass


class Dilated(AbstractMask):
    stronger = False  # it hides keys, and shows none that another mask hides

    def sees(self, s, tau):
        return jnp.round(jnp.abs(s - tau)) % 3 == 0

    def check(self, width):
        pass


n = 24
tokens = tkf.Tokens(tkf.uniform_sphere(n, 8, seed=0).x, positions=range(n))
rules = {"ALiBi": tkf.ALiBi(0.3), "own bias": LogDistance(), "own mask": Dilated(), "both": [LogDistance(), Dilated()]}
heads = {name: tkf.Softmax(beta=1.0, causal=True, positions=rule) for name, rule in rules.items()}

# %%
# Attention of each token (row) to all tokens (columns), for random tokens and a causal mask. ALiBi forgets distant
# tokens exponentially, and the logarithm like a power of the distance, so that the first tokens keep some attention. The mask
# leaves every third diagonal. Rules can be combined in a list.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.7), sharey=True, layout="constrained")
for ax, (name, head) in zip(axes, heads.items(), strict=True):
    drawn = ax.imshow(tkf.attention_matrix(tokens, head), cmap="YlGnBu", vmin=0, vmax=0.3)
    ax.set(title=name, xlabel="key")
axes[0].set_ylabel("query")
figure.colorbar(drawn, ax=axes, label="attention", extend="max", pad=0.01)
plt.show()
