"""A small sweep that many tests share, so that it is compiled once, and comparisons bit for bit."""

import numpy as np

BETAS, REPEATS, STOP = [1.0, 4.0, 9.0], 4, 0.75
PLAN = {
    "name": "small",
    "run": {"t1": 2.0, "tokens": {"n": 6, "d": 3}, "stop_when": f"order>={STOP}"},
    "axes": {"beta": BETAS},
    "repeats": REPEATS,
    "record": {
        "r": "order_parameter",
        "above": {"observable": "fraction_above", "threshold": 0.5, "times": [0.0, 0.4, 2.0]},
        "aligned": {"event": f"order_parameter_{STOP}"},
    },
    "batch": 3,
}
"""Four batches of three cells."""


def changed(plan=PLAN, **keys):
    """A plan with other values; `run__t1` stands for `run.t1`."""
    plan = {key: dict(value) if isinstance(value, dict) else value for key, value in plan.items()}
    for key, value in keys.items():
        place, (*tables, last) = plan, key.split("__")
        for table in tables:
            place[table] = dict(place.get(table, {}))
            place = place[table]
        place[last] = value
    return plan


def bits(dataset):
    """All numbers and texts of a dataset as bytes, by name."""
    text = lambda values: np.asarray(values.tolist()).astype(str) if values.dtype.kind in "TOU" else values  # noqa: E731
    return {str(name): (variable.dims, text(variable.values).tobytes()) for name, variable in dataset.variables.items()}


def same_bits(one, other):
    one, other = bits(one), bits(other)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == other[name], name
    return True
