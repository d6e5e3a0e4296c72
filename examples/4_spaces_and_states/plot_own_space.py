r"""
Your own space
==============

Tokens can live on a surface of your own. Its class says how to project onto the surface and onto tangent planes, how to
follow a geodesic, and how far apart two points are. Here a cylinder, a circle times a line.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf
from tokenfield.spaces import AbstractSpace

circle = tkf.Sphere()  # in the plane; the third coordinate is free


def join(*parts):
    return jnp.concatenate(parts, -1)


class Cylinder(AbstractSpace):
    def signs(self, d):  # the inner product of R^3
        return np.ones(d)

    def project(self, x):  # a point of the space near x
        return join(circle.project(x[..., :2]), x[..., 2:])

    def tangent(self, x, v):  # the projection of v to the tangent plane at x
        return join(circle.tangent(x[..., :2], v[..., :2]), v[..., 2:])

    def retract(self, x, v):  # a point near x + v
        return self.project(x + v)

    def exp(self, x, v):  # the end of the geodesic from x with velocity v
        return join(circle.exp(x[..., :2], v[..., :2]), x[..., 2:] + v[..., 2:])

    def log(self, x, y):  # the velocity that leads from x to y
        return join(circle.log(x[..., :2], y[..., :2]), y[..., 2:] - x[..., 2:])

    def distance(self, x, y):
        return jnp.hypot(circle.distance(x[..., :2], y[..., :2]), x[..., 2] - y[..., 2])

    def sample(self, xi):  # random points from normal numbers
        return self.project(xi)

    def chart(self, x):  # coordinates for pictures
        return jnp.stack([jnp.arctan2(x[..., 1], x[..., 0]), x[..., 2]], -1)

    def check(self, d):
        assert d == 3


model = tkf.Transformer(tkf.Softmax(beta=4.0, V=np.diag([1.0, 1.0, -1.0])), space=Cylinder())
traj = tkf.simulate(model, tkf.tokens_in(Cylinder(), n=40, d=3, seed=2), t1=30.0, save_at=401)
paths = np.asarray(Cylinder().chart(traj.dataset["x"].values))

# %%
# The cylinder unrolled: the angle from left to right, the height upward. Open circles are starts, dots are ends, and fine
# dots are the paths between them. The value matrix attracts along the circle and repels along the line, so tokens do not
# run away: heights contract to a ring, on which tokens gather in clusters.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(6.6, 3.6), layout="constrained")
ax.plot(*paths.reshape(-1, 2).T, ".", ms=1, mew=0, color="C0")
ax.plot(*paths[0].T, "o", ms=4, mfc="white", color="C0")
ax.plot(*paths[-1].T, "o", ms=5, color="C1")
ax.set(xlabel="angle (radians)", ylabel="height", xlim=(-np.pi, np.pi))
plt.show()
