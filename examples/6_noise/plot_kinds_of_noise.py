r"""
Four kinds of noise
===================

Noise in a Transformer can come from many sources, and need not be the same for all tokens. Here are four kinds on the
circle, with the same attention, the same start and about the same strength.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

start = tkf.uniform_sphere(n=60, d=2, seed=0)
noises = {
    "independent": tkf.SphereNoise(kappa=40.0),
    "common": tkf.CommonNoise(kappa=40.0),
    "anisotropic": tkf.AnisotropicNoise(kappa=40.0, S=[[0.0], [1.4]]),
    "multiplicative": tkf.MultiplicativeNoise(kappa=40.0, g=lambda x: 1 + x[0]),
}
runs = {}
for name, noise in noises.items():
    model = tkf.Transformer(tkf.Softmax(beta=8.0), norm=tkf.PostLN(), noise=noise)
    runs[name] = tkf.simulate(model, start, t1=60.0, save_at=601, seed=3, dt=0.05)

# %%
# Each line is the angle of a token.
#
# - *Independent* noise: clusters are fuzzy, and wander.
# - *Common* noise: all tokens get the same kick. Clusters stay sharp, wander, and soon meet.
# - *Anisotropic* noise kicks in the vertical direction only. It moves tokens at angle 0 or :math:`\pi` along the circle. Tokens
#   at :math:`\pm\pi/2` are kicked outward, which the norm undoes: clusters there are sharp.
# - *Multiplicative* noise depends on the place, here as :math:`1 + \cos\theta`. Tokens at :math:`\theta = \pm\pi` are quiet, and
#   tokens at 0 are shaken.

tkf.plotting.use_style()
figure, axes = plt.subplots(2, 2, figsize=(8.0, 5.0), sharex=True, sharey=True, layout="constrained")
for ax, (name, run) in zip(axes.flat, runs.items(), strict=True):
    x = run.dataset["x"].values
    angle = np.arctan2(x[..., 1], x[..., 0])
    angle[1:][np.abs(np.diff(angle, axis=0)) > np.pi] = np.nan  # no lines across the cut
    ax.plot(run.times, angle, color="C0", lw=0.4, alpha=0.5)
    ax.set(title=name, ylim=(-np.pi, np.pi))
    ax.set_yticks([-np.pi, 0, np.pi], [r"$-\pi$", "0", r"$\pi$"])
figure.supxlabel("time $t$", fontsize=9)
figure.supylabel("angle", fontsize=9)
plt.show()
