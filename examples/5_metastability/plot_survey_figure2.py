r"""
The staircase of the energy (Figure 2 of the survey)
====================================================

At large :math:`\beta` tokens wait, merge, wait much longer, and merge again. The energy climbs a staircase. This is the
published case: five tokens on the circle, and :math:`\beta` up to 4000. The last merge comes at a time of order
:math:`10^{143}`, so no fixed step could get there. ``t1=math.inf`` merges collapsed clusters and takes steps that grow
with the waiting times. It needs a few seconds.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

angles = 0.5 * np.array([0, 0.5, 2, 4, 7]) * math.log(2000) / math.sqrt(2000)
start = tkf.circle_tokens(angles)
runs = {}
for beta in (500.0, 1000.0, 2000.0, 4000.0):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    runs[beta] = tkf.simulate(model, start, t1=math.inf)

for state in tkf.metastable_states(runs[4000.0])[:-1]:
    print(f"clusters of sizes {state.sizes} until t = 10^{state.log_end / math.log(10):.1f}")
limit = tkf.theory.saddle_to_saddle(start)
print("order of the merges as beta grows:", [merge.tokens for merge in limit])

# %%
# The time axis is :math:`\log t/\beta`. On it the steps tend to the dotted lines as :math:`\beta` grows. By theory, two
# clusters at cosine :math:`\rho` merge at a time of order :math:`e^{\beta(1-\rho)}`, up to powers of :math:`\beta`, and
# the closest pair is first. Each plateau lies at :math:`\sum_c (\text{size}_c/n)^2` (gray). Circles are the times that
# the runs report for the merges.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(7.0, 3.9), layout="constrained")
for level in (5, 7, 11, 13, 25):
    ax.axhline(level / 25, color="0.85", lw=0.8, zorder=0)
for merge in limit:
    ax.axvline(merge.exponent, color="0.5", ls=":", lw=1, zorder=0)
for k, (beta, run) in enumerate(runs.items()):
    later = np.isfinite(run.log_times)
    ax.plot(
        run.log_times[later] / beta,
        tkf.normalized_energy(run, beta)[later],
        color=f"C{k}",
        label=rf"$\beta = {beta:g}$",
    )
    for event in run.events:
        if event.detail.get("energy_fraction") == 0.5:
            height = (event.detail["energy_before"] + event.detail["energy_after"]) / 2
            ax.plot(event.detail["log_time"] / beta, height, "o", ms=4, mfc="white", color=f"C{k}")
ax.set(xlabel=r"$\log t\,/\,\beta$", ylabel="normalized energy", xlim=(-0.02, 0.1), ylim=(0.15, 1.03))
ax.legend(loc="upper left")
plt.show()
