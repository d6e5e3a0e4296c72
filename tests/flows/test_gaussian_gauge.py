"""The factor L of a covariance rests when the covariance does: a non-symmetric A costs no more steps than its symmetric part."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows.gaussian import shortest

T = 2e4


def draw(seed, rank=3):
    """A negative semidefinite symmetric part of rank 1, a skew part, and a covariance of the given rank."""
    rng = np.random.default_rng(seed)
    a, B, C = rng.standard_normal(3), rng.standard_normal((3, 3)), rng.standard_normal((3, rank))
    return -np.outer(a, a), B - B.T, C @ C.T


def root(cov):
    values, vectors = np.linalg.eigh(cov)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


@pytest.mark.parametrize(("seed", "rank"), [(0, 3), (1, 3), (2, 3), (3, 2), (4, 2)])
def test_a_skew_part_changes_neither_the_covariance_nor_the_steps(seed, rank):
    """V = I: `Sigma = R (I - t R M R)^{-1} R`, `M = A + A^T`, `R^2 = Sigma_0`."""
    symmetric, skew, cov = draw(seed, rank)
    runs = [
        tkf.simulate(tkf.Transformer(tkf.Softmax(A=A)), tkf.Gaussian(None, cov), T, save_at=[1.0, T], max_steps=2000)
        for A in (symmetric, symmetric + skew)
    ]
    R = root(cov)
    for k, t in enumerate((1.0, T)):
        exact = R @ np.linalg.inv(np.eye(3) - 2 * t * R @ symmetric @ R) @ R
        for run in runs:
            np.testing.assert_allclose(run.state(k).cov, exact, rtol=0, atol=2e-6 * np.abs(cov).max())
    steps = [run.dataset.attrs["steps"] for run in runs]
    assert steps[1] <= 1.2 * steps[0]


TURN = np.array([[0.0, 1.0], [-1.0, 0.0]])
HEADS = {
    "softmax": tkf.Softmax(A=TURN),
    "softmax with a matrix V": tkf.Softmax(A=TURN, V=np.eye(2)),
    "linear": tkf.Linear(A=TURN),
    "sinkhorn": tkf.Sinkhorn(A=TURN),
    "l2": tkf.L2(0.5, Q=TURN, K=np.eye(2)),
    "two heads": tkf.MultiHead([tkf.Softmax(A=TURN, V=0.5), tkf.Sinkhorn(A=TURN)]),
}


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("head", HEADS)
def test_a_round_gaussian_that_only_turns_takes_few_steps(head):
    """`Sigma = s I`, A skew: B is skew, so `Sigma' = 0` under every kernel while `L' = B L` would turn for ever."""
    run = tkf.simulate(tkf.Transformer(HEADS[head]), tkf.Gaussian(None, 0.7 * np.eye(2)), T, save_at=2, max_steps=100)
    np.testing.assert_allclose(run.final.cov, 0.7 * np.eye(2), rtol=0, atol=1e-9)


def test_the_shortest_velocity_of_a_factor():
    """It moves `L L^T` as X does, has `L^T L'` symmetric, and is orthogonal to every rotation of L; also for singular L."""
    rng = np.random.default_rng(0)
    for rank in (4, 4, 2, 1, 0):
        L = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
        X = rng.standard_normal((4, 4)) @ L
        found = np.asarray(shortest(L, X))
        np.testing.assert_allclose(
            found @ L.T + L @ found.T, X @ L.T + L @ X.T, rtol=0, atol=1e-13 * (1 + np.abs(X).max() ** 2)
        )
        np.testing.assert_allclose(L.T @ found, found.T @ L, rtol=0, atol=1e-13 * (1 + np.abs(X).max() ** 2))
        assert np.linalg.norm(found) <= np.linalg.norm(X) * (1 + 1e-12)
