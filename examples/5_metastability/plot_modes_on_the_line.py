r"""
How many hills have random points on the line?
==============================================

Tokens first gather at the hills of their density, smoothed by the kernel of attention. Without a norm and in one
dimension this is the number of maxima of a kernel density estimate of n Gaussian points, with kernels of width
:math:`\beta^{-1/2}`. There is a formula for its mean, and a limit for large n.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n = 4000
betas = np.geomspace(8.0, 20_000.0, 9)
x = np.random.default_rng(0).standard_normal((8, n))
grid = np.linspace(-5, 5, 8001)


def hills(points, beta):
    counts = np.histogram(points, bins=len(grid), range=(-5, 5))[0]
    kernel = np.exp(-0.5 * beta * (grid[np.abs(grid) < 6 / beta**0.5]) ** 2)
    density = np.convolve(counts, kernel, mode="same")
    inside = density[1:-1]
    return int(((inside > density[:-2]) & (inside >= density[2:]) & (inside > 1e-9)).sum())


counted = np.array([[hills(points, beta) for points in x] for beta in betas])

# %%
# Left: hills of 4000 random points, as means over 8 draws (bars: standard deviation), and the formula. With
# narrow kernels (large :math:`\beta`) there are more hills; most of them are in the tails, where points are sparse.
#
# Right: why attention finds hills of a certain width. On the sphere, attention multiplies a wave of degree k by the
# multiplier :math:`w_k`. It falls quickly once k exceeds about :math:`\sqrt\beta`: finer waves are smoothed away.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.7), layout="constrained")
fine = np.geomspace(6, 25_000, 60)
left.loglog(fine, [tkf.theory.kde_modes_line(n, beta) for beta in fine], color="C1", label="formula, 4000 points")
limit = [tkf.theory.kde_modes_line_limit(np.log(b) / np.log(n)) * np.sqrt(b * np.log(b)) for b in fine]
left.loglog(fine, limit, "--", color="0.5", label="its limit for many points")
left.errorbar(betas, counted.mean(axis=1), counted.std(axis=1), fmt="o", ms=5, label="counted")
left.set(xlabel=r"$\beta$", ylabel="number of hills")
left.legend()
degrees = np.arange(31)
for k, beta in enumerate((10.0, 40.0, 160.0)):
    logs = np.array([tkf.theory.log_multiplier(int(m), beta, d=2) for m in degrees])
    right.semilogy(degrees, np.exp(logs - logs[0]), "o-", ms=3, color=f"C{k}", label=rf"$\beta = {beta:g}$")
    right.axvline(beta**0.5, color=f"C{k}", ls=":", lw=1)
right.set(xlabel="degree $k$", ylabel="$w_k / w_0$", ylim=(1e-6, 2))
right.legend(loc="upper right")
plt.show()
