r"""
An inverse problem: find the temperature and the value matrix
=============================================================

Someone gives you two snapshots of a cloud of tokens, before and after an attention flow. What were :math:`\beta` and V?
As a run is a differentiable function, this is an optimization: minimize the distance between the tokens that the model
predicts and those that were observed. The gradient comes from ``jax.value_and_grad`` through ``tkf.solve``.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import tokenfield as tkf

before = tkf.uniform_sphere(n=40, d=2, seed=0)


def after(parameters):
    beta, V = parameters[0], parameters[1:].reshape(2, 2)
    model = tkf.Transformer(tkf.Softmax(beta=beta, V=V), norm=tkf.PostLN())
    return tkf.solve(model, before, t1=2.0, max_steps=64).final.x


truth = jnp.array([4.0, 1.0, -0.6, 0.6, 0.8])
observed = after(truth) + 0.01 * jax.random.normal(jax.random.key(0), (40, 2))
loss = jax.jit(jax.value_and_grad(lambda p: jnp.sum((after(p) - observed) ** 2)))
path = [np.array([1.0, 1.0, 0.0, 0.0, 1.0])]
found = minimize(lambda p: tuple(map(np.asarray, loss(p))), path[0], jac=True, method="BFGS", callback=path.append)
print("truth:", np.asarray(truth))
print("found:", found.x.round(3), "after", found.nit, "steps")

# %%
# Left: the five parameters during the search, from :math:`\beta = 1`, V = I to the end. Dashed lines are the truth. The
# observations have an error of one percent, and so has the answer.
#
# Right: the angles of the tokens that were observed, against those that the fitted model predicts.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.6), width_ratios=(1.4, 1), layout="constrained")
names = (r"$\beta$", "$V_{11}$", "$V_{12}$", "$V_{21}$", "$V_{22}$")
for k, name in enumerate(names):
    left.plot(np.array(path)[:, k], "o-", ms=3, color=f"C{k}", label=name)
    left.axhline(truth[k], color=f"C{k}", ls="--", lw=0.8)
left.set(xlabel="step of the search", ylabel="parameter")
left.legend(ncols=2)
angle = lambda x: np.arctan2(x[:, 1], x[:, 0])  # noqa: E731
right.plot([-np.pi, np.pi], [-np.pi, np.pi], color="0.7", lw=0.8)
right.plot(angle(observed), angle(after(found.x)), "o", ms=4)
right.set(xlabel="observed angle", ylabel="fitted angle", aspect="equal")
plt.show()
