r"""
Four spaces: sphere, plane, torus, hyperbolic plane
===================================================

Layer normalization puts tokens on a sphere, but the dynamics makes sense in any space: project the pull of attention to
the tangent space, move, and stay in the space. A space is one argument of the model. Scores are the inner products of
the space.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

spaces = {
    tkf.Euclidean(): 2,
    tkf.Sphere(): 3,
    tkf.Torus(): 4,
    tkf.Hyperbolic(): 3,
}  # with the dimension of their tokens
runs = {}
for space, d in spaces.items():
    value = -1.0 if isinstance(space, tkf.Euclidean) else None
    model = tkf.Transformer(tkf.Softmax(beta=3.0, V=value), space=space)
    runs[space.title] = tkf.simulate(model, tkf.tokens_in(space, n=80, d=d, seed=0), t1=12.0)
    print(f"{space.title}: mean distance {tkf.mean_distance(runs[space.title]).values[[0, -1]].round(3)}")

# %%
# Open circles are starts and filled ones are ends. The torus is drawn as a square whose opposite sides are identified,
# and the hyperbolic plane as a disk, whose rim is infinitely far away.
#
# - On the *sphere* clusters form and then wait.
# - In the *plane* there is no norm to hold tokens back, and V = I would let them grow without end. Here V = -I: tokens
#   shrink to the origin, slowly.
# - On the *torus* (two angles) clusters form as on the sphere, in each direction.
# - In the *hyperbolic plane* the inner product of far-away tokens is very negative, so a token that is far out sees
#   mostly itself. All others come together, and one near the rim is left behind.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
for ax, (title, run) in zip(axes, runs.items(), strict=True):
    tkf.plotting.tokens_panel(run, ax, legend=None)
    ax.set_title(title.capitalize())
plt.show()
