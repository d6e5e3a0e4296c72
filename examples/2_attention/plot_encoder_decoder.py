"""
An encoder and a decoder
========================

The first Transformer had two parts. An encoder moves the tokens of a text by self-attention. A decoder moves other
tokens, which attend to themselves (causally) and to the tokens of the encoder. Here both are flows on the circle, and
run at the same time: ``encoder`` moves the ``context`` while the decoder reads it.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

norm = tkf.PostLN()
source = tkf.uniform_sphere(n=60, d=2, seed=7)
target = tkf.uniform_sphere(n=60, d=2, seed=8)
encoder = tkf.Transformer(tkf.Softmax(beta=16.0), norm)
heads = {
    "attention": tkf.Softmax(beta=16.0, causal=True),
    "norm": norm,
    "cross": tkf.Softmax(beta=16.0),
    "context": source,
}
times = np.append(0.0, np.geomspace(0.02, 200.0, 240))
runs = {
    "encoder": tkf.simulate(encoder, source, t1=200.0, save_at=times),
    "decoder, context at rest": tkf.simulate(tkf.Transformer(**heads), target, t1=200.0, save_at=times),
    "decoder, context moves": tkf.simulate(tkf.Transformer(**heads, encoder=encoder), target, t1=200.0, save_at=times),
}

# %%
# Left: the encoder gathers its tokens in four clusters. Middle: the decoder reads the source as it was at the start.
# Its tokens stop where the pull of the source and that of their own cluster balance. Right: the decoder reads the
# encoder while it works. Now its tokens join the clusters of the encoder. The orange bars at the right edges show the
# encoder's tokens at the end and, in the middle panel, the source, which is the context there.

tkf.plotting.use_style()
figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.5), sharey=True, layout="constrained")
final = [runs["encoder"].final, source, runs["encoder"].final]
for ax, (title, run), context in zip(axes, runs.items(), final, strict=True):
    x = run.dataset["x"].values
    angle = np.arctan2(x[..., 1], x[..., 0])
    angle[1:][np.abs(np.diff(angle, axis=0)) > np.pi] = np.nan  # no lines across the cut at ±π
    ax.plot(run.times, angle, lw=0.6, alpha=0.7, color="C2" if "encoder" in title else "C0")
    ax.plot(
        np.full(60, 260.0), np.arctan2(*np.asarray(context.x).T[::-1]), "_", ms=10, mew=2, color="C1", clip_on=False
    )
    ax.set(title=title, xlabel="time $t$", xscale="log", xlim=(0.02, 200), ylim=(-np.pi, np.pi))
axes[0].set_ylabel("angle")
plt.show()
