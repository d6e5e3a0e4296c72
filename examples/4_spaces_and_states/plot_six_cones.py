r"""
Six cones: how attention moves a Gaussian
=========================================

Without a norm, softmax, L2, Sinkhorn and multi-head attention map Gaussian data to Gaussian data. A whole cloud of
tokens is then two things: a mean and a covariance. This figure is from Castin's talks. It shows what can become of a
covariance in the plane.

A covariance :math:`\begin{pmatrix} a & c \\ c & b \end{pmatrix}` is drawn at the point (a - b, 2c, a + b). All
covariances together form a solid cone, and those of rank one are its surface. Each row is one choice of Q, K and V;
each column is a kernel.
"""

import tokenfield as tkf

runs = tkf.studies.cone_study(quick=True)

# %%
# Open circles are starts, dots are ends, and orange rays and planes are the limits that theory predicts.
#
# In rows a to d covariances converge. They end at zero, or on rank-one covariances: all tokens on a line. In row e they
# grow without bound, and only the normalized covariance is drawn. Softmax reaches infinity in finite time. L2 and
# Sinkhorn grow too, but only exponentially. In row f it depends on the start.
#
# So softmax, L2 and Sinkhorn agree on *where* a covariance goes when it converges, and differ in whether it can blow
# up.

figure = tkf.plotting.cone_figure(runs)
figure.show()
