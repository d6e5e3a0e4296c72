r"""
Without a norm, some kernels blow up
====================================

Take the norm away: :math:`\dot x_i = \sum_j w_j\, k(x_i, x_j)\, x_j` in :math:`R^d`. If the weights of a token sum to
at most one, then its velocity is at most the length of the longest token, and no token grows faster than :math:`e^t`.
If the weights grow with the scores, growth feeds on itself, and the tokens reach infinity in *finite* time.

A blow-up is a result, not an error: the run ends with an event that gives the time.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

start = tkf.gaussian_tokens(n=50, d=2, seed=0, cov=0.25)
kernels = (tkf.Softmax, tkf.Sigmoid, tkf.L2, tkf.ReLU, tkf.Linear, tkf.Unnormalized)
runs = {
    kernel.__name__: tkf.simulate(tkf.Transformer(kernel(beta=1.0)), start, t1=6.0, save_at=601) for kernel in kernels
}

# %%
# The plot shows the length of the longest token. Three kernels stay below the bound :math:`R_0 e^t`: softmax, L2 and
# sigmoid. (The weights of sigmoid attention do not sum to one, but each is at most one, which is enough.) The other
# three end at a vertical line.
#
# For linear attention the time can be computed by hand. Along each eigenvector of the second moments :math:`M = \int y
# y^\top d\mu`, tokens only stretch, and an eigenvalue m obeys :math:`\dot m = 2 m^2`. Hence :math:`m(t) = m_0/(1 - 2
# m_0 t)`, which is infinite at :math:`t^* = 1/(2 m_0)`. For the largest eigenvalue this is the time that the run finds
# (printed below), and tokens along its eigenvector grow like the dashed curve, :math:`R_0 / \sqrt{1 - 2 m_0 t}`.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.6, 3.9), layout="constrained")
for k, (name, run) in enumerate(runs.items()):
    length = np.linalg.norm(run.dataset["x"], axis=-1).max(axis=1)
    ax.semilogy(run.times, length, color=f"C{k}", label=name)
    for event in run.events:
        print(f"{name}: {event.kind} at t = {event.time:.6f}")
        ax.axvline(event.time, color=f"C{k}", lw=0.8)

x = np.asarray(start.x)
largest = np.linalg.eigvalsh(x.T @ x / len(x))[-1]
ax.plot(6 * np.array([0, 1]), np.linalg.norm(x, axis=1).max() * np.exp([0, 6]), "0.4", ls=":", label="bound $R_0 e^t$")
times = np.linspace(0, 1 / (2 * largest), 400, endpoint=False)
ax.plot(times, np.linalg.norm(x, axis=1).max() / np.sqrt(1 - 2 * largest * times), "k--", lw=1, label="Linear, theory")
print(f"Linear, theory: blow-up at t = {1 / (2 * largest):.6f}")
ax.set(xlabel="time $t$", ylabel="length of the longest token", xlim=(0, 6), ylim=(0.5, 1e3))
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
