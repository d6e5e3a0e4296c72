r"""
Your own norm
=============

A normalization rule is a class: how fast attention turns a token, how its length grows, and what the discrete layer is.
This one weakens attention with depth, like :math:`1/(1+t)`. It derives from ``AbstractDirectionNorm``, as the rules of
the package do, and works with tokens, with equal angles and with theory.
"""

from typing import ClassVar

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf
from tokenfield.normalization import AbstractDirectionNorm, forever, unit


class Fading(AbstractDirectionNorm):
    title: ClassVar[str] = "fading"
    radial: ClassVar[bool] = False  # the length of a token does not evolve

    def speed(self, t, r, inner, length):  # theta' = speed P A
        return 1 / (1 + t)

    def growth(self, t, r, inner, length):  # r' = growth
        return jnp.zeros_like(r)

    def layer(self, t, x, sublayer, h):  # the discrete layer
        return unit(x + h * sublayer(x) / (1 + t))

    def radius(self, d):  # tokens live on the unit sphere
        return jnp.ones(())

    def inputs(self, t, x):  # what sublayers read
        return x

    def segments(self):  # the same rule at all times
        return forever(self)

    def check(self, d):  # no parameters to check
        pass


start = tkf.Equiangular(rho=0.0, n=16)
times = np.geomspace(0.01, 300.0, 120)
norms = (tkf.PostLN(), Fading())
runs = [tkf.simulate(tkf.Transformer(tkf.Softmax(1.0), norm), start, 300.0, save_at=times, rtol=1e-9) for norm in norms]

# %%
# One minus the cosine of tokens at equal angles. Under Post-LN it falls like :math:`e^{-2t}`. With the own norm time is
# replaced by :math:`\log(1+t)`: the distance falls like :math:`t^{-2}` (dotted), as under Pre-LN. Crosses are the times
# that ``theory.time_to_cosine`` finds by quadrature of the same class.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for k, (run, name) in enumerate(zip(runs, ("Post-LN", "own norm: 1/(1 + t)"), strict=True)):
    ax.loglog(run.times, run.dataset["gap"], color=f"C{k}", label=name)
gaps = np.geomspace(0.5, 1e-3, 6)
ax.loglog([tkf.theory.time_to_cosine(1 - g, 16, 1.0, norms[1]) for g in gaps], gaps, "x", color="k", label="quadrature")
ax.loglog(times[60:], 60 * times[60:] ** -2, "k:", lw=1, label=r"$\propto t^{-2}$")
ax.set(xlabel="time $t$", ylabel=r"$1 - \rho$", ylim=(1e-6, 2))
ax.legend(loc="lower left")
plt.show()
