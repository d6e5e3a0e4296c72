r"""
Long contexts, layer after layer
================================

In a long context with :math:`\beta = \gamma \log n`, one layer of attention merges all tokens if :math:`\gamma` is
below :math:`1/(1-\rho)`. A Transformer has many layers and adds each output to its input. How much do the residual
connections save, and for how many layers?
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

rho, n, depth = 0.3, 1e6, 10
critical = tkf.theory.critical_gamma(rho)
layers = np.arange(depth + 1)
print(f"critical gamma {critical:.2f}; one residual layer at gamma = 1: cosine {rho} ->", end=" ")
print(f"{tkf.theory.residual_layer_contraction(rho, n, np.log(n)):.3f}")
depths = np.arange(1, 13)

# %%
# Left: the cosine layer by layer for a million tokens. Filled dots are attention alone, and squares have a residual
# connection. Below the critical :math:`\gamma` (blue) attention alone merges all tokens in one layer; with the residual
# it takes about five. Five percent above it (orange) the limit for many tokens is to stay at 0.3 forever (dotted). A
# million tokens merge all the same, a little later: each layer raises :math:`\rho` somewhat, and with it the threshold.
#
# Right: tokens that start orthogonal. They merge within L layers if :math:`\gamma` is below :math:`1 - 1/(2L)`. Dots are
# the :math:`\gamma` at which the cosine after L layers passes 1/2, from the exact recursion for a million and for
# :math:`10^{40}` tokens. Deeper networks need more, in the limit of many tokens never more than 1.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.7), layout="constrained")
for k, factor in enumerate((0.7, 1.05)):
    gamma = factor * critical
    for residual, marker, label in ((None, "o", "attention alone"), (1.0, "s", "with residual")):
        exact = tkf.theory.iterated_contraction(rho, n, gamma * np.log(n), depth, residual)
        fill = f"C{k}" if residual is None else "white"
        left.plot(
            layers,
            exact,
            f"{marker}-",
            lw=0.8,
            ms=4.5,
            color=f"C{k}",
            mfc=fill,
            label=rf"{label}, {factor:g} $\gamma_c$",
        )
        left.plot(layers, tkf.theory.iterated_contraction_limit(rho, gamma, depth, residual), ":", color=f"C{k}", lw=1)
left.set(xlabel="layer", ylabel=r"cosine $\rho$", ylim=(0.2, 1.03))
left.legend(loc="center right", bbox_to_anchor=(1.0, 0.4))
gammas = np.linspace(0.05, 1.3, 501)
for k, many in enumerate((1e6, 1e40)):
    merged = np.array([tkf.theory.iterated_contraction(0.0, many, gamma * np.log(many), 12) for gamma in gammas])
    passed = [gammas[merged[:, depth] > 0.5].max() for depth in depths]
    right.plot(depths, passed, "o", ms=4, color=f"C{k}", label=f"$n = 10^{{{np.log10(many):.0f}}}$")
right.plot(depths, tkf.theory.orthogonal_threshold(depths), "k-", lw=1, label=r"limit, $1 - 1/(2L)$")
right.set(xlabel="number of layers $L$", ylabel=r"$\gamma$", ylim=(0.3, 1.3), title=r"Merged from $\rho = 0$")
right.legend(loc="lower right")
plt.show()
