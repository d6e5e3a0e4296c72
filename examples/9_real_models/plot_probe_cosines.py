r"""
The cosines of all pairs of tokens
==================================

A mean cosine hides much: a few tokens may be nearly equal while most stay apart. The probe keeps the distribution of
the cosines of all pairs of tokens at each layer. The model is MiniLM (``make models`` installs it).
"""

import tokenfield as tkf

try:
    text = tkf.probe.english_text()
    texts = [text[start : start + 400] for start in range(0, 3000, 500)]
    result = tkf.probe("minilm", texts, allow_pickle=True)
except ValueError as error:
    result = None
    print("skipped:", error)

if result is not None:
    for layer in result.summary()["layers"]:
        print(f"layer {layer['layer']}: mean cosine {layer['mean_cosine']:.2f} ± {layer['std_cosine']:.2f}")

# %%
# Each column is a layer, and the color shows the share of pairs at each cosine. The line is the mean. At the embeddings most
# pairs are nearly orthogonal. The whole distribution moves up by a little in each layer. In layer 5 it spreads: part of
# the pairs comes close to 1, while others stay near 0. So some tokens gather, and there is no collapse.
#
# On the right are the pairs with at least one special token, here the first and the last of a text. They follow the
# others with a delay, and spread in the last two layers.

if result is not None:
    figure = result.plot_cosines()
    figure.show()
