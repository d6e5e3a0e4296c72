"""The same run as a SciPy script."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.sparse.csgraph import connected_components

N, BETA, T = 256, 9.0, 40.0
x = np.random.default_rng(0).standard_normal((N, 3))
x /= np.linalg.norm(x, axis=1, keepdims=True)


def drift(t, flat):
    x = flat.reshape(N, 3)
    scores = BETA * x @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    pull = weights @ x / weights.sum(axis=1, keepdims=True)
    return (pull - (pull * x).sum(axis=1, keepdims=True) * x).ravel()


solution = solve_ivp(drift, (0, T), x.ravel(), t_eval=np.linspace(0, T, 101), rtol=1e-6, atol=1e-9)
end = solution.y[:, -1].reshape(N, 3)
end /= np.linalg.norm(end, axis=1, keepdims=True)
gram = end @ end.T
print(np.sort(np.bincount(connected_components(gram > 0.999)[1]))[::-1])
print(np.exp(BETA * (gram - 1)).mean())
