r"""
First align, then cluster
=========================

Attention with general matrices does not treat all directions alike. When :math:`\beta` is large and tokens are spread over
the sphere, a token :math:`x` attends to the tokens near :math:`Ax/|Ax|`. So it moves by :math:`\dot x = \mathsf P_x VAx/|Ax|`,
toward the leading eigenvectors of :math:`VA`, at a rate in which :math:`\beta` cancels. Clusters form only after that.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

shape, beta = np.diag([1.0, 1.0, 0.5]), 60.0
phases = tkf.theory.multiscale_phases(beta * shape, cosine=0.5)
print(", ".join(f"{phase.name}: 10^{phase.log_time / np.log(10):.1f}" for phase in phases))

tokens = tkf.uniform_sphere(n=1500, d=3, seed=0)
times = np.linspace(0, 12, 49)
model = tkf.Transformer(tkf.Softmax(A=beta * shape), norm=tkf.PostLN())
x = tkf.simulate(model, tokens, times[-1], save_at=times).dataset["x"].values
limit = tkf.theory.alignment_path(tokens.x, shape, None, times)
rate = tkf.theory.alignment(shape).rate

# %%
# Here *A* has a leading plane. Above, the sphere seen from the north, yellow near the poles: tokens reach the equator first
# and gather on it later. A few tokens near a pole stay behind. When all others have left they see only each other, and are a
# cluster of their own. Below, on the left, the median height of tokens above the plane: measured (dots), in the limit of large
# :math:`\beta`, where tokens do not feel each other (line), and the rate 1/2 of theory (dashed). It stops falling when clusters
# have collapsed: a cluster attends to itself, and stays where it is. On the right, longitudes of some tokens. Merging the last
# clusters would take :math:`10^{13}` units of time.

tkf.plotting.use_style()
places = [["0", "0", "16", "16", "48", "48"], ["height"] * 3 + ["longitude"] * 3]
figure, axes = plt.subplot_mosaic(places, figsize=(7.2, 5.2), layout="constrained")
for t in (0, 16, 48):
    axes[str(t)].add_artist(plt.Circle((0, 0), 1, fill=False, lw=0.5))
    axes[str(t)].scatter(x[t, :, 0], x[t, :, 1], c=np.abs(x[t, :, 2]), s=3, vmin=0, vmax=1)
    axes[str(t)].set(
        aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[], xlabel=f"t = {times[t]:g}"
    )
height = np.median(np.abs(limit[..., 2]), axis=1)
axes["height"].semilogy(times[::4], np.median(np.abs(x[::4, :, 2]), axis=1), "o", ms=4, label="tokens")
axes["height"].semilogy(times, height, label=r"limit $\beta\to\infty$")
axes["height"].semilogy(times, height[0] * np.exp(-rate * times), "k--", lw=0.8, label=f"rate {rate:g}")
axes["height"].set(xlabel="time t", ylabel="median height")
axes["height"].legend()
angles = np.unwrap(np.arctan2(x[:, ::10, 1], x[:, ::10, 0]), axis=0)
axes["longitude"].plot(times, angles, color="C0", lw=0.4)
axes["longitude"].set(xlabel="time t", ylabel="longitude")
plt.show()
