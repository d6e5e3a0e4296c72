r"""
Tokens on a sphere form clusters
================================

A Transformer layer lets every token look at all others and move toward those most similar to it. Take away the weights (Q
= K = V = I), keep softmax attention and layer normalization, and let the layers become infinitely thin. What is left is
a system of particles on the unit sphere:

.. math::

   \dot x_i = P_{x_i} \frac{\sum_j e^{\beta \langle x_i, x_j \rangle} x_j}{\sum_j e^{\beta \langle x_i, x_j \rangle}} .

Here :math:`P_x` is the projection to the plane tangent to the sphere at x. The number :math:`\beta` is an inverse
temperature: a token with large :math:`\beta` looks only at its near neighbors.
"""

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=256, d=3, seed=0)
traj = tkf.simulate(model, start, t1=40.0)

print("sizes of the clusters:", tkf.clusters(traj.final).sizes)
print("normalized energy:", round(tkf.normalized_energy(traj.final, model), 4))

# %%
# The tokens start as open circles, spread evenly over the sphere (a). Each one is drawn to its neighbors. By t = 10 all
# 256 sit in five points, and nothing seems to move anymore. Two of the five clusters are still slowly falling toward
# each other, and merge at t = 27. After that, again nothing seems to move.
#
# Panel b shows the energy :math:`\iint e^{\beta(\langle x, y\rangle - 1)} d\mu d\mu`. It never decreases: attention
# climbs uphill. A flat part is a *metastable state*. The clusters do attract each other, but the force of a cluster on
# another one at cosine :math:`\rho` is of order :math:`e^{-\beta(1-\rho)}`. They will all merge, if you wait much
# longer. The height of a flat part is the sum of the squared shares of the clusters: here :math:`(80^2 + 79^2 + 52^2 +
# 45^2)/256^2 = 0.265`, the number printed above.
#
# Panel c shows the cosines of all pairs of tokens. Pairs of one cluster have cosine 1, and other pairs have the cosine
# of their clusters. You can see the two clusters that merge: their cosine bends up to 1.

figure = traj.plot()
figure.show()
