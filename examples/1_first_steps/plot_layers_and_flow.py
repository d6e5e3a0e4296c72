r"""
From layers to a flow
=====================

A Transformer has layers; the theory has a differential equation. The link is the residual connection: a layer with step
h is

.. math:: x_i \leftarrow N\big(x_i + h\, \mathrm{Att}(x)_i\big), \qquad N(x) = x/|x| .

With h = 1 it is a standard Post-LN layer. As :math:`h \to 0`, with t/h layers, the tokens follow the flow.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN())
start = tkf.hemisphere(n=64, d=3, seed=1)
flow = tkf.simulate(model, start, t1=8.0, rtol=1e-10, atol=1e-12)
stacks = {h: tkf.layers(model, start, depth=round(8 / h), step=h) for h in (1.0, 0.5, 0.25, 0.125, 0.0625)}

# %%
# Left: the spread of the tokens goes to zero exponentially. In the flow the spread :math:`1 - \rho`, with :math:`\rho`
# the mean cosine, falls like :math:`e^{-2t}`. A layer contracts a tight cluster by the factor :math:`(1+h)^{-2}`, which
# is slower per unit of time: the rate is :math:`2\log(1+h)/h`, or 1.39 at h = 1 (dotted).
#
# Right: the distance of the tokens to the flow at t = 1. For small h it is proportional to h, as it must be for Euler's
# method (the dashed line has slope 1). A real Transformer (h = 1) is far from the limit, yet it does the same thing,
# only more slowly.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained")
for color, (h, run) in zip(("C1", "C2", "C4"), stacks.items(), strict=False):
    spread = 1 - tkf.mean_cosine(run)
    left.semilogy(run.times, spread, "o-", color=color, ms=3, lw=0.8, label=f"layers, h = {h:g}")
    late = run.times >= 3.5
    law = spread[-1].item() * np.exp(2 * np.log1p(h) / h * (8 - run.times[late]))
    left.semilogy(run.times[late], law, "k:", lw=1, label="theory" if h == 0.25 else None)
left.semilogy(flow.times, 1 - tkf.mean_cosine(flow), "C0", label="flow")
left.set(xlabel="time $t$", ylabel=r"spread $1 - \rho$", ylim=(1e-7, 2))
left.legend(loc="lower left")

exact = tkf.simulate(model, start, t1=1.0, rtol=1e-10, atol=1e-12).final.x
error = [np.linalg.norm(run.state(round(1 / h)).x - exact, axis=1).max() for h, run in stacks.items()]
right.loglog(list(stacks), error, "o-", label="measured")
right.loglog(list(stacks), error[-1] * np.array(list(stacks)) / 0.0625, "k--", lw=1, label="slope 1")
right.set(xlabel="step $h$", ylabel="largest distance to the flow at $t = 1$")
right.legend()
plt.show()
