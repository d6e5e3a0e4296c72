"""Step sizes at which repulsive layers change their behavior, beside runs of layers."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.theory.layer_steps import angle_rates, weight_excess

CASES = [(2, 1.5), (3, 2.0), (4, 1.0), (6, 4.0)]


def ends(h, beta, n, depth=2000, rho=0.05):
    model = tkf.Transformer(tkf.Softmax(beta, V=-1.0), norm=tkf.PostLN())
    return tkf.layers(model, tkf.Equiangular(rho, n), depth=depth, step=h).final


@pytest.mark.parametrize(("n", "beta"), CASES)
def test_layers_change_where_the_steps_say(n, beta):
    steps, least = tkf.theory.critical_steps(beta, n), -1 / (n - 1)
    assert float(ends(0.99 * steps.period_two, beta, n).rho) == pytest.approx(least, abs=1e-9)
    assert float(ends(1.01 * steps.period_two, beta, n, rho=least + 1e-6).rho) > least + 1e-4
    assert float(ends(2.02, beta, n).gap) < 1e-12
    assert float(ends(1.98, beta, n).gap) > 1e-3


@pytest.mark.parametrize(("n", "beta"), [(3, 2.0), (5, 0.7), (6, 8.0)])
def test_changes_of_the_angles_of_a_simplex_have_their_multipliers(n, beta):
    """One layer on a slightly changed simplex, and the critical step, at which the first multiplier is -1."""
    rng, e = np.random.default_rng(0), 1e-6
    v = rng.standard_normal(n)
    v -= v.mean()
    change = v[:, None] + v
    other = np.zeros((n, n))
    if n > 3:  # rows that sum to 0
        other[:4, :4] = [[0, 1, -1, 0], [1, 0, 0, -1], [-1, 0, 0, 1], [0, -1, 1, 0]]
    rates = angle_rates(beta, n)
    delta = weight_excess(n / (n - 1), beta, n)
    h, c = 0.6, (1 - delta) / n
    model = tkf.Transformer(tkf.Softmax(beta, V=-1.0), norm=tkf.PostLN())
    upper = np.triu_indices(n, 1)
    for k, way in zip(rates, [change, other], strict=False):
        after = []
        for sign in (1, -1):
            gram = n / (n - 1) * np.eye(n) - 1 / (n - 1) + sign * e * way
            np.fill_diagonal(gram, 1.0)
            values, vectors = np.linalg.eigh(gram)
            x = vectors * np.sqrt(np.maximum(values, 0))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            after.append(np.asarray(tkf.pairwise_cosines(tkf.layers(model, tkf.Tokens(x), 1, h).final)))
        found = (after[0] - after[1]) / (2 * e)
        np.testing.assert_allclose(found, (1 - h * c * k / (1 - h * delta)) * way[upper], rtol=0, atol=2e-5)
    step = tkf.theory.critical_steps(beta, n).unequal
    assert max(step * c * k / (1 - step * delta) for k in rates) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize(("n", "beta"), CASES)
def test_tokens_return_after_two_layers_and_nearby_angles_follow_the_multiplier(n, beta):
    """In tokens, not in one cosine: two layers bring them back, one does not."""
    low = tkf.theory.critical_steps(beta, n).period_two
    model = tkf.Transformer(tkf.Softmax(beta, V=-1.0), norm=tkf.PostLN())
    for h in (0.7 * low + 0.3 * 2, 0.2 * low + 0.8 * 2):
        cosine, multiplier = tkf.theory.period_two(h, beta, n)
        x = [np.asarray(state.x) for state in tkf.layers(model, tkf.Equiangular(cosine, n).tokens(), 2, h).states]
        assert np.abs(x[2] - x[0]).max() < 1e-12 < 0.1 < np.abs(x[1] - x[0]).max()
        e = 1e-5
        after = [float(tkf.layers(model, tkf.Equiangular(cosine + c, n), 1, h).final.rho) for c in (e, -e)]
        # The cosine does not see the sign of w, which changes in each layer.
        assert (after[0] - after[1]) / (2 * e) == pytest.approx(-multiplier, rel=1e-6)


def test_bad_input():
    with pytest.raises(ValueError, match=r"h must lie between 1\.07287 and 2"):
        tkf.theory.period_two(1.0, 2.0, 3)
    with pytest.raises(ValueError, match="beta must be"):
        tkf.theory.critical_steps(0.0, 3)
