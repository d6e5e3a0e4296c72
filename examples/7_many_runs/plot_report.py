r"""
A report of a run
=================

``tokenfield simulate`` ends with a report, and so can a run in Python: one HTML file that says what was asked, what
happened, and what theory says, and that opens without a network. Its numbers and its figures are also functions of
their own.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
traj = tkf.simulate(model, tkf.uniform_sphere(n=96, d=3, seed=0), t1=30.0, save_at=121)
with tempfile.TemporaryDirectory() as folder:
    page = tkf.report.write_report(traj, Path(folder), title="96 tokens on the sphere", animation=None)
    live = tkf.explorer.export_page(Path(folder, "live.html"), tkf.explorer.replay_data(traj))
    for path in (page, live):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
numbers = tkf.report.summary(traj)
print(f"{len(numbers['clusters'])} clusters, mean cosine {numbers['mean_cosine']:.3f}, {numbers['steps']} steps")

# %%
# The panels of the report in axes of our own. Left (``draw_panel``): tokens with their paths, colored by the cluster
# in which they end. Right (``cosine_panel``): the distribution of the cosines of all pairs over time. At first it is
# flat, as for random points on the sphere. Then the pairs within a cluster gather at cosine 1, and those between two
# clusters on a line of their own. Lines bend while two clusters approach each other; they meet at t = 18.
# ``tkf.plotting.overview(traj)`` draws these panels with the energy.
#
# The file ``live.html`` is the live page with this run, in three dimensions.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.8), layout="constrained")
tkf.plotting.draw_panel(traj, left, "tokens")
tkf.plotting.cosine_panel(traj, right)
plt.show()
