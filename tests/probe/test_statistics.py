"""Statistics of a layer against loops over pairs, closed forms, and the library's own observables."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.probe import pairs as module
from tokenfield.probe.pairs import BINS, EDGES, pairs
from tokenfield.probe.statistics import SCALES, layer_statistics


def some_tokens(n=23, d=7, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * rng.uniform(0.5, 3, (n, 1)) + 0.4
    special = np.zeros(n, bool)
    special[[0, n - 1]] = True
    return x, special


def naive(x, special, beta):
    """Loops over all pairs."""
    n = len(x)
    u = [v / np.sqrt(sum(c * c for c in v)) for v in x]
    found = {"all": [], "plain": [], "special": []}
    for i in range(n):
        for j in range(n):
            if i != j:
                c = float(sum(a * b for a, b in zip(u[i], u[j], strict=True)))
                found["all"].append(c)
                found["special" if special[i] or special[j] else "plain"].append(c)
    energy = sum(np.exp(beta * (float(a @ b) - 1)) for a in u for b in u) / n**2
    return found, energy


def test_all_numbers_are_those_of_loops_over_pairs():
    x, special = some_tokens()
    found, (cosines, energy) = layer_statistics(x, special, 2.5), naive(x, special, 2.5)
    assert found["mean_cosine"] == pytest.approx(np.mean(cosines["all"]), abs=1e-12)
    assert found["std_cosine"] == pytest.approx(np.std(cosines["all"]), abs=1e-12)
    assert found["mean_cosine_no_special"] == pytest.approx(np.mean(cosines["plain"]), abs=1e-12)
    assert found["special_cosine"] == pytest.approx(np.mean(cosines["special"]), abs=1e-12)
    assert found["normalized_energy"] == pytest.approx(energy, rel=1e-12)
    np.testing.assert_array_equal(2 * found["cosine_histogram"], np.histogram(cosines["all"], EDGES)[0])
    np.testing.assert_array_equal(2 * found["special_histogram"], np.histogram(cosines["special"], EDGES)[0])
    lengths = [np.sqrt((v * v).sum()) for v in x]
    assert found["norm_mean"] == pytest.approx(np.mean(lengths), rel=1e-12)
    assert found["norm_std"] == pytest.approx(np.std(lengths), rel=1e-12)
    for value, beta in zip(found["fixed_energy"], SCALES, strict=True):
        assert value == pytest.approx(naive(x, special, beta)[1], rel=1e-12)


def test_equal_angles_have_closed_forms():
    rho, n, beta = 0.3, 8, 3.0
    found = layer_statistics(np.asarray(tkf.equiangular_tokens(rho, n).x), np.zeros(n, bool), beta)
    assert found["mean_cosine"] == pytest.approx(rho, abs=1e-12)
    assert found["std_cosine"] == pytest.approx(0, abs=1e-7)
    assert found["normalized_energy"] == pytest.approx((1 + (n - 1) * np.exp(beta * (rho - 1))) / n, rel=1e-12)
    values = np.sqrt([1 + (n - 1) * rho] + [1 - rho] * (n - 1))  # singular values of the Gram matrix
    p = values / values.sum()
    assert found["effective_rank"] == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-9)
    assert np.isnan(found["special_cosine"])
    assert found["mean_cosine_no_special"] == found["mean_cosine"]


def test_energies_are_those_of_the_library():
    x, special = some_tokens()
    found = layer_statistics(x, special, 2.5)
    state = tkf.Tokens(x).normalized()
    assert found["normalized_energy"] == pytest.approx(tkf.normalized_energy(state, 2.5), rel=1e-12)
    np.testing.assert_allclose(
        found["fixed_energy"], [tkf.normalized_energy(state, beta) for beta in SCALES], rtol=1e-12
    )


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
def test_the_effective_rank_is_that_of_the_library(shape):
    x, special = some_tokens(*shape)
    found = layer_statistics(x, special, None)["effective_rank"]
    assert found == pytest.approx(tkf.effective_rank(tkf.Tokens(x).normalized()), rel=1e-9)
    close = np.ones(shape) + 1e-4 * x  # nearly one direction
    found = layer_statistics(close, special, None)["effective_rank"]
    assert found == pytest.approx(tkf.effective_rank(tkf.Tokens(close).normalized()), rel=1e-6)


def test_lengths_do_not_matter_to_directions():
    x, special = some_tokens()
    scaled = x * np.linspace(1, 1e6, len(x))[:, None]
    first, second = layer_statistics(x, special, 1.0), layer_statistics(scaled, special, 1.0)
    for name in ("mean_cosine", "std_cosine", "effective_rank", "normalized_energy", "clusters"):
        assert first[name] == pytest.approx(second[name], rel=1e-9), name


def test_an_energy_without_a_scale_is_not_given():
    x, special = some_tokens()
    assert np.isnan(layer_statistics(x, special, None)["normalized_energy"])


@pytest.mark.parametrize("entries", [1 << 20, 60])
@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_those_of_the_library_in_any_blocks(monkeypatch, entries, seed):
    """Three tight groups, a chain that is connected but wide, and single tokens."""
    rng = np.random.default_rng(seed)
    tight = [a + 0.02 * rng.standard_normal((m, 5)) for a, m in zip(np.eye(5), (6, 4, 2), strict=False)]
    angles = np.linspace(0, 1.8, 9)
    chain = np.stack([0 * angles, 0 * angles, 0 * angles, np.cos(angles), np.sin(angles)], 1)
    x = np.concatenate([*tight, chain, -np.eye(5)[:2]])
    x = x[rng.permutation(len(x))]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", entries)
    found = pairs(x, np.zeros(len(x), bool), 0.0)
    expected = tkf.clusters(tkf.Tokens(x), tol=0.1, metric="cosine")
    assert (found.clusters, found.largest) == (expected.count, expected.sizes[0])
    assert expected.loose == 9  # the chain


def test_blocks_change_nothing(monkeypatch):
    x, special = some_tokens(n=50)
    whole = layer_statistics(x, special, 1.0)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 120)
    cut = layer_statistics(x, special, 1.0)
    for name, value in whole.items():
        np.testing.assert_allclose(cut[name], value, rtol=1e-12, err_msg=name)
    assert whole["cosine_histogram"].sum() == 50 * 49 / 2
    assert len(whole["cosine_histogram"]) == BINS


def test_a_cosine_of_one_is_in_the_last_bin():
    found = pairs(np.ones((3, 1)), np.zeros(3, bool), 1.0)
    assert found.histogram[-1] == 3
    assert (found.clusters, found.largest, found.squares) == (1, 3, 0.0)
