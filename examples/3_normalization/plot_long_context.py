r"""
Long contexts: why attention is scaled by log n
===============================================

With n tokens and a fixed :math:`\beta`, attention becomes flat as n grows. Each token then receives the same average of
all others, and one layer makes all tokens equal. Several long-context models therefore let :math:`\beta = \gamma \log
n`.

Take n tokens at equal angles with cosine :math:`\rho`. What is the cosine between the *outputs* of one attention layer?
There is an exact formula for every n. In the limit there are two phases. For :math:`\gamma < 1/(1-\rho)` attention
averages over everything and the outputs are equal. For :math:`\gamma > 1/(1-\rho)` every token looks only at itself and
nothing happens. Only at the critical scale does attention do anything interesting.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

rho, critical = 0.5, tkf.theory.critical_gamma(0.5)
gammas = np.linspace(0.2, 4.0, 200)


def measured(gamma, n):
    tokens = tkf.equiangular_tokens(rho, n)
    outputs = tkf.attention_matrix(tokens, tkf.Softmax(beta=gamma * np.log(n))) @ tokens.x
    return tkf.mean_cosine(tkf.Tokens(outputs))


# %%
# Curves are the exact formula, dots are measured on tokens. As n grows the curves turn slowly into a step at
# :math:`\gamma = 1/(1-\rho) = 2`. Slowly, because all that matters is :math:`\log n`. The circle is the limit at the
# critical point itself, :math:`4\rho/(1+3\rho) = 0.8`: half of the attention stays on the token itself, and the other
# half is spread over all.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for k, n in enumerate((10, 100, 1000)):
    ax.plot(gammas, tkf.theory.layer_contraction(rho, n, gammas * np.log(n)), color=f"C{k}", label=f"$n = {n}$")
    few = np.linspace(0.4, 4.0, 10)
    ax.plot(few, [measured(gamma, n) for gamma in few], "o", ms=4, color=f"C{k}")
for n, style in ((1e6, "--"), (1e30, ":")):
    label = f"$n = 10^{{{np.log10(n):.0f}}}$"
    ax.plot(gammas, tkf.theory.layer_contraction(rho, n, gammas * np.log(n)), color="0.4", ls=style, label=label)
ax.plot(critical, tkf.theory.layer_contraction_limit(rho, critical), "o", ms=8, mfc="none", color="k")
ax.axvline(critical, color="0.8", lw=0.8, zorder=0)
ax.set(xlabel=r"$\gamma$, with $\beta = \gamma\,\log n$", ylabel="cosine after one layer", ylim=(0.48, 1.02))
ax.legend()
plt.show()
