r"""
When is a position lost?
========================

Perturb one token of a causal model a little, and see how much the last token changes. Early layers respond most to
recent positions, deep ones to the first. In between, some position has the least influence: it is lost. Theory knows
this response for a continuum of tokens, and the time at which a given position is lost.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, alpha, slope = 96, 0.2, 1.0
tau = (np.arange(n - 1) + 0.5) / n
attention = tkf.Softmax(beta=0.0, causal=True, V=alpha / (1 - alpha), positions=tkf.ALiBi(slope))
depths = [1, 4, 8, 16]
at_zero = tkf.Tokens(np.zeros((n, 1)), positions=np.arange(1, n + 1) / n)
measured = tkf.lipschitz.influence(tkf.Transformer(attention), at_zero, depths)
measured /= measured.sum(axis=1, keepdims=True)
exact = [tkf.theory.token_influence(n, depth, alpha, slope=slope) for depth in depths]
print("largest error of the formula:", np.abs(measured - exact).max().round(15))

# %%
# Left: the influence of each position on the last token, after 1 to 16 layers with :math:`\beta = 0` and ALiBi. Dots
# are derivatives through the layers, measured. Lines are the formula for layers; both agree to rounding. After one
# layer the influence grows toward the end, after sixteen the first positions have the most.
#
# Right: the response of a continuum of tokens in continuous time, :math:`c = a t`. The minimum (dots) starts at the
# first position and moves to the last one. The line through the dots is the time at which each position is lost, by
# ``theory.lost_time``: after it, position :math:`\tau` gains on later ones.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.6), layout="constrained")
for k, depth in enumerate(depths):
    left.semilogy(tau, n * exact[k][:-1], color=f"C{k}", lw=1)
    left.semilogy(tau[::6], n * measured[k, :-1:6], "o", ms=3, color=f"C{k}", label=f"{depth} layers")
left.set(xlabel=r"position $\tau$", ylabel="influence on the last token", ylim=(0.05, 20))
left.legend(ncols=2)
at = np.linspace(0.02, 0.98, 200)
for k, growth in enumerate((0.3, 0.6, 0.9, 1.2)):
    response = tkf.theory.position_response(at, growth, slope=slope)
    right.plot(at, response, color=f"C{k}", label=f"$c = {growth}$")
    right.plot(at[response.argmin()], response.min(), "o", color=f"C{k}")
places = np.linspace(0.05, 0.95, 40)
lost = [tkf.theory.lost_time(tau, slope, rate=1.0) for tau in places]
low = [tkf.theory.position_response(tau, c, slope=slope) for tau, c in zip(places, lost, strict=True)]
right.plot(places, low, "k:", label="position is lost")
right.set(xlabel=r"position $\tau$", ylabel="response of the last token", ylim=(0, 5))
right.legend()
plt.show()
