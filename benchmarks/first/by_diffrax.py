"""The same run as a plain Diffrax script: drift, solver, 101 saved states, clusters, energy."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.csgraph import connected_components

jax.config.update("jax_enable_x64", True)
N, BETA, T = 256, 9.0, 40.0
x = np.random.default_rng(0).standard_normal((N, 3))
x /= np.linalg.norm(x, axis=1, keepdims=True)


def drift(t, x, args):
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    pull = jax.nn.softmax(BETA * x @ x.T, axis=1) @ x
    return pull - (pull * x).sum(1, keepdims=True) * x


solution = diffrax.diffeqsolve(
    diffrax.ODETerm(drift),
    diffrax.Tsit5(),
    0.0,
    T,
    None,
    jnp.asarray(x),
    saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, T, 101)),
    stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-9),
)
end = np.array(solution.ys[-1])
end /= np.linalg.norm(end, axis=1, keepdims=True)
gram = end @ end.T
print(np.sort(np.bincount(connected_components(gram > 0.999)[1]))[::-1])
print(np.exp(BETA * (gram - 1)).mean())
