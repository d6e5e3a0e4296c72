r"""
Write your own kernel
=====================

A kernel that is a function of the score is a class with one method, ``phi``. A class from your own script works
everywhere: in runs, in derivatives, with masks and positions, under every norm.

Why do clusters under softmax wait so long? Because the kernel :math:`e^{\beta\langle x,y\rangle}` falls off
exponentially. Let us test this with a heavy tail, :math:`k = 1/(1 + \beta(1 - \langle x, y\rangle))`, divided by the
sum of each row.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf
from tokenfield.attention import AbstractPairwise

BETA = 20.0


class Cauchy(AbstractPairwise):
    def phi(self, s):  # s is the score, BETA times the cosine
        return 1 / (1 + BETA - s)


start = tkf.uniform_sphere(n=64, d=2, seed=3)
times = np.append(0.0, np.geomspace(0.02, 60.0, 200))
runs = {}
for kernel in (tkf.Softmax(BETA), Cauchy(BETA, normalized=True)):  # each row divided by its sum
    model = tkf.Transformer(kernel, norm=tkf.PostLN())
    runs[type(kernel).__name__] = tkf.simulate(model, start, t1=60.0, save_at=times)
pair = tkf.simulate(model, tkf.circle_tokens([0.0, 3.0]), t1=60.0, save_at=241)

# %%
# Left and middle: the same 64 tokens. Under softmax six clusters form. Two of them are close and merge, the others
# wait. Under the heavy tail tokens gather more slowly, but nothing waits: distant clusters still feel each other, and
# soon one is left.
#
# Right: the cosine :math:`\rho` of two tokens. With the heavy tail :math:`\dot\rho = 2(1-\rho^2)/(2 + \beta(1-\rho))`,
# so the time has a closed form, :math:`t = \mathrm{artanh}\,\rho + \frac{\beta}{2}\log(1+\rho) + \mathrm{const}`. It
# grows linearly in :math:`\beta`. For softmax it grows exponentially, and the same two tokens would meet at :math:`t
# \approx 10^{17}`.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.3), layout="constrained")
for ax, (name, run) in zip(axes, runs.items(), strict=False):
    x = run.dataset["x"].values
    ax.plot(times, np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0), "C0", lw=0.6, alpha=0.7)
    ax.set(xscale="log", xlim=(0.02, 60), xlabel="time $t$", ylabel="angle", title=name)
rho = np.linspace(np.cos(3.0), 1, 400, endpoint=False)
clock = np.arctanh(rho) + BETA / 2 * np.log1p(rho)
axes[2].plot(pair.times, tkf.mean_cosine(pair), lw=3, alpha=0.6, label="run")
axes[2].plot(clock - clock[0], rho, "k", lw=0.8, label="theory")
axes[2].set(xlabel="time $t$", ylabel=r"cosine $\rho$", xlim=(0, 60), title="two tokens, Cauchy")
axes[2].legend()
print(f"softmax, time to meet: {tkf.theory.pair_merge_time(np.cos(3.0), 0.99, beta=BETA):.2g}")
plt.show()
