r"""
The same from the command line
==============================

Every run has a command. ``tokenfield simulate`` writes a folder with a report, a figure and the data, which
``tkf.load`` reads. ``tokenfield predict --json`` prints the numbers of theory for a script. This example starts both
from Python, as a shell script would, and compares them.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tokenfield as tkf


def tokenfield(line):
    """What a command prints."""
    command = [sys.executable, "-m", "tokenfield", *line.split()]
    return subprocess.run(command, cwd=folder.name, capture_output=True, text=True, check=True).stdout


folder = tempfile.TemporaryDirectory()
tokens, runs, times = "--n 32 --d 256", {}, {}
for beta in (1, 4):
    print(tokenfield(f"simulate {tokens} --beta {beta} --t1 12 --animation none --out beta{beta}"))
    runs[beta] = tkf.load(Path(folder.name, f"beta{beta}", "trajectory.zarr"))
    times[beta] = json.loads(tokenfield(f"predict {tokens} --beta {beta} --json"))["time_to_collapse"]

# %%
# The mean cosine of 32 tokens in 256 dimensions, from the data of the two runs. Dashed lines are the time to a cosine
# of 0.999 that ``tokenfield predict`` prints, for tokens at equal angles. Random tokens reach it at nearly that time: in
# high dimension they are nearly orthogonal at the start, and stay at nearly equal angles.
#
# The other commands work in the same way. ``tokenfield norms`` compares normalization rules, ``tokenfield phase-diagram``
# draws order and disorder of noisy tokens, ``tokenfield lipschitz`` measures smoothness, ``tokenfield sweep run`` runs a
# grid of parameters, ``tokenfield probe`` measures a real model, ``tokenfield atlas`` checks the claims of the
# literature, ``tokenfield explore`` opens the live page, and ``tokenfield kinds`` lists kernels, norms and observables.
# ``tokenfield completion bash`` prints a script with which a shell completes all of these.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for k, (beta, run) in enumerate(runs.items()):
    ax.plot(run.times, tkf.mean_cosine(run), color=f"C{k}", label=rf"$\beta = {beta}$")
    ax.axvline(times[beta], color=f"C{k}", ls="--")
ax.axhline(0.999, color="0.7", lw=0.8)
ax.set(xlabel="time", ylabel="mean cosine", ylim=(0, 1.02))
ax.legend()
plt.show()
