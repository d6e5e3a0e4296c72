r"""
A sweep over norms and temperatures
===================================

Any key of a run can be an axis of a sweep, even the kind of the norm. We record one number for each run: the time at
which the mean cosine of 24 random tokens passes 0.9. Runs that never get there count as missing.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

betas = [0.5, 1.0, 2.0, 3.0, 4.0]
norms = {"post": "Post-LN", "pre": "Pre-LN", "peri": "Peri-LN"}
plan = {
    "repeats": 3,
    "run": {"t1": 60.0, "stop_when": "cosine>=0.9", "tokens": {"n": 24, "d": 256}},
    "axes": {"norm": list(norms), "beta": betas},
    "record": {"time": {"event": "cosine_0.9"}, "length": "mean_length"},
}
result = tkf.sweep(plan)
print(result, "| failed cells:", result.failed)
print(result.dataset["time"].dims, result.mean("time").shape)
with tempfile.TemporaryDirectory() as folder:  # for programs that read NetCDF; needs the extra `netcdf`
    result.to_netcdf(Path(folder, "times.nc"))
    print([each.name for each in Path(folder).iterdir()])

# %%
# Dots are means over three starts, with error bars that are smaller than the dots. Lines are theory for tokens at equal
# angles. Random tokens in 256 dimensions follow it closely.
#
# Post-LN is always the fastest. Peri-LN, which normalizes the output of attention, begins like Post-LN and ends like
# Pre-LN. At small :math:`\beta` the output is an average of many nearly orthogonal tokens, which is short: to normalize
# it is to make it longer, and tokens move faster. At large :math:`\beta` a token looks mostly at itself, the output has
# about length 1 already, and normalizing it changes little.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
grid = np.linspace(0.3, 4.2, 40)
for k, norm in enumerate(norms):
    times = result.dataset["time"].sel(norm=norm)
    ax.errorbar(betas, times.mean("repeat"), times.std("repeat"), fmt="o", color=f"C{k}", ms=5)
    theory = [tkf.theory.time_to_cosine(0.9, n=24, beta=beta, norm=norm) for beta in grid]
    ax.plot(grid, theory, color=f"C{k}", label=norms[norm])
ax.set(xlabel=r"inverse temperature $\beta$", ylabel="time until the mean cosine is 0.9", yscale="log")
ax.legend()
plt.show()
