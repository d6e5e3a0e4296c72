r"""
Tokens that gain and lose weight
================================

Let each token carry a weight :math:`m_i`, and let weights evolve too: a token in a crowd gains, a lonely one loses.

.. math:: \dot m_i = c\, m_i \Big(\varphi_i - \sum_j m_j \varphi_j\Big), \qquad
   \varphi_i = \frac{1}{\beta} \sum_j m_j e^{\beta\langle x_i, x_j\rangle} .

Together with the motion by attention this is the Wasserstein–Fisher–Rao flow. The same energy increases, both because
tokens move and because mass passes from one token to another.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta, start = 4.0, tkf.uniform_sphere(n=60, d=3, seed=6)
runs = {}
for rate in (0.0, 1.0, 10.0):
    model = tkf.Transformer(tkf.Unnormalized(beta=beta), norm=tkf.PostLN(), fisher_rao=rate)
    runs[rate] = tkf.simulate(model, start, t1=1.5, save_at=151)

# %%
# Left: the energy. The faster weights can change, the sooner it is at its maximum, 1. With c = 0 it stays on a plateau,
# where several clusters wait.
#
# Right: the weights of the 60 tokens for c = 1. Blue tokens end in the winning cluster. Those that start near it gain
# weight. All others lose their weight faster than they can travel, and some arrive later, without any weight. That is
# how waiting is avoided: mass need not travel.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.5), layout="constrained")
for rate, run in runs.items():
    left.plot(run.times, tkf.normalized_energy(run, beta), label=f"c = {rate:g}")
left.set(xlabel="time $t$", ylabel="normalized energy", ylim=(0, 1.03))
left.legend(loc="lower right")
weights = runs[1.0].dataset["weights"].values
labels = tkf.clusters(runs[1.0].final, tol=0.05).labels
for k in np.argsort(labels)[::-1]:
    right.plot(runs[1.0].times, weights[:, k], color=f"C{labels[k]}" if labels[k] < 3 else "0.7", lw=0.8)
right.set(xlabel="time $t$", ylabel="weight of a token, $c = 1$", ylim=(0, None))
plt.show()
