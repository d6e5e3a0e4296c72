r"""
Continuous or sudden: two kinds of transition
=============================================

With noise, tokens are spread uniformly if noise wins, and gather around one direction if attention does. What happens
in between? It depends on :math:`\beta`. Up to ``beta_star`` the order grows continuously from zero. Above it the order
appears at once, and for a range of noise both states are stable: a first-order transition, as when water boils.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

d = 2
print(f"continuous up to beta = {tkf.theory.beta_star(d):.3f}")
branches = {}
for beta in (1.0, 4.0):
    critical = tkf.theory.critical_kappa(beta, d)
    branches[beta] = tkf.theory.branch(beta, d, kappa_max=1.6 * critical)
    jump = tkf.theory.first_order_point(beta, d) / critical
    print(f"beta = {beta:g}: {tkf.theory.transition(beta, d)}, order wins above {jump:.3f} kappa_c")

# %%
# The order parameter of stationary states against :math:`\kappa`, the strength of attention relative to noise. Solid
# lines are stable states and dotted ones unstable. The uniform state (order 0) loses its stability at
# :math:`\kappa_c`.
#
# Left, :math:`\beta = 1`: there the ordered state begins, with small order. Right, :math:`\beta = 4`: the branch first
# goes back, folds (circle), and returns at large order. Between the fold and :math:`\kappa_c` both states are
# stable, and a run ends in one or the other, depending on its start. At the dashed line both have the same free energy.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True, layout="constrained")
for ax, (beta, found) in zip(axes, branches.items(), strict=True):
    critical = tkf.theory.critical_kappa(beta, d)
    low = min(0.6, 0.9 * found.kappa.min() / critical)
    for stable, style in ((1, "-"), (0, ":")):
        shown = found.stable == stable
        ax.plot(
            found.kappa[shown] / critical, found.m_1[shown], style, color="C0", label=("unstable", "stable")[stable]
        )
    ax.plot([low, 1], [0, 0], "C0-")
    ax.plot([1, 1.6], [0, 0], "C0:")
    if tkf.theory.transition(beta, d) == "first order":
        turn = found.kappa.argmin()
        ax.plot(tkf.theory.fold(beta, d) / critical, found.m_1[turn], "o", ms=7, mfc="none", color="C1", label="fold")
        ax.axvline(
            tkf.theory.first_order_point(beta, d) / critical, color="0.5", ls="--", lw=1, label="equal free energy"
        )
    ax.set(
        xlabel=r"$\kappa\,/\,\kappa_c$", title=rf"$\beta = {beta:g}$: {tkf.theory.transition(beta, d)}", xlim=(low, 1.6)
    )
    ax.legend(loc="center right")
axes[0].set_ylabel("order parameter")
plt.show()
