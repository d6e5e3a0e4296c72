r"""
How large may the step of a layer be?
=====================================

A layer is one step of a flow, and what is proved for the flow holds for small steps. How small is that? When attention
attracts (V = 1), layers behave like the flow at every step. When it repels (V = -1), there are critical steps above
which tokens jump past each other, and theory knows them: ``critical_steps`` for tokens at equal angles,
``density_steps`` for a density on the sphere, ``gaussian_steps`` for Gaussian tokens without a norm.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

n, beta = 4, 1.0
found = tkf.theory.critical_steps(beta, n)
print(f"mean overshoots above {found.overshoot:.2f}, period two above {found.period_two:.2f}, collapse above 2")
repelled = tkf.Transformer(tkf.Softmax(beta=beta, V=-1.0), norm=tkf.PostLN())
steps = np.linspace(0.1, 2.4, 24)
start = tkf.Equiangular(rho=0.5, n=n)
ends = [float(tkf.layers(repelled, start, depth=200, step=h).final.rho) for h in steps]
stable = np.linspace(found.period_two, found.collapse, 60)[1:-1]

waves = tkf.theory.density_steps(beta=4.0, d=2)
cov = [[1.0]]
turn = tkf.theory.gaussian_steps(-0.5, None, cov)
peak = tkf.CircleDensity.from_function(lambda a: np.exp(4 * np.cos(a)), modes=48)
print(f"layers on a density with one peak fold above step {tkf.theory.fold_step(repelled, peak):.2f}")

# %%
# Left: the cosine of four tokens after 400 repulsive layers. Like the flow, small steps spread the tokens to a simplex, at
# cosine -1/3. Above the dotted line this state is unstable, and the tokens alternate between two positions (the line
# is ``period_two``). Above 2, repulsion makes them collapse.
#
# Middle: one layer multiplies a wave of degree k on the uniform density by this factor. Below -1 (gray) the wave grows
# and changes sign in each layer. The first step at which this happens is ``density_steps(...).alternate``, and the
# first wave is the one that grows fastest under attraction.
#
# Right: the variance of Gaussian tokens. Below the step "overshoot" it falls as under the flow. Above it, tokens jump to
# the other side of their mean, and then contract. Above "blow_up" the variance grows without bound.

tkf.plotting.use_style()
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.2, 3.5), layout="constrained")
left.plot(stable, [tkf.theory.period_two(h, beta, n).cosine for h in stable], color="C1", label="period two (theory)")
left.plot(steps, ends, "o", ms=3.5, color="C0", label="after 200 layers")
left.axvline(found.period_two, color="0.5", ls=":", lw=1)
left.set(xlabel="step $h$", ylabel=r"cosine $\rho$", title="Four tokens, V = -1")
left.legend(loc="upper left")
for k, h in enumerate((0.4, waves.alternate, 1.0)):
    factors = tkf.theory.layer_factors(beta=4.0, d=2, step=h, V=-1.0, modes=10)
    middle.plot(factors, "o-", ms=3, color=f"C{k}", label=f"$h = {h:.2f}$")
middle.axhspan(-1.6, -1, color="0.9", zorder=0)
middle.set(xlabel="degree $k$ of the wave", ylabel="factor of one layer", ylim=(-1.6, 1.1), title="Uniform density")
middle.legend(loc="lower right")
for k, h in enumerate((1.0, 3.0, turn.blow_up, 4.02)):
    depths = range(9 if h > turn.blow_up else 13)
    variance = [tkf.theory.gaussian_layers(-0.5, None, cov, step=h, depth=m)[0, 0] if m else 1.0 for m in depths]
    right.semilogy(depths, variance, "o-", ms=3, color=f"C{k}", label=f"$h = {h:g}$")
right.set(xlabel="layer", ylabel="variance", ylim=(1e-2, 1e2), title="Gaussian tokens, A = -1/2")
right.legend(loc="upper left")
plt.show()
