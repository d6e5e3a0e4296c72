r"""
Merge, mix or copy: phases of attention in a long context
=========================================================

With :math:`\beta = \gamma \log n`, a layer of attention does one of two things to n tokens at cosine :math:`\rho`. Below
:math:`\gamma = 1/(1-\rho)` it merges them, and above it copies each token to itself. How sharp is the border for a real
number of tokens?
"""

import tokenfield as tkf

for n in (1e2, 1e4, 1e8):
    cosine = tkf.theory.layer_contraction(0.5, n, 1.5 * tkf.theory.attention_scale("log", n))
    print(f"n = {n:g}, gamma = 1.5: cosine 0.5 -> {cosine:.3f}")

# %%
# Each panel has one number of tokens. The color says how much one layer raises the cosine, as a fraction of the largest
# possible rise: yellow where tokens merge, dark blue where nothing happens. The line is :math:`1/(1-\rho)`.
#
# With a hundred tokens the border is wide: attention mixes tokens there without merging them. With :math:`10^8` tokens
# it is narrow, and a small error in :math:`\gamma` decides. Tokens that become more similar move up in the picture, toward
# larger thresholds: a :math:`\gamma` that is good for the first layer can be too small for the last.

figure = tkf.plotting.phase_picture(n=(1e2, 1e4, 1e8))
figure.show()
