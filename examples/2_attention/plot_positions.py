"""
Who sees whom: rules for positions
==================================

Attention by itself does not know the order of the tokens. Rules for positions tell it. They can be given to any
attention, and combined: ``Softmax(..., positions=[Window(8), Sinks(1)])``.

The pictures show attention matrices of 32 random tokens: row i is how token i spreads its attention.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
from matplotlib.colors import LogNorm

import tokenfield as tkf

n, d = 32, 16
tokens = tkf.Tokens(tkf.uniform_sphere(n, d, seed=0).x, positions=range(n))
rules = {
    "no positions": {},
    "causal": {"causal": True},
    "causal, ALiBi": {"causal": True, "positions": tkf.ALiBi(0.3)},
    "causal, window and sink": {"causal": True, "positions": [tkf.Window(8), tkf.Sinks(1)]},
    "bias: every sixth token": {"positions": tkf.Bias(lambda s, tau: 2 * jnp.cos(jnp.pi * (s - tau) / 3))},
}
matrices = {name: tkf.attention_matrix(tokens, tkf.Softmax(beta=2.0, **options)) for name, options in rules.items()}

same = tkf.Tokens(jnp.ones((n, d)) / d**0.5, positions=range(n))
rotary = tkf.Softmax(beta=6.0, positions=tkf.RoPE(theta=100.0))
matrices["RoPE, equal tokens"] = tkf.attention_matrix(same, rotary)

# %%
# White means no attention at all.
#
# - *Causal* masks hide later tokens.
# - *ALiBi* takes :math:`\lambda |s - \tau|` off the score: tokens far back fade exponentially.
# - A *window* hides tokens farther back than eight places. The *sink* keeps the first token visible for all.
# - A *bias* may be any function of the two positions. This one prefers distances that are multiples of six.
# - *RoPE* turns queries and keys by angles that grow with their positions. The score then depends on the distance
#   :math:`s - \tau` only. Here all tokens are equal, so only this dependence is left, and the matrix is constant along
#   its diagonals.

tkf.plotting.use_style()
figure, axes = plt.subplots(2, 3, figsize=(7.6, 5.2), sharex=True, sharey=True, layout="constrained")
for ax, (name, matrix) in zip(axes.flat, matrices.items(), strict=True):
    picture = ax.imshow(matrix, norm=LogNorm(1e-3, 1), cmap="YlGnBu")
    ax.set_title(name)
figure.supxlabel("key", fontsize=9)
figure.supylabel("query", fontsize=9)
figure.colorbar(picture, ax=axes, label="attention", extend="min", shrink=0.8)
plt.show()
