"""Cells have seeds and ids of their own; batches are cells that may run side by side."""

import itertools

import numpy as np
import pytest
from sweeps import PLAN, changed

from tokenfield.sweep.batches import batches
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import read_plan
from tokenfield.sweep.run_batch import check_seeds


def cells(plan=PLAN, **keys):
    return Cells(read_plan(changed(plan, **keys)))


def seeds(of):
    return of.seeds()


def ids(of):
    return of.ids()


def test_cells_are_in_the_order_of_the_grid():
    grid = cells(axes={"beta": [1.0, 2.0], "n": [6, 7, 8]}, repeats=2)
    found = [(grid[k].config.attention.beta, grid[k].config.tokens.n) for k in range(len(grid))]
    assert found == [(beta, n) for beta, n, _ in itertools.product((1.0, 2.0), (6, 7, 8), range(2))]


def test_seeds_are_independent_and_do_not_change_when_the_grid_grows():
    small = cells()
    assert len(set(seeds(small))) == len(small)
    grown = cells(axes={"beta": [1.0, 2.0, 4.0, 9.0]}, repeats=5)
    by_place = {(grown.points[k // 5], k % 5): grown[k].seed for k in range(len(grown))}
    assert all(by_place[small.points[k // 4], k % 4] == small[k].seed for k in range(len(small)))
    assert not set(seeds(cells(seed=1))) & set(seeds(small))
    assert max(seeds(small)) < 2**48


def test_shared_seeds_give_all_points_the_same_starts():
    shared = cells(seeds="shared")
    assert seeds(shared) == seeds(shared)[:4] * 3
    assert len(set(seeds(shared))) == 4


def test_an_id_is_a_hash_of_all_that_fixes_the_numbers():
    plain = ids(cells())
    assert len(set(plain)) == len(plain)
    assert ids(cells(name="other", about="words", batch=5)) == plain
    for keys in ({"run__rtol": 1e-7}, {"seed": 1}, {"record__r": "mean_cosine"}, {"state": "equiangular"}):
        assert not set(ids(cells(**keys))) & set(plain)


def covered(of):
    return sorted(k for batch in batches(of) for k in batch.cells)


def test_every_cell_is_in_one_batch_of_equal_shape():
    grid = cells(axes={"beta": [1.0, 2.0, 3.0], "n": [6, 8], "norm": ["post", "pre"]}, repeats=3, batch=4)
    assert covered(grid) == list(range(36))
    for batch in batches(grid):
        assert len({(grid[k].config.tokens.n, grid[k].config.norm.kind) for k in batch.cells}) == 1
        assert len(batch.cells) <= batch.size <= 4
    assert len(batches(grid)) == 12


def test_batches_are_even():
    assert [len(batch.cells) for batch in batches(cells(repeats=3, batch=8))] == [5, 4]
    assert {batch.size for batch in batches(cells(repeats=3, batch=8))} == {5}


@pytest.mark.parametrize(
    ("keys", "sizes"),
    [
        ({"batch": None}, {12}),
        ({"axes": {"norm.alpha": [0.5, 1.0]}, "run__norm": {"kind": "ngpt"}, "batch": None}, {8}),
        ({"axes": {"spread": [0.1, 0.2]}, "run__tokens": {"kind": "clusters", "n": 6, "d": 3}, "batch": None}, {8}),
        ({"axes": {"rho": [0.1, 0.2]}, "state": "equiangular", "repeats": 1}, {2}),
        # These are shared by a batch, so cells that differ in them are apart:
        ({"run__stop_when": "energy-settled", "record": {"r": "mean_cosine"}, "batch": None}, {4}),
        (
            {"run": {"t1": 1.0, "noise": {"kappa": 2.0}, "tokens": {"n": 6}}, "record": {"r": "energy"}, "repeats": 2},
            {2},
        ),
        (
            {"run": {"t1": 1.0, "noise": {"kappa": 2.0}, "norm": {"kind": "none"}}, "record": {"r": "mean_cosine"}},
            {2},
        ),
        # These are followed one by one:
        ({"run": {"depth": 3}, "record": {"r": "mean_cosine"}}, {1}),
        ({"run": {"t1": 1.0, "method": "coarsen"}, "record": {"r": "mean_cosine"}}, {1}),
        ({"run": {"t1": float("inf")}, "record": {"r": "mean_cosine"}}, {1}),
        ({"run": {"t1": 1.0, "dt": 0.1}, "record": {"r": "mean_cosine"}}, {1}),
        ({"run": {"t1": 1.0, "merge_tolerance": 0.1}, "record": {"r": "mean_cosine"}}, {1}),
        ({"run__tokens": {"n": 150}, "batch": None, "repeats": 2}, {6}),
        ({"run__tokens": {"n": 600}, "batch": None}, {1}),
        ({"run__tokens": {"n": 300}}, {1}),
        ({"run": {"t1": 1e6, "tokens": {"n": 6}}, "record": {"r": "mean_cosine"}}, {1}),
    ],
)
def test_sizes_of_batches(keys, sizes):
    grid = cells(**keys)
    assert {batch.size for batch in batches(grid)} == sizes
    assert covered(grid) == list(range(len(grid)))


@pytest.mark.parametrize(
    "keys",
    [
        {"run__tokens": {"kind": "equiangular", "n": 6, "d": 6}},
        {"run__tokens": {"kind": "circle", "angles": [0.0, 1.0]}},
        {"state": "equiangular"},
        {"axes": {"start": ["sphere", "equiangular"]}},
    ],
)
def test_repeats_of_nothing_random_are_refused(keys):
    grid = cells(**keys)
    with pytest.raises(ValueError, match=r"repeats: 4 repeats of a run in which nothing is random"):
        check_seeds(grid.plan, grid)
    alone = cells(**keys, repeats=1)
    check_seeds(alone.plan, alone)


def test_noise_makes_any_start_random():
    grid = cells(
        run={"t1": 1.0, "tokens": {"kind": "equiangular", "n": 6}, "noise": {"kappa": 1.0}}, record={"r": "energy"}
    )
    check_seeds(grid.plan, grid)
    assert np.unique(seeds(grid)).size == len(grid)
