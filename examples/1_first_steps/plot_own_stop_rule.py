r"""
Your own stop rule, and its derivative
======================================

Any function of the state can stop a run. Written as a class, with a margin that reaches 0 at the stop, it does more:
the *time* of the stop can be differentiated. Here the run ends when the effective rank of the tokens falls to a level.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf
from tokenfield.stop_rule import AbstractStopRule


class RankBelow(AbstractStopRule):
    level: float
    kind = "rank_below"  # the name of the event
    differentiable = True
    clusters = None  # it is not about clusters
    rotation_invariant = True

    def margin(self, t, state, velocity):  # at least 0 where the run ends
        return self.level - tkf.effective_rank(state)

    def resolve(self, model, state):  # nothing to fill in from the model
        return self


start = tkf.uniform_sphere(n=12, d=3, seed=0)


@jax.jit
@jax.value_and_grad
def stop_time(beta):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    return tkf.solve(model, start, t1=60.0, stop_when=RankBelow(1.5)).event_time


betas = np.linspace(0.2, 1.6, 11)
times, slopes = np.transpose([stop_time(beta) for beta in betas])

# %%
# The time until twelve tokens use 1.5 directions on average, for different :math:`\beta`. Each short line is the
# derivative of this time at a dot, computed by ``jax.grad`` through the run and its stop. The lines are tangents of
# the curve through the dots, as they should be. Sharper attention takes longer, since tokens look more at
# themselves.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.2, 3.7), layout="constrained")
ax.plot(betas, times, "o", ms=5, label="time of the stop")
for k, (beta, time, slope) in enumerate(zip(betas, times, slopes, strict=True)):
    reach = np.array([-0.06, 0.06])
    ax.plot(beta + reach, time + slope * reach, color="C1", label="its derivative" if k == 0 else None)
ax.set(xlabel=r"inverse temperature $\beta$", ylabel="time until the rank is 1.5")
ax.legend()
plt.show()
