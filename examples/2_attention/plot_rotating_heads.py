"""
Two heads: one gathers, one turns
=================================

With V = I attention pulls a token toward the tokens it looks at. Any other V pulls it elsewhere. Multi-head attention
adds the outputs of several heads, and each head may have its own scores and its own V.

Here the first head has V = I and gathers tokens. The second looks at the same tokens, but turns what it sees by a right
angle about the vertical axis.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
start = tkf.uniform_sphere(n=40, d=3, seed=5)
runs = {}
for speed in (0.0, 0.15, 0.5):
    heads = tkf.MultiHead([tkf.Softmax(beta=6.0), tkf.Softmax(beta=6.0, V=speed * turn)])
    runs[speed] = tkf.simulate(tkf.Transformer(heads, norm=tkf.PostLN()), start, t1=10.0, save_at=161)

# %%
# Without the second head the tokens go straight to their clusters. With it, clusters form too (not always of the same
# tokens), and circle around the axis, all with the same angular speed. A tight cluster at x moves by :math:`P_x V x`,
# which for this V is a rotation. The attraction keeps each cluster tight, and V moves it: attention decides *who* moves
# together, and V decides *where* they go.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.4), layout="constrained")
for ax, (speed, run) in zip(axes, runs.items(), strict=True):
    tkf.plotting.tokens_panel(run, ax, frames=161, tol=0.02, legend=None)
    ax.set_title(f"second head: {speed:g} × turn" if speed else "one head")
plt.show()
