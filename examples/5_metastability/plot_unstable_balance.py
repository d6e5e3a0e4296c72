r"""
An unstable balance
===================

Twenty-four tokens at equal angles on the circle are pulled from both sides with equal force. They do not move. But this
balance is like that of a pencil on its tip: any perturbation grows, exponentially at first. ``tkf.perturbed`` makes
one.

Theory knows the rate. A perturbation is a sum of modes. Mode k, with k periods around the circle, grows at the rate
:math:`k^2 I_k(\beta)/(\beta I_0(\beta))`, and the fastest mode dominates.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta, n = 4.0, 24
model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
polygon = tkf.circle_tokens(2 * np.pi * np.arange(n) / n)
sizes = 10.0 ** -np.arange(2, 13, 2)
starts = [tkf.perturbed(polygon, size=size, seed=1) for size in sizes]
runs = tkf.simulate_many(model, starts, t1=60.0, save_at=241, rtol=1e-11, atol=1e-15)
rate = tkf.theory.growth_rates(beta, d=2, modes=[3])[0]
print("fastest mode:", tkf.theory.first_clusters(beta, d=2), "periods, at the rate", round(rate, 4))

# %%
# Left: how far the tokens have moved from their places (root mean square). Each run is a perturbation a hundred times
# as small as the one before. All of them grow along straight lines on this logarithmic axis, of the slope that theory
# predicts (dotted). So each further factor of 100 delays the growth by the same time, :math:`\log(100)/0.664 = 6.9`, and
# no more. The rounding errors of a computer are about as large as the smallest perturbation: even an exact polygon would
# not last long.
#
# Right: the angles of the tokens in the run that started with :math:`10^{-6}`. The fastest mode has three periods, and
# three clusters form. This mode was in the perturbation, a millionth of a radian high, before anything could be seen.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for size, run in zip(sizes, runs, strict=True):
    moved = [np.sqrt(np.square(np.asarray(state) - np.asarray(polygon)).sum(1).mean()) for state in run.states]
    left.semilogy(run.times, moved, color=plt.cm.viridis(-np.log10(size) / 13), label=f"$10^{{{np.log10(size):.0f}}}$")
times = np.array([16, 34])
left.semilogy(times, 1e-10 * np.exp(rate * (times - 16)), "k:", label="theory")
left.set(xlabel="time $t$", ylabel="distance from the polygon", xlim=(0, 60))
left.legend(title="perturbation", fontsize=8)
angles = np.unwrap([np.arctan2(*np.asarray(state).T[::-1]) for state in runs[2].states], axis=0)
right.plot(runs[2].times, (np.degrees(angles) + 52.5) % 360 - 52.5, "C0", lw=0.8)
right.set(xlabel="time $t$", ylabel="angle (degrees)", yticks=range(-60, 301, 60), xlim=(0, 60))
plt.show()
