r"""
Spots on a sphere
=================

The 2-sphere behaves like the circle (see :ref:`sphx_glr_gallery_4_spaces_and_states_plot_circle_density.py`).
``SphereDensity`` represents a density by spherical harmonics. From a nearly uniform start, harmonics of degree
:math:`\ell` grow at the rate :math:`\ell(\ell+1)\, w_\ell/(\beta w_0)`, where :math:`w_\ell` are the multipliers of the
kernel :math:`e^{\beta\langle x,y\rangle}`. The fastest degree decides the size of the spots.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta = 30.0
model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
start = tkf.SphereDensity.uniform(modes=32).perturbed(seed=4, size=0.002)
traj = tkf.simulate(model, start, t1=6.0, save_at=7)
print("fastest degree:", tkf.theory.first_clusters(beta, d=3))

# %%
# Three maps of the sphere (Mollweide projection). The random start has structure at all scales. By t = 3 fine and
# coarse structure has faded beside the scale that grows fastest, and by t = 6 there are spots: these will be the
# clusters.
#
# Bottom right: how much each degree has grown by t = 2, measured (bars) and predicted (dots). The fastest is
# :math:`\ell = 7`. For large :math:`\beta` it is near the root of :math:`\ell(\ell + 1) = 2\beta`.

tkf.plotting.use_style()
figure = plt.figure(figsize=(7.6, 4.4), layout="constrained")
longitude, latitude = np.meshgrid(np.linspace(-np.pi, np.pi, 181), np.linspace(-np.pi / 2, np.pi / 2, 91))
x = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=-1)
for k, index in enumerate((0, 3, 6)):
    ax = figure.add_subplot(2, 2, k + 1, projection="mollweide")
    values = traj.state(index).density(x.reshape(-1, 3)).reshape(longitude.shape)
    ax.pcolormesh(longitude, latitude, values, cmap="YlGnBu", rasterized=True)
    ax.set(title=f"$t = {traj.times[index]:g}$, density {values.min():.2f} to {values.max():.2f}", xticks=[], yticks=[])
ax = figure.add_subplot(2, 2, 4)
degree = np.arange(1, 17)
growth = np.asarray(traj.state(2).spectrum[1:17] / traj.state(0).spectrum[1:17])
ax.bar(degree, growth, color="C0", alpha=0.5)
ax.plot(degree, np.exp(2 * tkf.theory.growth_rates(beta, d=3, modes=degree.tolist())), "o", color="C1")
ax.set(xlabel=r"degree $\ell$", ylabel="growth until $t = 2$", xticks=[1, 4, 7, 10, 13, 16])
plt.show()
