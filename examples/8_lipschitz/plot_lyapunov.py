r"""
Does attention forget its start? Lyapunov exponents
===================================================

Change the start of a run a little. Does the change grow or fade? The answer is a list of numbers, one for each
direction of the change: the finite-time Lyapunov exponents :math:`\frac1t \log \sigma_i`, with :math:`\sigma_i` the
singular values of the derivative of the flow. Negative exponents mean forgetting.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, d = 12, 3
start = tkf.uniform_sphere(n, d, seed=2)
times = (0.5, 2.0, 8.0, 32.0)
model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
spectra = {t1: tkf.lipschitz.lyapunov(model, start, t1).values for t1 in times}

depths = np.arange(1, 13)
norms = {"Post-LN": tkf.PostLN(), "Pre-LN": tkf.PreLN()}
stacks = {}
for name, norm in norms.items():
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=norm)
    stacks[name] = [tkf.lipschitz.network(model, start, depth=int(depth)) for depth in depths]

# %%
# Left: all exponents of the flow at four times. At short times some changes grow: tokens between two clusters must
# choose. At late times nearly all exponents are negative. The four at zero are changes that move a whole cluster, and
# they are remembered: two numbers for each of two clusters. What attention keeps of its input is where the clusters
# are.
#
# Right: stacks of layers. Solid: the constant of the whole stack. Dashed: the product of the constants of its layers,
# which is the bound that one would use without looking at the stack as a whole. Under Pre-LN it is nearly attained:
# what one layer stretches most, the next one stretches again. Under Post-LN it is not, and in the end the stack
# contracts while the product still grows.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.6), layout="constrained")
for k, (t1, values) in enumerate(spectra.items()):
    left.plot(
        np.arange(1, len(values) + 1), values, "o-", ms=3, lw=0.8, color=plt.cm.viridis(k / 4), label=f"t = {t1:g}"
    )
left.axhline(0, color="0.7", lw=0.8, zorder=0)
left.set(xlabel="index", ylabel="Lyapunov exponent", ylim=(-1.2, 0.8))
left.legend()
for k, (name, found) in enumerate(stacks.items()):
    right.semilogy(depths, [each.constant for each in found], "o-", ms=3, color=f"C{k}", label=f"{name}, stack")
    right.semilogy(depths, [each.product for each in found], "--", color=f"C{k}", label=f"{name}, product")
right.set(xlabel="number of layers", ylabel="Lipschitz constant")
right.set_yticks([2, 5, 10, 20, 40], [2, 5, 10, 20, 40])
right.minorticks_off()
right.legend()
plt.show()
