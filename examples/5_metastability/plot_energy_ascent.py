r"""
Attention climbs an energy
==========================

Both flows of the theory increase the interaction energy :math:`E = \frac{1}{2\beta}\iint e^{\beta\langle x,y\rangle}
d\mu\,d\mu`. For unnormalized attention (USA) the slope is exactly :math:`\dot E = \int |v|^2 d\mu`, with v the
velocity. For softmax (SA) it is :math:`\dot E = \int Z\, |v|^2 d\mu`, with :math:`Z(x) = \int e^{\beta\langle
x,y\rangle} d\mu(y)`.

These are gradient flows, of *ascent*: the survey prints "descent".
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

beta, start = 3.0, tkf.uniform_sphere(n=64, d=3, seed=1)


def power(state, softmax):
    x = np.asarray(state.x)
    kernel = np.exp(beta * x @ x.T) / len(x)
    z = kernel.sum(axis=1, keepdims=True)
    pull = kernel @ x / (z if softmax else 1)
    velocity = pull - (pull * x).sum(axis=1, keepdims=True) * x
    return ((z if softmax else 1) * velocity**2).sum() / len(x)


# %%
# Lines are the slopes of the measured energy, by finite differences of 400 saved states. Dots are the formulas, from
# the tokens at that time. They agree, and are never negative.
#
# Each bump is an event: clusters form, and neighboring clusters merge. USA goes through such events in less time, as
# its forces are larger by the factor Z.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.4), layout="constrained")
cases = {
    "softmax (SA)": (tkf.Softmax(beta=beta), True, 12.0),
    "unnormalized (USA)": (tkf.Unnormalized(beta=beta), False, 2.4),
}
for ax, (title, (attention, softmax, t1)) in zip(axes, cases.items(), strict=True):
    run = tkf.simulate(tkf.Transformer(attention, norm=tkf.PostLN()), start, t1, save_at=401, rtol=1e-9)
    energy = tkf.energy(run, beta)
    ax.plot(run.times, energy.differentiate("time"), label=r"slope $dE/dt$")
    few = slice(10, None, 13)
    ax.plot(run.times[few], [power(state, softmax) for state in run.states[few]], "o", ms=3.5, label="formula")
    ax.set(xlabel="time $t$", title=title, ylim=(0, None))
axes[0].set_ylabel("rate of change of the energy")
axes[0].legend()
plt.show()
