r"""
One model, two resolutions: a Gaussian and its tokens
=====================================================

A Transformer moves a measure. The same model runs on a mean and a covariance (``Gaussian``) or on a cloud of tokens
drawn from it (``Tokens``). Where both exist they must agree, and that is how most of tokenfield is tested.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

turn = [[0.0, -1.0], [1.0, 0.0]]
model = tkf.Transformer(tkf.Softmax(beta=-0.5, V=turn))
gaussian = tkf.Gaussian(mean=[1.6, 0.0], cov=[[0.3, 0.0], [0.0, 0.05]])
exact = tkf.simulate(model, gaussian, t1=5.0, save_at=6)


def cloud(n, seed):
    return tkf.gaussian_tokens(n, seed=seed, mean=gaussian.mean, cov=gaussian.cov)


shown = tkf.simulate(model, cloud(1000, 0), t1=5.0, save_at=6)
sizes = (16, 64, 256)
runs = {
    n: tkf.simulate_many(model, [cloud(n, seed) for seed in range(32)], t1=5.0, save_at=2, rtol=1e-4) for n in sizes
}

# %%
# Left: 1000 tokens at six times, and the ellipse of two standard deviations of the Gaussian run. V is a rotation by a
# right angle, so the cloud goes around the origin. With :math:`\beta = -1/2` tokens prefer tokens on the other side,
# which makes the cloud turn more slowly in the direction in which it is wide.
#
# Right: the Wasserstein distance between the Gaussian at the end and the Gaussian with the mean and covariance of the
# tokens (mean of 32 clouds). It falls like :math:`n^{-1/2}`, as it would for independent samples. Tokens interact, but
# each one feels only the average of many others, so they stay nearly independent. This is called propagation of chaos.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.8), layout="constrained")
circle = 2 * np.stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200))])
for k, (tokens, state) in enumerate(zip(shown.states, exact.states, strict=True)):
    left.plot(*tokens.x.T, ".", ms=1.5, alpha=0.4, color=f"C{k}")
    left.plot(*(np.asarray(state.mean)[:, None] + np.linalg.cholesky(state.cov) @ circle), color="k", lw=0.9)
    left.annotate(f"$t = {exact.times[k]:g}$", state.mean, ha="center", va="center", backgroundcolor="#fffb")
left.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
error = []
for ensemble in runs.values():
    ends = [np.asarray(run.final.x) for run in ensemble]
    found = [tkf.Gaussian(x.mean(axis=0), np.cov(x.T, bias=True)) for x in ends]
    error.append(np.mean([tkf.wasserstein(each, exact.final) for each in found]))
right.loglog(sizes, error, "o-", label="mean distance at $t = 5$")
right.loglog(sizes, error[0] * (np.array(sizes) / sizes[0]) ** -0.5, "k--", lw=1, label="$n^{-1/2}$")
right.set(xlabel="number of tokens $n$", ylabel="Wasserstein distance")
right.minorticks_off()
right.set_xticks(sizes, sizes)
right.set_yticks([0.07, 0.1, 0.2], [0.07, 0.1, 0.2])
right.legend()
plt.show()
