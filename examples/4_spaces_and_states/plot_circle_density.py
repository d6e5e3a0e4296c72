r"""
Infinitely many tokens: a density on the circle
===============================================

With very many tokens, what matters is their density. ``CircleDensity`` represents a density on the circle by its Fourier
series, and the same model moves it: the run solves a partial differential equation, :math:`\partial_t p +
\nabla\cdot(p\, v) = 0`.

The start is the uniform density plus a small random perturbation. Each mode k grows at its own rate :math:`k^2 I_k(\beta)/(\beta
I_0(\beta))`, with Bessel functions :math:`I_k`.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta = 9.0
model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
start = tkf.CircleDensity.uniform(modes=64).perturbed(seed=2, size=1e-3)
traj = tkf.simulate(model, start, t1=11.0, save_at=111)
print(traj)

# %%
# Top: the density over time. For a long time nothing seems to happen. Then four ridges rise, and become very narrow. A
# run without noise tends to point masses, which no series can resolve. It adds modes as long as it can, and then ends
# with an event ("resolution").
#
# Bottom: the size of each mode on a logarithmic scale (lines) and theory (dots). Mode 4 grows fastest,
# which is why there are four ridges. At the end modes drive each other, and the straight lines end.

tkf.plotting.use_style()
figure, (top, bottom) = plt.subplots(2, 1, figsize=(6.8, 5.2), sharex=True, layout="constrained")
angle = np.linspace(-np.pi, np.pi, 361)
points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
values = np.stack([state.density(points) for state in traj.states])
picture = top.pcolormesh(traj.times, angle, values.T, cmap="YlGnBu", vmin=0, vmax=4, rasterized=True)
figure.colorbar(picture, ax=top, label="density (uniform: 1)", extend="max", pad=0.01)
top.set(ylabel="angle", title=rf"$\beta = {beta:g}$")
rates = tkf.theory.growth_rates(beta, d=2, modes=6)
size = np.linalg.norm(traj.dataset["coefficients"], axis=1)
times = traj.times[::10]
for k in range(1, 7):
    bottom.semilogy(traj.times, size[:, k], color=f"C{k}", label=f"k = {k}")
    bottom.semilogy(times, size[0, k] * np.exp(rates[k] * times), "o", ms=3, color=f"C{k}")
bottom.set(xlabel="time $t$", ylabel="size of the mode", ylim=(1e-5, 3))
bottom.legend(ncols=3)
plt.show()
