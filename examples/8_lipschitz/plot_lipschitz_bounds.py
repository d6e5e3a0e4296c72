r"""
Bounds on the smoothness of attention
=====================================

How bad can one attention layer be? There are bounds for all tokens in a ball of radius R, and sharper ones that look at
the tokens. An adversary can search for bad tokens by gradient ascent. Here are all of these beside each other, for one
head in four dimensions and eight tokens.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, d = 8, 4
A = np.random.default_rng(1).standard_normal((d, d)) / 2
head = tkf.Softmax(A=A)
radii = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
random = np.asarray(tkf.uniform_sphere(n, d, seed=0).x)
typical = [tkf.lipschitz.local(head, R * random).constant for R in radii]
by_data = [tkf.lipschitz.data_bounds(head, R * random).sharp_data for R in radii]
worst = [tkf.lipschitz.adversarial(head, n, R, starts=8, steps=100).constant for R in radii]
grid = np.geomspace(0.2, 3.5, 60)
bounds = [tkf.lipschitz.bounds(A, None, R, n) for R in grid]

# %%
# The black curve is the bound for all tokens in the ball, the dotted one says that *some* tokens are at least that bad,
# and the triangles are the worst tokens that the adversary found. They lie between the two, as they must.
#
# Random tokens of length R (disks) are much better than the worst ones, and the bound that looks at these tokens
# (squares) is sharper than the one for the ball. The mean-field bound holds for any number of tokens. It pays for this
# with a growth like :math:`e^{2|A|R^2}`.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.8, 4.2), layout="constrained")
ax.loglog(grid, [bound.mean_field for bound in bounds], color="0.7", ls="-.", label="mean-field bound, any n")
ax.loglog(grid, [bound.sharp_upper for bound in bounds], color="k", label="upper bound in the ball")
ax.loglog(radii, by_data, "s--", ms=4, color="C2", label="bound for the random tokens")
ax.loglog(radii, worst, "^", color="C1", label="worst tokens found")
ax.loglog(grid, [bound.lower for bound in bounds], "k:", label="lower bound on the worst case")
ax.loglog(radii, typical, "o", color="C0", label="random tokens")
ax.set(xlabel="radius $R$", ylabel="Lipschitz constant of attention", ylim=(0.5, 300))
ax.set_xticks([0.25, 0.5, 1, 2, 3], [0.25, 0.5, 1, 2, 3])
ax.minorticks_off()
ax.legend(loc="upper left")
plt.show()
