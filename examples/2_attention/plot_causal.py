r"""
Causal attention: early tokens lead
===================================

In a language model a token sees only the tokens before it. This breaks the symmetry: token 1 sees only itself and never
moves. Token 2 sees tokens 1 and 2, and so on. In the end all tokens sit where token 1 was from the start.

Before the end there is again a long metastable phase, and one can say in advance where its clusters will be. Go through
the sequence. A token that is farther than :math:`\delta = c\,\beta^{-1/2}` from all earlier *centers* is a new center.
These are Rényi centers. Later tokens fall to them, while a center feels only tokens that are far away.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, beta = 200, 64.0
model = tkf.Transformer(tkf.Softmax(beta=beta, causal=True), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=n, d=2, seed=4)
times = np.append(0.0, np.geomspace(0.05, 300.0, 200))
traj = tkf.simulate(model, start, t1=300.0, save_at=times)
delta = 4 / np.sqrt(beta)
centers = tkf.renyi_centers(start, delta)
print(f"{len(centers)} centers; expected for many tokens: {0.7476 * 2 * np.pi / delta:.1f}")

# %%
# Left: angles of tokens over time. The orange lines are the Rényi centers, found from the start alone. Eight of the
# nine stay where they are, and nearly all tokens fall to one of them. The ninth came late in the sequence, near an
# earlier one, and merges with it. On the circle the centers are like cars of length :math:`\delta` that park at random:
# about :math:`0.7476 \cdot 2\pi/\delta` of them find a place (printed above).
#
# Right: how far each token has moved at the end of the run, against its place in the sequence. Centers come early in
# the sequence, and early tokens have few others to follow.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.8), width_ratios=(1.4, 1), layout="constrained")
x = traj.dataset["x"].values
angle = np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0)
others = np.setdiff1d(np.arange(n), centers)
left.plot(traj.times, angle[:, others], color="C0", lw=0.5, alpha=0.5)
left.plot(traj.times, angle[:, centers], color="C1", lw=1.6)
left.set(xlabel="time $t$", ylabel="angle", xscale="log", xlim=(0.05, 300))
moved = np.abs(angle[-1] - angle[0])
right.plot(1 + others, moved[others], "o", ms=3, label="tokens")
right.plot(1 + centers, moved[centers], "o", ms=5, label="Rényi centers")
right.set(xlabel="place in the sequence", ylabel="angle moved until $t = 300$", xscale="log")
right.legend()
plt.show()
