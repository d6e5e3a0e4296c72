"""Rényi centers against their definition."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.observables.renyi import renyi_centers


@pytest.mark.parametrize("d", [2, 3, 5])
def test_renyi_centers_are_what_their_definition_says(d):
    tokens = tkf.uniform_sphere(60, d, seed=d)
    angle = np.arccos(np.clip(np.asarray(tokens.x @ tokens.x.T), -1, 1))
    for delta in (0.1, 0.5, 1.2):
        centers = []
        for i in range(tokens.n):
            if all(angle[i, j] > delta for j in centers):
                centers.append(i)
        strong = [i for i in range(tokens.n) if all(angle[i, j] > delta for j in range(i))]
        assert renyi_centers(tokens, delta).tolist() == centers
        assert renyi_centers(tokens, delta, strong=True).tolist() == strong
        assert set(strong) <= set(centers)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.pi, np.nan])
def test_renyi_centers_refuse_a_wrong_distance(delta):
    with pytest.raises(ValueError, match="delta"):
        renyi_centers(tkf.circle_tokens([0.0, 1.0]), delta)


def test_a_token_at_zero_has_no_direction():
    with pytest.raises(ValueError, match="token 1 is zero"):
        renyi_centers(tkf.Tokens([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), 0.4)


def test_lengths_do_not_matter_even_if_their_squares_overflow():
    x = np.asarray(tkf.uniform_sphere(30, 3, seed=0).x)
    scale = 10.0 ** np.linspace(-300, 300, 30)[:, None]
    assert renyi_centers(tkf.Tokens(scale * x), 0.4).tolist() == renyi_centers(tkf.Tokens(x), 0.4).tolist()
