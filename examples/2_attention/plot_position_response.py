r"""
Lost in the middle: which positions does the last token depend on?
==================================================================

Stack L causal layers :math:`x \leftarrow (1-\alpha)\, x + \alpha\, C x`, in which every token averages over itself and
those before it. How much does the token at position :math:`\tau` (0: first, 1: last) influence the *last* token at the
end?

The influence is a derivative, so JAX can compute it through the whole stack. Uniform causal attention is :math:`\beta =
0`. With :math:`V = \alpha/(1-\alpha)` a residual layer :math:`x + V C x` is the layer above, up to the factor
:math:`1-\alpha`.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, alpha, slope = 400, 0.3, 6.0
tau = (np.arange(n - 1) + 0.5) / n


def influence(depth, **options):
    model = tkf.Transformer(tkf.Softmax(beta=0.0, V=alpha / (1 - alpha), causal=True, **options))

    def last(x):
        return tkf.solve(model, tkf.Tokens(x), float(depth), method=tkf.Layers()).final.x[-1, 0]

    return n * (1 - alpha) ** depth * jax.grad(last)(np.zeros((n, 1)))[:-1, 0]


depths = (2, 6, 12, 24)
plain = {depth: influence(depth) for depth in depths}
recent = {depth: influence(depth, positions=tkf.ALiBi(slope)) for depth in depths}

# %%
# Left: no rule for positions. Thin black lines are theory, :math:`\sum_k \binom{L}{k} \alpha^k (1-\alpha)^{L-k} (\log
# 1/\tau)^{k-1}/(k-1)!`. The first tokens have the most influence, because they reach the last one on many paths: through every
# token in between. The deeper the stack, the stronger this *primacy*.
#
# Right: ALiBi with slope :math:`\lambda` favors near tokens. With two layers the last tokens win. With 6 layers the
# curve is U-shaped: the beginning and the end are heard, and the middle is lost. With 24 layers the end is lost too.
# The theory is the same formula in the variable :math:`q = (e^{\lambda\tau}-1)/(e^{\lambda}-1)`, in which ALiBi is
# uniform.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.5), sharey=True, layout="constrained")
q, dq = np.expm1(slope * tau) / np.expm1(slope), slope * np.exp(slope * tau) / np.expm1(slope)
for k, depth in enumerate(depths):
    axes[0].semilogy(tau, plain[depth], color=f"C{k}", lw=3, alpha=0.6)
    axes[0].semilogy(tau, tkf.theory.layer_influence(tau, depth, alpha), "k", lw=0.7)
    axes[1].semilogy(tau, recent[depth], color=f"C{k}", lw=3, alpha=0.6, label=f"{depth} layers")
    axes[1].semilogy(tau, tkf.theory.layer_influence(q, depth, alpha) * dq, "k", lw=0.7)
axes[0].set(
    xlabel=r"position $\tau$", ylabel="influence on the last token", title="uniform causal attention", ylim=(1e-2, 20)
)
axes[1].set(xlabel=r"position $\tau$", title="with ALiBi")
axes[1].plot([], [], "k", lw=0.7, label="theory")
axes[1].legend(ncols=3, loc="upper center")
plt.show()
