r"""
A sweep: the phase transition of collapse (Figure 3 of the survey)
==================================================================

A sweep is a table: a base run, the axes to vary, and what to record. It may be a TOML file or a dictionary. Give it a
folder and it survives a kill: with ``resume=True`` the same call continues where it stopped, with the same bits.

This sweep is Figure 3 of the survey on a coarser grid. Tokens start at random on the sphere, and we record the fraction
of pairs that have a cosine above 0.999, over time and over :math:`\beta`.
"""

import numpy as np

import tokenfield as tkf

plan = {
    "repeats": 4,
    "theory": "equiangular",
    "run": {"t1": 30.0, "rtol": 1e-3, "atol": 1e-3, "stop_when": "one-cluster", "tokens": {"n": 32}},
    "axes": {"d": [8, 128, 1024], "beta": np.linspace(0.5, 9.0, 18).tolist()},
    "record": {"aligned": {"observable": "fraction_above", "threshold": 0.999, "times": {"linspace": [0, 30, 61]}}},
}
result = tkf.sweep(plan)
print(result)

# %%
# Bright means collapsed. In few dimensions (left) the border is blurred: each start has its own fate, and at large
# :math:`\beta` many tokens wait in several clusters. In 1024 dimensions (right) random tokens are nearly orthogonal,
# all pairs behave alike, and the border is sharp. The curve is the time at which tokens at equal angles reach the
# cosine 0.999. It is one number for each :math:`\beta`, computed without any tokens.

figure = result.plot("aligned")
figure.show()
