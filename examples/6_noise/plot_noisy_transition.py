r"""
Order out of noise: a smooth transition or a jump
=================================================

Add noise to every token: :math:`dX = P(\text{drift})\, dt + \sqrt{2/\kappa}\, dW` on the circle. If the noise is strong
(small :math:`\kappa`), tokens stay spread out. If it is weak, they gather. The order parameter :math:`m_1 = |\int x\,
d\mu|` is 0 for the one and near 1 for the other.

How order sets in depends on :math:`\beta`. Up to :math:`\beta_* = 2.447` it grows continuously. Above, it jumps.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, beta = 1000, 6.0
kappa = 0.93 * tkf.theory.critical_kappa(beta, d=2)
model = tkf.Transformer(tkf.Unnormalized(beta=beta), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa=kappa))
widths = (2.0, 1.0, 0.2)
starts = [tkf.circle_tokens(width * np.random.default_rng(0).standard_normal(n)) for width in widths]
runs = tkf.simulate_many(model, starts, t1=3.0, seeds=range(3), save_at=121, dt=0.001)
laws = tkf.theory.stationary_states(beta, kappa, d=2, l_max=1)
for law in laws:
    print(f"{law.kind}: order parameter {law.m_1:.4f}, {'stable' if law.stable else 'unstable'}")

# %%
# Left: the order parameter of the stationary laws by theory (dashed: unstable), against :math:`\kappa` in units of its
# critical value :math:`\kappa_c = \beta/I_1(\beta)`. For :math:`\beta > \beta_*` the branch folds back. Between
# its fold (dotted, from ``theory.fold``) and :math:`\kappa_c` there are two stable laws, one ordered and one uniform.
#
# Right: 1000 tokens at :math:`\beta = 6`, :math:`\kappa = 0.93\,\kappa_c` (the circles on the left), from three starts.
# What becomes of them depends on the start, as with water that is supercooled. The dashed line is the unstable law: a
# start below it loses its order, and starts above it come to the ordered law, up to fluctuations of finitely many
# tokens.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.6), sharey=True, layout="constrained")
for k, each in enumerate((1.0, tkf.theory.beta_star(d=2), 4.0, 6.0)):
    curve = tkf.theory.branch(each, d=2, kappa_max=1.3 * tkf.theory.critical_kappa(each, d=2))
    scaled, turn = curve.kappa / curve.kappa[0], int(np.argmin(curve.kappa))
    left.plot(scaled[turn:], curve.m_1[turn:], color=f"C{k}", label=rf"$\beta = {each:.4g}$")
    left.plot(scaled[: turn + 1], curve.m_1[: turn + 1], "--", color=f"C{k}")
    left.axvline(tkf.theory.fold(each, d=2) / curve.kappa[0], color=f"C{k}", lw=0.8, ls=":")
left.plot([0.93] * len(laws), [law.m_1 for law in laws], "o", mfc="none", color="k", clip_on=False)
left.set(xlabel=r"$\kappa/\kappa_c$", ylabel="order parameter $m_1$", xlim=(0.85, 1.25), ylim=(0, 1))
left.legend(loc="lower right")
right.plot(runs.times, tkf.order_parameter(runs).T)
for law in laws:
    right.axhline(law.m_1, color="k", lw=0.8, ls="-" if law.stable else "--")
right.set(xlabel="time $t$", title=r"$\beta = 6$, $\kappa = 0.93\,\kappa_c$")
plt.show()
