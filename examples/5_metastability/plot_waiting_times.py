r"""
How long do two clusters wait?
==============================

Two clusters at cosine :math:`\rho_0` attract each other, with a force that is exponentially small in :math:`\beta`. For
equal masses their cosine obeys :math:`\dot\rho = 2(1-\rho^2)/(1 + e^{\beta(1-\rho)})`, and for large :math:`\beta` they
meet at

.. math:: T \approx \frac{e^{\beta(1-\rho_0)}}{2\beta(1-\rho_0^2)} .
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

betas = np.array([5.0, 10.0, 20.0, 40.0, 80.0])
cosines = (0.0, 0.3, 0.6)


def meeting(beta, rho):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    run = tkf.simulate(model, tkf.circle_tokens([0.0, np.arccos(rho)]), t1=math.inf)
    return next(event for event in run.events if event.kind == "merge").detail["log_time"]


# %%
# Dots are runs. Each takes well under a second, however long the clusters wait. Solid lines are the exact integral of
# the equation above, and dashed lines the formula for large :math:`\beta`. The slope is :math:`1-\rho_0`: clusters at a
# right angle wait :math:`10^{32}` units of time at :math:`\beta = 80`. If a unit of time is a layer of a Transformer,
# then for all practical purposes they never meet.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
grid = np.linspace(2, 85, 60)
for k, rho in enumerate(cosines):
    exact = [tkf.theory.pair_merge_time(rho, 0.99, beta=beta) for beta in grid]
    large = [tkf.theory.pair_merge_time_asymptotic(rho, beta) for beta in grid]
    ax.semilogy(grid, exact, color=f"C{k}", lw=1.2, label=rf"$\rho_0 = {rho:g}$")
    ax.semilogy(grid, large, "k--", lw=0.8, label="large β" if k == 2 else None)
    ax.semilogy(betas, np.exp([meeting(beta, rho) for beta in betas]), "o", color=f"C{k}", ms=5)
ax.set(xlabel=r"inverse temperature $\beta$", ylabel="time until two clusters meet")
ax.legend()
plt.show()
