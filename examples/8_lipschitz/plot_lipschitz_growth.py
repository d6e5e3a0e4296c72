r"""
How smooth is attention? Growth with the number of tokens
=========================================================

The Lipschitz constant of a layer tells how much a small change of its input can be amplified. For attention it depends
on the number of tokens n. This figure follows Castin's talks: on typical data the constant grows like a small power of
n, about :math:`n^{1/4}`. In the worst case it grows like :math:`\sqrt n`.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

d, lengths = 8, (4, 8, 16, 32, 64)
rng = np.random.default_rng(0)
head = tkf.Softmax(Q=rng.standard_normal((d, d)) / d**0.5, K=rng.standard_normal((d, d)) / d**0.5)
kinds = ("gaussian", "clustered", "low_rank")
growths = {kind: tkf.lipschitz.growth(head, tkf.lipschitz.data_model(kind, d), lengths, repeats=6) for kind in kinds}

A, R = np.diag([-1.0, 0.5]), 2.5
worst = []
for n in lengths:
    x = np.tile([R, 0.0], (n, 1))
    x[0] *= -1  # one token against all others, along the most negative eigenvalue
    worst.append(tkf.lipschitz.local(tkf.Softmax(A=A), x).constant)
bounds = [tkf.lipschitz.bounds(A, None, R, n) for n in lengths]

# %%
# Left: random tokens from three data models. Small dots are single samples, large ones their geometric means, and lines
# are fits :math:`C n^p`. The power depends on the data: about 1/4 for Gaussian tokens, less for tokens in clusters, and
# nearly the worst case for tokens in a subspace.
#
# Right: the worst case. One token sits opposite to all others along the most negative eigenvalue of A. The local
# constant grows like :math:`\sqrt n`, until n is of order :math:`e^{2R^2|\lambda_{\min}|}`, here 270,000. It is nearly
# equal to the lower bound, which this construction proves, and far below the upper bound, which holds for all tokens of
# length at most R.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
for k, (kind, found) in enumerate(growths.items()):
    left.loglog(lengths, found.constants, ".", ms=4, alpha=0.3, color=f"C{k}")
    left.loglog(lengths, np.exp(np.log(found.constants).mean(axis=1)), "o", color=f"C{k}")
    left.loglog(
        lengths,
        found.law(np.array(lengths)),
        color=f"C{k}",
        label=f"{kind.replace('_', ' ')}: $n^{{{found.law.power:.2f}}}$",
    )
left.set(xlabel="number of tokens $n$", ylabel="local Lipschitz constant", title="typical tokens")
right.loglog(lengths, [bound.sharp_upper for bound in bounds], color="0.5", label="upper bound")
right.loglog(lengths, worst, "o-", color="C3", label="one against all others")
right.loglog(lengths, [bound.lower for bound in bounds], ":", color="0.5", label="lower bound")
right.loglog(lengths, worst[0] * np.sqrt(np.array(lengths) / lengths[0]), "k--", lw=0.8, label=r"$\sqrt{n}$")
right.set(xlabel="number of tokens $n$", title="worst case")
for ax, ticks in ((left, (2, 5, 10, 20)), (right, (2, 5, 10, 20, 40))):
    ax.set_xticks(lengths, lengths)
    ax.set_yticks(ticks, ticks)
    ax.minorticks_off()
    ax.legend()
plt.show()
