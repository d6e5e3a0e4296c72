r"""
Where a Gaussian ends: collapse to a line
=========================================

Take scores with a negative direction, :math:`A = -q q^\top`: tokens prefer tokens on the other side along q. Without a norm and
with V = I, Gaussian data then do not blow up. Their covariance converges, and the limit is known in closed form:
:math:`\Sigma^* = \Sigma_0^{1/2}\, \Pi\, \Sigma_0^{1/2}`, with :math:`\Pi` the projector on the kernel of
:math:`\Sigma_0^{1/2} (A + A^\top) \Sigma_0^{1/2}`.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

q = np.array([0.40632365, 0.91372922])
A = -np.outer(q, q)
starts = [[[0.7, 0.1], [0.1, 0.3]], [[0.3, -0.2], [-0.2, 0.6]], [[0.2, 0.15], [0.15, 0.9]]]
times = np.append(0.0, np.geomspace(0.05, 3000.0, 120))
runs = tkf.simulate_many(
    tkf.Transformer(tkf.Softmax(A=A)), [tkf.Gaussian(None, cov) for cov in starts], 3000.0, save_at=times
)

# %%
# Left: ellipses of one standard deviation, from dark to light, for three starts. All flatten to the same line, the one
# orthogonal to q (dashed). How wide they remain along this line depends on the start.
#
# Right: the distance to the predicted limit. It falls like 1/t (dotted), not exponentially: attention becomes weak as the cloud
# becomes flat along q.
#
# It is tempting to say that the limit is :math:`\Sigma_0` projected to the line. It is not: the crosses mark where the
# ellipses would then end.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 4, figsize=(10.4, 3.0), width_ratios=(1, 1, 1, 1.3), layout="constrained")
circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200))])
along = np.array([q[1], -q[0]])
for k, (ax, run, start) in enumerate(zip(axes, runs, starts, strict=False)):
    ax.plot(*np.outer(along, [-1.1, 1.1]), "k--", lw=0.7)
    for j, index in enumerate((0, 45, 65, 120)):
        values, vectors = np.linalg.eigh(run.state(index).cov)
        ax.plot(*(vectors * np.sqrt(np.maximum(values, 0))) @ circle, color=plt.cm.viridis(j / 4))
    ax.plot(*np.outer(along, np.sqrt(along @ start @ along) * np.array([-1, 1])), "kx")
    ax.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), title=f"start {k + 1}")
    gap = np.linalg.norm(run.dataset["cov"].values - tkf.theory.gaussian_limit(A, None, start), axis=(1, 2))
    axes[3].loglog(run.times[1:], gap[1:], color=f"C{k}", label=f"start {k + 1}")
axes[3].loglog(times[60:], 0.5 / times[60:], "k:", label="$1/t$")
axes[3].set(xlabel="time $t$", ylabel="distance to the limit")
axes[3].legend()
plt.show()
