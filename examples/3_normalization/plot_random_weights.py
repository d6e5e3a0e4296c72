r"""
Layers with random weights, without a simulation
================================================

A network before training has random Q, K and V in each layer. Its mean cosine can be computed without drawing any
weights. ``softmax_moments`` gives the mean squares of attention weights when scores are Gaussian,
``random_attention`` the cosine of the outputs of one layer, and ``random_weight_layers`` iterates this through the
depth, under each norm.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

d, n, depth = 128, 32, 48
beta = d**0.5
norms = {"Post-LN": (tkf.PostLN(), "post"), "Pre-LN": (tkf.PreLN(), "pre"), "Peri-LN": (tkf.PeriLN(), "peri")}
rules = [name for _, name in norms.values()]
study = tkf.studies.normalization_study(d=d, n=n, depth=depth, seeds=4, rules=rules, progress=False)
curves = {name: tkf.theory.random_weight_layers(norm, n, beta, d, depth) for name, (norm, _) in norms.items()}
for name, (norm, _) in norms.items():
    print(f"{name}: 1 - cosine falls like {tkf.theory.random_weight_tail(norm).text}")

rhos = np.linspace(0.0, 0.98, 60)
print("share of the attention that is kept by one token:", f"{tkf.theory.softmax_moments(0.0, n, 1.0).own:.3f}")

# %%
# Left: one minus the mean cosine over 48 layers. Lines are theory, with its standard deviation over seeds as a band. Dots are
# means over four networks with weights that were drawn. Post-LN halves the distance in each layer, and after 25 layers a
# millionth is left. Pre-LN and Peri-LN lose it like one over the number of layers (dotted).
#
# Right: what one attention layer does to the cosine of its inputs. Outputs are closer to each other than
# inputs, above all for flat attention: at :math:`\beta = 1` the outputs of orthogonal tokens have a cosine near 1.
# Sharper attention, up to :math:`\beta = \sqrt d` and beyond, keeps them further apart.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.8), layout="constrained")
layers = np.arange(depth + 1)
for k, (name, curve) in enumerate(curves.items()):
    gap = 1 - curve.cosine
    shown = gap > 1e-6
    left.fill_between(layers[shown], *((gap + s * curve.deviation)[shown] for s in (-1, 1)), color=f"C{k}", alpha=0.2)
    left.semilogy(layers[shown], gap[shown], color=f"C{k}", label=name)
    dots = 1 - study["mean_cosine"].sel(rule=norms[name][1]).mean("seed").values
    left.semilogy(layers[shown][::2], dots[shown][::2], "o", ms=3.5, color=f"C{k}")
left.semilogy(layers[8:], depth * (1 - curves["Pre-LN"].cosine[-1]) / layers[8:], "k:", lw=1, label=r"$\propto 1/l$")
left.set(xlabel="layer $l$", ylabel="1 - mean cosine", ylim=(1e-6, 1.5))
left.legend()
for k, sharp in enumerate((1.0, beta, 2 * beta)):
    outputs = [tkf.theory.random_attention(rho, n, sharp, d).cosine for rho in rhos]
    right.plot(rhos, outputs, color=f"C{k}", label=rf"$\beta = {sharp:.3g}$")
right.plot(rhos, rhos, color="0.7", lw=0.8, zorder=0)
right.set(xlabel="cosine of the tokens", ylabel="cosine of the outputs", ylim=(0, 1.02))
right.legend()
plt.show()
