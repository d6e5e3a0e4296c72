r"""
Choose an attention scale for a long context
============================================

Softmax attention over n tokens needs an inverse temperature that grows like :math:`\gamma \log n`, or it becomes an
average of everything. Several published scales grow with n: ``attention_scale`` has them. Which :math:`\gamma` is
enough? It depends on how similar the tokens are. Measure their mean cosine :math:`\rho`; ``choose_gamma`` returns the
smallest :math:`\gamma` for which one layer does not merge them.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

contexts = np.geomspace(256, 2**20, 60)
names = {"standard": "standard", "logn": "log n (Qwen)", "yarn": "YaRN", "llama4": "Llama 4"}
scales = {label: tkf.theory.attention_scale(name, contexts, base=11.0) for name, label in names.items()}
needed = {rho: [tkf.theory.choose_gamma(rho, n) for n in contexts] for rho in (0.3, 0.5)}
print(tkf.theory.choose_gamma(0.3, n=32_768))

positions = 2 * np.geomspace(2, 5e4, 60).astype(int)
gamma = 2.0
constant = tkf.theory.causal_contraction(0.5, positions // 2, positions, *(gamma * np.log(1e5),) * 2)
growing = tkf.theory.causal_contraction(
    0.5, positions // 2, positions, gamma * np.log(positions // 2), gamma * np.log(positions)
)

# %%
# Left: four published scales, for a model with :math:`\beta = 11` at short contexts. Black lines are what is needed to keep
# tokens at cosine :math:`\rho` apart: below them one layer makes the outputs more similar than 4ρ/(1+3ρ), the cosine at the
# critical point. More similar tokens need more. At :math:`\rho = 0.3` the standard scale is enough up to 2000 tokens,
# log n attention follows the line from there on, and YaRN stays above it. At :math:`\rho = 0.5` a larger
# :math:`\beta` is needed from the start.
#
# Right: a causal layer, for tokens at cosine 1/2 and at the critical :math:`\gamma = 2`. Token j attends to j tokens
# only. With one :math:`\beta = \gamma \log n` for all positions the early tokens look at themselves and nothing else:
# their cosine does not change. With :math:`\gamma \log j` all positions behave alike, and reach the limit 0.8.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.7), layout="constrained")
for k, (label, beta) in enumerate(scales.items()):
    left.semilogx(contexts, beta, color=f"C{k}", label=label)
for rho, choices in needed.items():
    style = "-" if rho == 0.5 else "--"
    left.semilogx(contexts, [each.beta for each in choices], "k", ls=style, label=rf"needed, $\rho = {rho:g}$")
left.set(xlabel="number of tokens $n$", ylabel=r"inverse temperature $\beta$", ylim=(5, 30))
left.legend(loc="upper left")
right.semilogx(positions, constant, color="C0", label=r"$\beta = \gamma\,\log n$ for all")
right.semilogx(positions, growing, color="C1", label=r"$\beta = \gamma\,\log j$")
right.axhline(0.5, color="0.8", lw=0.8, zorder=0)
right.set(xlabel="position $j$", ylabel="cosine of outputs $j/2$ and $j$", ylim=(0.45, 1.02))
right.legend()
plt.show()
