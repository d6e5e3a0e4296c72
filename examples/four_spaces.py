"""The same self-attention in four spaces: tokens gather, wherever they live, but not at the same pace."""

import matplotlib.pyplot as plt

import tokenfield as tkf

spaces = {tkf.Euclidean(): 2, tkf.Sphere(): 3, tkf.Torus(): 4, tkf.Hyperbolic(): 3}  # each with the d of its R^d
figure, axes = plt.subplots(1, 4, figsize=(14, 3.8), layout="constrained")
for ax, (space, d) in zip(axes, spaces.items(), strict=True):
    model = tkf.Transformer(tkf.Softmax(beta=3.0, V=-1.0 if isinstance(space, tkf.Euclidean) else None), space=space)
    traj = tkf.simulate(model, tkf.tokens_in(space, n=80, d=d, seed=0), t1=12.0)
    print(f"{space.title}: mean distance {tkf.mean_distance(traj)[0]:.2f} -> {tkf.mean_distance(traj.final):.2f}")
    tkf.plotting.tokens_panel(traj, ax, legend=None)
figure.savefig("four_spaces.png", dpi=160)
