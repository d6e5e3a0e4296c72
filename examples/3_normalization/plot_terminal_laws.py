r"""
How fast do six norms collapse?
===============================

Where the layer norm is placed decides how fast a deep Transformer loses its diversity. For n tokens at equal angles
everything is one equation for their cosine :math:`\rho`, with a speed :math:`1/s` that depends on the rule:

.. math:: \dot\rho = \frac{2}{s}\, \frac{e^{\beta\rho} (1-\rho) ((n-1)\rho + 1)}{e^\beta + (n-1) e^{\beta\rho}} .

Post-LN has s = 1. Pre-LN has s = r, the length of the tokens, which keeps growing. ``Equiangular`` is this reduced
state: two numbers instead of n vectors.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, beta = 32, 2.0
norms = {
    "Post-LN": tkf.PostLN(),
    "nGPT, α = 1/2": tkf.NGPT(alpha=0.5),
    "sqrt-scaling": tkf.SqrtScaling(),
    "Mix-LN, τ = 4": tkf.MixLN(tau=4.0),
    "Pre-LN": tkf.PreLN(),
    "Peri-LN": tkf.PeriLN(),
}
times = np.append(0.0, np.geomspace(0.1, 1000.0, 200))
start = tkf.Equiangular(rho=0.0, n=n)

# %%
# Solid lines are runs of the reduced state, from orthogonal tokens. Dotted lines are the laws of theory: Post-LN
# :math:`e^{-2t}`, nGPT :math:`e^{-2\alpha t}`, sqrt-scaling :math:`e^{-4\sqrt t}`, and :math:`t^{-2}` for the three
# rules whose tokens grow. Only the slope of these laws is predicted: each is drawn through the last point of its run in
# the picture.
#
# This is why Pre-LN makes better use of depth. Its tokens keep some distance for a long time, while Post-LN has lost
# all of it after a few units of time. Mix-LN behaves like Post-LN first and like Pre-LN later.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
for k, (name, norm) in enumerate(norms.items()):
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(beta=beta), norm=norm), start, 1000.0, save_at=times, rtol=1e-9)
    gap = run.dataset["gap"].values
    shown = gap > 1e-9
    law = tkf.theory.terminal_law(n, beta, norm)
    ax.loglog(run.times[shown], gap[shown], color=f"C{k}", label=f"{name}: {law.text}")
    t = run.times[shown][run.times[shown] > 2]
    clock = {"exponential": t, "stretched": np.sqrt(t), "power": np.log(t)}[law.kind]
    ax.loglog(t, gap[shown][-1] * np.exp(law.rate * (clock[-1] - clock)), "k:", lw=1)
ax.set(xlabel="time $t$", ylabel=r"$1 - \rho$", xlim=(0.1, 1000), ylim=(1e-9, 2))
ax.legend(loc="lower left")
plt.show()
