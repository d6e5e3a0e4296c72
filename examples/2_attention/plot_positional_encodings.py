r"""
Positions that are added to tokens
==================================

The first Transformers encoded positions in another way: they *added* a vector to each token, made of sines and cosines
of its position. ``tkf.sinusoidal`` makes these vectors, and ``tokens.with_encoding`` adds them. (Today's models turn
queries and keys instead: :ref:`sphx_glr_gallery_2_attention_plot_positions.py`.)

What do such positions do to the clusters?
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, d = 64, 32
encoding = tkf.sinusoidal(n, d, theta=100.0)
words = tkf.uniform_sphere(n, d, seed=0)
model = tkf.Transformer(tkf.Softmax(beta=16.0), norm=tkf.PostLN())
starts = {"words only": words, "words and positions": words.with_encoding(encoding / 2).normalized()}

pictures = {"the encodings": np.asarray(encoding)}
for name, start in starts.items():
    final = tkf.simulate(model, start, t1=40.0, save_at=[0.0, 40.0]).final
    print(f"{name}: sizes of the clusters {tkf.clusters(final, tol=0.1).sizes[:6]}")
    pictures[f"cosines of {name}"] = np.asarray(final) @ np.asarray(final).T

# %%
# Left: the encodings. Column pairs are a sine and a cosine, from short waves to long ones, so that positions near each
# other have similar vectors.
#
# Middle and right: the cosines of all pairs of tokens at t = 40. Random words alone are all far from each other. At
# this :math:`\beta` each looks at itself only, and no clusters form. With positions added (they are twice as long as
# the words), neighbors look at each other. Every cluster is then a stretch of the text: the sequence is cut into five
# passages, and in each of them all tokens have become the same. Nearby passages are still closer to each other than
# distant ones.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.2), layout="constrained", width_ratios=[1, 2, 2])
for ax, (name, picture) in zip(axes, pictures.items(), strict=True):
    image = ax.imshow(picture, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set(
        title=name,
        xlabel="coordinate" if ax is axes[0] else "position",
        xticks=range(0, picture.shape[1], 16),
        yticks=range(0, n, 16),
    )
axes[0].set(ylabel="position")
figure.colorbar(image, ax=axes, shrink=0.9)
plt.show()
