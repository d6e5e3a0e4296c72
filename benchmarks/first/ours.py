"""The ten lines of the README up to the figure."""

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=256, d=3, seed=0)
traj = tkf.simulate(model, start, t1=40.0)

print(tkf.clusters(traj.final).sizes)
print(tkf.normalized_energy(traj.final, model))
