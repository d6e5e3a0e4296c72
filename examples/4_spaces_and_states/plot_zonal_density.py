r"""
Noise against attention in eight dimensions
===========================================

A density on the sphere of :math:`R^8` cannot be put on a grid. But if it depends only on the height :math:`\langle x,
e\rangle` along one axis, it is a function of one number. ``ZonalDensity`` is such a density, in any dimension.

Attention gathers the tokens around the axis, and noise spreads them. We run the Fokker–Planck equation, run 600 random
tokens with the same noise, and solve the equation of the stationary density, :math:`\mu \propto \exp(\kappa\, W *
\mu)`.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

d, beta = 8, 1.0
kappa = 1.5 * tkf.theory.critical_kappa(beta, d)
model = tkf.Transformer(tkf.Unnormalized(beta=beta), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa=kappa))
start = tkf.ZonalDensity.from_function(lambda t: np.exp(2 * t), modes=40, d=d)
traj = tkf.simulate(model, start, t1=12.0, save_at=61)
tokens = tkf.simulate(model, start.sample(600, seed=0), t1=12.0, save_at=61, seed=1, dt=0.03)
ordered = max(tkf.theory.stationary_states(beta, kappa, d), key=lambda state: state.m_1)

# %%
# Left: the law of the height at five times (lines). The gray histogram shows the random tokens at the end, and the
# dots are the stationary law of theory. It has one peak, near the pole but not at it: in eight dimensions there is
# little room at the pole itself.
#
# Right: the order parameter :math:`|\int x\, d\mu|` of the density, of the tokens, and in theory. Random tokens scatter
# a little around the density, as there are only 600 of them.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained")
t = np.linspace(-1, 1, 401)
points = np.concatenate([np.sqrt(1 - t**2)[:, None], np.zeros((401, d - 2)), t[:, None]], axis=1)
volume = (1 - t**2) ** ((d - 3) / 2)
volume /= volume.sum() * (t[1] - t[0])
for k, index in enumerate((0, 5, 10, 20, 60)):
    left.plot(
        t, traj.state(index).density(points) * volume, color=plt.cm.viridis(k / 5), label=f"t = {traj.times[index]:g}"
    )
axis = np.asarray(tokens.final.x).mean(axis=0)
left.hist(tokens.final.x @ axis / np.linalg.norm(axis), bins=40, density=True, color="0.8", zorder=0)
left.plot(t[::12], (ordered.density(t) * volume)[::12], "ko", ms=3, label="stationary")
left.set(xlabel=r"height $\langle x, e\rangle$", ylabel="probability density")
left.legend(loc="upper left")
right.plot(tokens.times, tkf.order_parameter(tokens), color="0.6", label="600 tokens")
right.plot(traj.times, tkf.order_parameter(traj), label="density")
right.axhline(ordered.m_1, color="k", ls="--", lw=1, label="stationary")
right.set(xlabel="time $t$", ylabel="order parameter", ylim=(0, 1))
right.legend(loc="center right")
plt.show()
