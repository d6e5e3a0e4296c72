r"""
The rank of what is left: limits of Gaussian data
=================================================

Under softmax attention without a norm the covariance of Gaussian tokens often tends to a limit of low rank: all tokens
end in a subspace. Theory bounds its rank by d/2 if V = I and A is invertible. How often does each rank occur, for
random A? ``tkf.studies.limit_ranks`` counts.
"""

import numpy as np

import tokenfield as tkf

found = [
    [tkf.studies.limit_ranks(d, draws=40, values=values, tol=0.1) for d in (2, 3)] for values in ("identity", "random")
]
for one in found[0]:
    print(f"d = {one.d}: largest rank {one.rank[one.kind == 'settled'].max(initial=0)}, bounds up to {one.bound.max()}")

A = np.diag([1.0, -1.0, -2.0])
limit = tkf.theory.gaussian_limit(np.diag([0.0, -1.0, -2.0]), None, np.eye(3) / 3)
print("rank bound for diag(1, -1, -2):", tkf.theory.gaussian_rank_bound(A))
print(
    "speed at the limit for diag(0, -1, -2):",
    tkf.theory.gaussian_stationarity(tkf.Softmax(A=np.diag([0.0, -1, -2])), limit),
)
mean = tkf.theory.gaussian_mean(A, [1.0, 1.0, 1.0], np.eye(3) / 3, t=1.0)
print("mean of tokens at t = 1:", mean.round(2))

# %%
# Each panel counts 40 random draws. Blue bars are covariances that settle, by the rank of their limit. Orange bars
# diverge, and the rank is that of their direction. The dashed line is after the bound d/2.
#
# With V = I (top) nearly all draws blow up in one direction, since a random symmetric A nearly always has a positive
# eigenvalue. With random V (bottom) about half of them settle, and their limits have rank one: all tokens end on a
# line. The bound is proved for V = I only, but none of these limits is above it.

figure = tkf.plotting.rank_histogram(found)
figure.show()
