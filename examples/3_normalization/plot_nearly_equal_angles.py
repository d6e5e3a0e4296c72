r"""
When angles are only nearly equal
=================================

The theory of long contexts takes tokens at exactly equal angles. Real tokens have one common direction and random
rest, so their cosines fluctuate by :math:`(1-\rho)/\sqrt d`. Does it matter? It does, as soon as the dimension is not
much larger than :math:`\log n`: among many tokens there are then some that are much closer than the average, and
attention finds them.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

rho, n = 0.5, 1000
gammas = np.linspace(0.3, 7.0, 160)
few = np.linspace(0.5, 7.0, 12)


def measured(gamma, tokens):
    outputs = tkf.attention_matrix(tokens, tkf.Softmax(beta=gamma * np.log(n))) @ tokens.x
    return float(tkf.mean_cosine(tkf.Tokens(outputs)))


found = {}
for d in (10, 40, 160):
    tokens = tkf.nearly_equiangular(rho, n, d, seed=0)
    found[d] = [measured(gamma, tokens) for gamma in few]

# %%
# Left: the cosine of the outputs of one layer against :math:`\gamma`, with :math:`\beta = \gamma \log n` and 1000 tokens in
# three dimensions d. Lines are theory, dots are measured on random tokens. The gray line has exactly equal angles, with its
# step at :math:`1/(1-\rho) = 2`. The smaller the dimension, the later tokens begin to look at themselves only.
#
# Right: the threshold as n grows, with :math:`d = c \log n`. Dots mark the three dimensions of the left panel. For a
# model with d = 512 and a context of 32,000 tokens, c is 49, and the threshold is 1 % above that of equal angles.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.7), layout="constrained")
for k, (d, dots) in enumerate(found.items()):
    left.plot(few, dots, "o", ms=4, color=f"C{k}")
    exact = tkf.theory.nearly_equiangular_contraction(rho, n, d, gammas * np.log(n))
    left.plot(gammas, exact, color=f"C{k}", label=f"$d = {d}$")
left.plot(gammas, tkf.theory.layer_contraction(rho, n, gammas * np.log(n)), color="0.5", label="equal angles")
left.set(xlabel=r"$\gamma$, with $\beta = \gamma\,\log n$", ylabel="cosine after one layer", ylim=(0.48, 1.02))
left.legend()
c = np.geomspace(0.7, 100, 200)
right.semilogx(c, tkf.theory.nearly_equiangular_threshold(rho, c), color="k")
for k, d in enumerate(found):
    place = d / np.log(n)
    top = tkf.theory.nearly_equiangular_threshold(rho, place)
    after = tkf.theory.nearly_equiangular_limit(rho, top - 0.5, place)
    right.plot(place, top, "o", color=f"C{k}", label=f"$d = {d}$ (cosine {after:.2f} below)")
right.axhline(tkf.theory.critical_gamma(rho), color="0.5", lw=0.8)
right.set(xlabel=r"$c = d\,/\,\log n$", ylabel=r"threshold $\gamma$", ylim=(1.5, 7))
right.legend()
plt.show()
