"""What `make test` leaves out of slow tests and of grids."""

import itertools
from types import SimpleNamespace

import grids


def case(name, marks=(), keep=1, **params):
    found = SimpleNamespace(kwargs={"keep": keep})
    item = SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: found if mark in marks else None)
    if params:
        item.nodeid += f"[{'-'.join(map(str, params.values()))}]"
        item.callspec = SimpleNamespace(params=params)
    return item


def test_every_value_of_a_grid_is_run():
    pairs = list(itertools.product(["a", "b", "c"], [1, 2, 3, 4]))
    items = [case("t", ["grid"], letter=letter, number=number) for letter, number in pairs]
    run, left_out = grids.split(items)
    assert {item.callspec.params["letter"] for item in run} == {"a", "b", "c"}
    assert {item.callspec.params["number"] for item in run} == {1, 2, 3, 4}
    assert len(run) == 4
    assert len(left_out) == 8


def test_the_first_case_of_a_slow_test_is_run():
    slow = [case("t", ["slow"], k=k) for k in range(3)]
    alone, quick, mixed = case("u", ["slow"]), case("v", k=0), case("v", ["slow"], k=1)
    never = [case("w", ["slow"], keep=0, k=k) for k in range(2)]
    left_out = [*slow[1:], alone, mixed, *never]
    assert grids.split([*slow, alone, quick, mixed, *never]) == ([slow[0], quick], left_out)
    some = [case("s", ["slow"], keep=3, k=k) for k in range(7)]
    assert grids.split(some)[0] == [some[0], some[2], some[4]]
    assert grids.split(some[:2])[1] == []


def test_values_without_a_hash_are_different():
    items = [case("t", ["grid"], x=[0], y=y) for y in (1, 2)] + [case("t", ["grid"], x=[0], y=1)]
    assert len(grids.split(items)[0]) == 3
