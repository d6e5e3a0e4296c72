r"""
Differentiate through a run
===========================

``tkf.solve`` is the same run as ``simulate``, but as a pure JAX function. You can compile it (``jax.jit``), batch it
(``jax.vmap``) and differentiate it (``jax.grad``), with respect to every number in the model and in the state.

Even the time at which a run stops can be differentiated. Here 32 orthogonal tokens collapse, and we ask how long it
takes until their cosine is 0.999, and how this time changes with :math:`\beta`.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf


def collapse_time(beta):
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    stop = tkf.cosine_above(0.999)
    return tkf.solve(model, tkf.Equiangular(rho=0.0, n=32), t1=500.0, rtol=1e-9, stop_when=stop).event_time


betas = jnp.linspace(0.5, 8.0, 6)
times, slopes = jax.vmap(jax.value_and_grad(collapse_time))(betas)

# %%
# Each dot is a run. The short line through it has the slope that ``jax.grad`` found (on the logarithmic axis). All six
# runs and their derivatives are one compiled program. The curve is theory: the equation of the cosine of orthogonal
# tokens, solved by quadrature. The slopes are tangents of this curve, as they should be.
#
# The collapse becomes slow at large :math:`\beta`. A token then looks mostly at itself, and the others pull it only
# with weight :math:`1/(e^\beta + n - 1)` each.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
grid = np.linspace(0.1, 8.5, 60)
theory = [tkf.theory.time_to_cosine(0.999, n=32, beta=beta, norm="post") for beta in grid]
ax.plot(grid, theory, color="0.6", label="theory")
ax.plot(betas, times, "o", label="stop time of a run")
for beta, time, slope in zip(betas, times, slopes, strict=True):
    ends = np.array([-0.45, 0.45])
    ax.plot(
        beta + ends,
        time * np.exp(slope / time * ends),
        color="C1",
        lw=2,
        label="its derivative" if beta == betas[0] else None,
    )
ax.set(xlabel=r"inverse temperature $\beta$", ylabel="time until the cosine is 0.999", yscale="log")
ax.legend()
plt.show()
