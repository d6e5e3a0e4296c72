"""Tokens on the sphere under self-attention gather in a few clusters, which then wait for a very long time."""

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=256, d=3, seed=0)
traj = tkf.simulate(model, start, t1=40.0)

print("clusters:", tkf.clusters(traj.final).sizes)
print("normalized energy:", tkf.normalized_energy(traj.final, model))
traj.plot().savefig("clusters.png", dpi=160)
