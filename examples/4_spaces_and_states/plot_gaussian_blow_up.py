r"""
A Gaussian that blows up, with its closed form
==============================================

Softmax attention with V = I and no norm keeps Gaussian data Gaussian, and its covariance obeys :math:`\dot\Sigma =
\Sigma (A + A^\top) \Sigma`. This can be solved: :math:`\Sigma(t) = (\Sigma_0^{-1} - tM)^{-1}` with :math:`M = A +
A^\top`. If M has a positive direction, the covariance is infinite at a finite time :math:`t^* =
1/\lambda_{\max}(\Sigma_0^{1/2} M \Sigma_0^{1/2})`.
"""

import matplotlib.pyplot as plt
import numpy as np

import tokenfield as tkf

A = np.array([[0.3, 0.1], [0.1, -0.8]])
start = tkf.Gaussian(mean=None, cov=[[0.7, 0.1], [0.1, 0.6]])
traj = tkf.simulate(tkf.Transformer(tkf.Softmax(A=A)), start, t1=10.0, save_at=2001)
blow_up = tkf.theory.gaussian_blowup_time(A, None, start.cov)
print(f"blow-up: run {traj.events[-1].time:.8f}, theory {blow_up:.8f}")

# %%
# Left: the ellipses of one standard deviation, from dark to light. A has a positive and a negative eigenvalue: the
# cloud is stretched along one axis and squeezed along the other.
#
# Right: the eigenvalues of the covariance (lines) and the closed form (dots). The upper one reaches infinity at the
# dashed line. The event of the run has this time to nine digits. Only a cloud of infinitely many tokens can do this: in
# a finite cloud the velocity of a token is at most the length of the longest one, so growth is at most exponential.

tkf.plotting.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2), width_ratios=(1.35, 1), layout="constrained")
circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200))])
for k, time in enumerate(np.linspace(0, 0.9 * blow_up, 7)):
    state = traj.state(np.searchsorted(traj.times, time))
    ellipse = np.asarray(state.mean)[:, None] + np.linalg.cholesky(state.cov) @ circle
    left.plot(*ellipse, color=plt.cm.viridis(k / 7))
left.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
right.semilogy(traj.times[:-1], np.linalg.eigvalsh(traj.dataset["cov"])[:-1], lw=1.5)
times = np.linspace(0, 0.99 * blow_up, 12)
exact = [np.linalg.eigvalsh(tkf.theory.gaussian_closed_form(A, None, start.cov, t)) for t in times]
right.semilogy(times, exact, "ko", ms=3)
right.axvline(blow_up, color="0.5", ls="--")
right.set(xlabel="time $t$", ylabel="eigenvalues of the covariance", ylim=(0.05, 300))
plt.show()
