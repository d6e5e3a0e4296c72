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
    assert found["mean_length"] == pytest.approx(np.mean(lengths), rel=1e-12)
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


def components(x, threshold=0.9):
    """Sizes of the connected components of "cosine >= threshold", largest first, each with its least cosine: by a search."""
    cosines, left, found = x @ x.T, set(range(len(x))), []
    while left:
        reached = frontier = {left.pop()}
        while frontier:
            frontier = {j for i in frontier for j in left if cosines[i, j] >= threshold} - reached
            reached, left = reached | frontier, left - frontier
        members = sorted(reached)
        found.append((len(members), cosines[np.ix_(members, members)].min()))
    return sorted(found, reverse=True)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def about(direction, n, cosine, rng):
    """n unit vectors at exactly this cosine to a direction, or at one cosine each."""
    cosine = np.full(n, cosine) if np.ndim(cosine) == 0 else cosine
    across = rng.standard_normal((n, len(direction)))
    across = unit(across - (across @ direction)[:, None] * direction)
    return cosine[:, None] * direction + np.sqrt(1 - cosine**2)[:, None] * across


def cases():
    """Names, tokens, and what is known of them: clusters, the largest, single tokens."""
    rng, axes = np.random.default_rng(0), np.eye(40)
    cone = about(np.eye(4)[0], 150, rng.uniform(0.953, 1, 150), rng)
    yield "cone", cone, (1, 150, 0)  # mean cosine 0.957, some pairs below 0.9
    angles = np.linspace(0, np.pi, 12)  # neighbors at a cosine of 0.96, ends at -1
    yield "chain", np.cos(angles)[:, None] * axes[0] + np.sin(angles)[:, None] * axes[1], (1, 12, 0)
    two = [about(axes[0], 20, 0.99, rng), about(axes[1], 9, 0.99, rng), axes[2:7]]
    yield "two groups and single tokens", np.concatenate(two), (2, 20, 5)
    sizes = (17, 11, 5, 2)
    planted = [about(axes[k], m, 0.985, rng) for k, m in enumerate(sizes)] + [axes[10:16]]
    yield "planted", np.concatenate(planted)[rng.permutation(41)], (4, 17, 6)
    yield "apart", axes[:8], (0, 1, 8)
    yield "one", np.ones((5, 3)) / np.sqrt(3), (1, 5, 0)


@pytest.mark.parametrize("entries", [1 << 20, 60])
@pytest.mark.parametrize(("x", "known"), [(x, known) for _, x, known in cases()], ids=[name for name, *_ in cases()])
def test_clusters_are_components_with_their_width(monkeypatch, entries, x, known):
    monkeypatch.setattr(module, "BLOCK_ENTRIES", entries)
    found, searched = pairs(x, np.zeros(len(x), bool), 0.0), components(x)
    assert (found.clusters, found.largest, found.single) == known
    assert found.largest == searched[0][0]
    least = searched[0][1] if known[0] else np.nan
    assert found.least_cosine == pytest.approx(least, abs=1e-12, nan_ok=True)


def test_a_wide_cluster_is_not_counted_token_by_token():
    """150 tokens at a mean cosine of 0.957: nearly all pairs touch, and so they are one cluster."""
    _, x, _ = next(cases())
    found = layer_statistics(x, np.zeros(len(x), bool), None)
    assert found["mean_cosine"] == pytest.approx(0.957, abs=2e-3)
    assert (found["clusters"], found["largest_cluster"], found["single_tokens"]) == (1, 150, 0)
    assert 0.8 < found["cluster_cosine"] < 0.9


@pytest.mark.parametrize("seed", range(6))
def test_clusters_of_random_tokens(seed):
    rng = np.random.default_rng(seed)
    x = unit(rng.standard_normal((60, 4)) + rng.uniform(0, 3) * np.eye(4)[rng.integers(4, size=60)])
    found, searched = pairs(x, np.zeros(60, bool), 0.0), components(x)
    sizes = [size for size, _ in searched]
    assert (found.clusters, found.single) == (sum(s > 1 for s in sizes), sizes.count(1))
    assert found.largest == sizes[0]
    assert any(size == sizes[0] and abs(least - found.least_cosine) < 1e-12 for size, least in searched)


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
    assert (found.clusters, found.largest, found.single, found.squares) == (1, 3, 0, 0.0)
