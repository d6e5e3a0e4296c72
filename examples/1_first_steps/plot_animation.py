r"""
Watch the tokens move
=====================

``traj.animate`` writes an animation of a run, one frame for each saved time. Save times need not be evenly spaced.
Clusters form early and then wait for a long time, so most frames at evenly spaced times would show nothing new. Times on
a logarithmic scale show all of it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageSequence

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=16.0), norm=tkf.PostLN())
times = np.append(0.0, np.geomspace(0.3, 300.0, 40))
traj = tkf.simulate(model, tkf.uniform_sphere(n=150, d=3, seed=4), t1=300.0, save_at=times)

with tempfile.TemporaryDirectory() as folder:
    path = traj.animate(Path(folder) / "tokens.gif")
    frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(Image.open(path))]
print(len(frames), "frames of", frames[0].shape[1], "by", frames[0].shape[0], "pixels")

# %%
# Six frames of the animation. The colors are those of the final clusters, so you can see from the start who will end up
# with whom. Neighbors gather first, then small clusters merge into larger ones, more and more slowly.

tkf.plotting.use_style()
figure, axes = plt.subplots(2, 3, figsize=(8.4, 5.6), layout="constrained")
for ax, index in zip(axes.flat, np.linspace(0, len(frames) - 1, 6).astype(int), strict=True):
    ax.imshow(frames[index])
    ax.set_axis_off()
plt.show()
