r"""
A sweep over norms and temperatures
===================================

Any key of a run can be an axis of a sweep, also the kind of the norm. We record one number for each run: the time at which the mean
cosine of 24 random tokens passes 0.9. Runs that never get there count as missing.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

betas = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]
plan = {
    "repeats": 4,
    "run": {"t1": 60.0, "stop_when": "cosine>=0.9", "tokens": {"n": 24, "d": 256}},
    "axes": {"norm": ["post", "pre", "peri"], "beta": betas},
    "record": {"time": {"event": "cosine_above"}, "length": "mean_length"},
}
result = tkf.sweep(plan)
print(result, "| failed cells:", result.failed)
print(result.dataset["time"].dims, result.mean("time").shape)

# %%
# Dots are means over four starts, with error bars that are mostly smaller than the dots. Lines are theory for tokens at
# equal angles. Random tokens in 256 dimensions follow it closely.
#
# Post-LN is fastest at small :math:`\beta`. At large :math:`\beta` attention looks mostly at the token itself, and the order of the
# norms changes: Peri-LN normalizes the output of attention, so its tokens move on.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
grid = np.linspace(0.3, 5.2, 40)
for k, norm in enumerate(plan["axes"]["norm"]):
    times = result.dataset["time"].sel(norm=norm)
    ax.errorbar(betas, times.mean("repeat"), times.std("repeat"), fmt="o", color=f"C{k}", ms=5)
    theory = [tkf.theory.time_to_cosine(0.9, n=24, beta=beta, norm=norm) for beta in grid]
    ax.plot(grid, theory, color=f"C{k}", label=f"{norm}, theory")
ax.set(xlabel=r"inverse temperature $\beta$", ylabel="time until the mean cosine is 0.9", yscale="log")
ax.legend()
plt.show()
