r"""
Start in one hemisphere: no metastable states
=============================================

Metastable clusters need tokens on all sides. If all tokens start in one open hemisphere, they come together exponentially fast,
for every :math:`\beta` (Theorem 3 of the survey). In high dimension this is the usual case: n random tokens in dimension
:math:`d \ge n` always lie in some hemisphere.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

stop = tkf.order_above(1 - 1e-12)
start = tkf.hemisphere(n=40, d=3, seed=0)
runs = {}
for beta in (0.5, 2.0, 6.0):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    runs[beta] = tkf.simulate(model, start, t1=60.0, save_at=601, stop_when=stop, rtol=1e-9, atol=1e-14)
    print(f"beta = {beta:g}: order parameter 1 - 1e-12 at t = {runs[beta].times[-1]:.2f}")

# %%
# Left: the tokens, at :math:`\beta = 6`. Right: one minus the *smallest* cosine of all pairs, which is a bound for the whole cloud.
# After a wait that depends on :math:`\beta`, all curves fall like :math:`e^{-2t}` (dotted). This rate does not depend on
# :math:`\beta`: in a tight cluster all weights are equal, and the distance of two tokens shrinks like :math:`e^{-t}`.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.7), layout="constrained")
tkf.plotting.tokens_panel(runs[6.0], left, legend=None)
for k, (beta, run) in enumerate(runs.items()):
    spread = 1 - tkf.smallest_cosine(run)
    right.semilogy(run.times, spread, color=f"C{k}", label=rf"$\beta = {beta:g}$")
    late = run.times[(spread > 1e-9) & (spread < 1e-2)]
    law = np.exp(-2 * (late - late[-1])) * spread.sel(time=late[-1]).item()
    right.semilogy(late, law, "k:", lw=1.2, label=r"$e^{-2t}$" if k == 2 else None)
right.set(xlabel="time $t$", ylabel="1 − smallest cosine", ylim=(1e-10, 3))
right.legend()
plt.show()
