r"""
Blocks like those of BERT and Llama
===================================

``PostLN`` and ``PreLN`` are idealizations on the unit sphere. Real blocks have a ``LayerNorm`` or an ``RMSNorm`` with a
gain, several heads with narrow Q, K, V, and an MLP. All of this can be written down, too. Here are two stacks of 24
layers with random weights: ``PostNorm(LayerNorm())`` as in BERT, and ``PreNorm(RMSNorm())`` as in Llama.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, d, heads, depth = 48, 64, 4, 24
rng = np.random.default_rng(0)


def gaussian(*shape, size=1.0):
    return size * rng.standard_normal(shape) / np.sqrt(shape[1])


def block(norm):
    width = d // heads
    parts = [
        tkf.Softmax(beta=width**-0.5, Q=2 * gaussian(width, d), K=2 * gaussian(width, d), V=gaussian(width, d))
        for _ in range(heads)
    ]
    attention = tkf.MultiHead(parts, outputs=[gaussian(d, width, size=0.4) for _ in range(heads)])
    mlp = tkf.MLP(gaussian(4 * d, d), gaussian(d, 4 * d, size=0.4), activation="gelu")
    return tkf.Transformer(attention, norm, mlp)


text = tkf.Tokens(tkf.nearly_equiangular(0.3, n, d, seed=0).x * np.sqrt(d))
norms = {
    "BERT-like: PostNorm(LayerNorm)": tkf.PostNorm(tkf.LayerNorm()),
    "Llama-like: PreNorm(RMSNorm)": tkf.PreNorm(tkf.RMSNorm()),
}
runs = {}
for name, norm in norms.items():
    model = tkf.by_layer([block(norm) for _ in range(depth)])
    runs[name] = tkf.layers(model, text, depth)
    runs[name + ", no MLP"] = tkf.layers(model.without_mlp(), text, depth)

# %%
# ``by_layer`` makes one model of 24 blocks with different weights, and ``without_mlp`` removes the MLP from all of them
# (dashed).
#
# Left: how far the tokens are from being alike. Under BERT's norm they approach each other exponentially, and after 24
# random layers nothing is left to tell them apart. Under Llama's norm this slows down more and more. These are the laws
# of the idealized rules, :math:`e^{-ct}` for Post-LN and a power of t for Pre-LN. The random MLP changes little.
#
# Right: the reason. BERT's norm keeps the length of the tokens at :math:`\sqrt d = 8`. Under Llama's norm every block
# adds to the length, so a later block turns the tokens less.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained")
for k, (name, run) in enumerate(runs.items()):
    style = {"color": f"C{k // 2}", "ls": "--" if k % 2 else "-", "label": name}
    left.semilogy(run.times, 1 - tkf.mean_cosine(run), **style)
    right.plot(run.times, tkf.mean_length(run), **style)
left.set(xlabel="layer", ylabel="1 − mean cosine")
right.set(xlabel="layer", ylabel="mean length", ylim=(0, None))
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()
