"""Config files and sweep plans with wrong values, keys and bytes: read as they are meant, or refused in one line."""

import copy
import datetime
import json
import math

import numpy as np
import pytest
from refusals import Hangs, in_time, raw, report

from tokenfield.config import build
from tokenfield.config.run import read, to_toml
from tokenfield.sweep.batches import batches
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import read_plan
from tokenfield.sweep.run_batch import check_seeds
from tokenfield.sweep.sizes import refuse_too_large

CALLS = 150
VALUES = [
    0, -1, 1, 2, 10**20, -(10**20), 10**400, 2**63, 2**31, 1.5, -0.5, 1e308, 1e-320, math.nan, math.inf, -math.inf, True, False,
    "", "a", "post", "softmax", "sphere", "equiangular", "x" * 5000, "[/b]",
    "math:sin", "a:b", "json:JSONDecoder", "x.npy", "x.npz:y",
    "é\n", [], [[]], [1.0], [1.0, math.nan], [1, "a"], ["a", "b"],
    [[1.0, 0.0], [0.0]], [[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], {}, {"a": 1},
    {"linspace": [0.0, 1.0, 3]}, {"linspace": [0, 1, 10**12]},
    {"logspace": [0.0, 1.0, 3]}, {"kind": "multihead"}, datetime.date(2020, 1, 1),
    [datetime.date(2020, 1, 1)], {"event": "one_cluster"},
]  # fmt: skip
RUNS = [
    {"t1": 0.5, "save_at": 3, "attention": {"kind": "softmax", "beta": 2.0, "V": 1.0, "causal": True}, "norm": {"kind": "post"},
     "tokens": {"kind": "sphere", "n": 4, "d": 3, "seed": 0}, "rtol": 1e-3, "atol": 1e-6, "stop_when": "one-cluster"},
    {"depth": 2, "step": 0.5, "attention": {"kind": "unnormalized", "A": [[1.0, 0.0], [0.0, 1.0]]},
     "norm": {"kind": "pre", "gain": [1.0, 2.0]},
     "tokens": {"kind": "circle", "angles": [0.0, 1.0]}, "mlp": {"W1": [[1.0, 0.0]], "W2": [[1.0], [0.0]], "activation": "relu"}},
    {"t1": 0.5, "dt": 0.1, "method": "heun", "noise": {"kappa": 2.0, "kind": "sphere", "seed": 1},
     "norm": {"kind": "ngpt", "alpha": 1.0},
     "attention": {"kind": "sinkhorn", "Q": [[1.0, 0.0]], "K": [[1.0, 0.0]], "tolerance": 1e-9, "max_iterations": 50},
     "tokens": {"kind": "gaussian", "n": 4, "d": 2, "cov": 0.5}},
    {"t1": math.inf, "merge_tolerance": 1e-6, "method": "coarsen", "norm": {"kind": "mix", "tau": 1.0},
     "attention": {"kind": "multihead", "heads": [{"beta": 1.0}, {"kind": "hardmax", "rule": "others", "tie": 1e-9}],
                   "outputs": [1.0, 0.5]},
     "tokens": {"kind": "clusters", "n": 6, "d": 3, "k": 2, "spread": 0.1}, "fisher_rao": 0.1},
    {"t1": 0.5, "attention": {"kind": "l2", "beta": 1.0}, "tokens": {"kind": "equiangular", "n": 4, "rho": 0.1, "d": 5}},
    {"t1": 0.5, "attention": {"kind": "relu", "beta": 1.0}, "tokens": {"kind": "file", "file": "none.npy"}},
    {"t1": 0.5, "attention": {"positions": [{"kind": "rope", "theta": 9.0}, {"kind": "bias", "b": [[1.0]]}], "causal": True},
     "norm": {"kind": "pre_norm", "map": {"kind": "layer_norm", "eps": 1e-5}}, "context": {"n": 3, "weights": [0.5, 0.25, 0.25]},
     "cross": {"beta": 2.0}, "encoder": {"attention": {"beta": 1.0}}, "breakpoints": [0.1], "mlp_norm": {"kind": "none"},
     "tokens": {"n": 4, "positions": [0.0, 1.0, 2.0, 3.0]}, "observe": {"m": {"observable": "fraction_above", "threshold": 0.5}}},
    {"t1": 0.5, "noise": {"kind": "multiplicative", "kappa": 2.0, "g": "math:fabs", "sense": "ito"},
     "state": {"kind": "circle_density", "modes": 4, "size": 0.1, "seed": 1}},
    {"t1": 0.5, "noise": {"kind": "anisotropic", "kappa": 2.0, "S": [[1.0], [0.0]]},
     "state": {"kind": "gaussian", "mean": [0.0], "cov": [[1.0]]}},
]  # fmt: skip
PLANS = [
    {"name": "a", "run": {"t1": 1.0, "tokens": {"n": 4, "d": 3}}, "axes": {"beta": [1.0, 2.0], "n": [3, 4]},
     "repeats": 2, "seed": 1, "record": {"r": "mean_cosine", "c": {"observable": "clusters", "tol": 0.1}},
     "batch": 2, "seeds": "shared"},
    {"run": {"depth": 3, "norm": {"kind": "pre"}},
     "axes": {"gamma": {"linspace": [0.1, 1.0, 3]}, "norm": ["post", "mix"], "tau": [1.0, 2.0]},
     "record": {"f": {"observable": "fraction_above", "threshold": 0.9, "times": [0.0, 1.0]}}},
    {"state": "equiangular", "run": {"t1": 2.0, "stop_when": "order>=0.9"}, "axes": {"kappa": {"logspace": [1.0, 10.0, 3]},
     "d": [3]},
     "record": {"e": {"event": "order_parameter_0.9"}}, "theory": "equiangular"},
    {"run": {"t1": 1.0, "state": {"kind": "equiangular", "n": 4}}, "axes": {"state.rho": [0.1, 0.2], "attention.V": [1.0, -1.0]},
     "record": {"r": {"observable": "soft_cluster_count", "tol": 0.1, "metric": "cosine"}}},
]  # fmt: skip


def places(data, path=()):
    """The paths to all values of nested tables and lists."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


def spoiled(data, rng):
    """The data with one or two changes: another value, a key removed, added or misspelled, two values exchanged."""
    data = copy.deepcopy(data)
    for _ in range(rng.integers(1, 3)):
        all_places = list(places(data))
        *path, key = all_places[rng.integers(len(all_places))]
        holder = data
        for step in path:
            holder = holder[step]
        value = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
        match rng.integers(6):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[f"{key}x"] = holder.pop(key)
            case 2 if isinstance(holder, dict):
                holder[str(rng.choice(["beta", "n", "a.b", "", "t1", "é", "x" * 3000]))] = value
            case _:
                holder[key] = value
    return data


def toml(data) -> str:
    """Plain data as TOML."""
    return "\n".join(f"{json.dumps(key, ensure_ascii=False)} = {_value(value)}" for key, value in data.items()) + "\n"


def _value(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def damaged(text, rng) -> bytes:
    """The text with a few bytes changed, cut or repeated."""
    data = bytearray(text.encode())
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(data)))
        match rng.integers(4):
            case 0:
                data[place] = int(rng.integers(256))
            case 1:
                del data[place:]
            case 2:
                data[place:place] = data[place : place + 30]
            case 3:
                del data[place : place + 3]
        data = data or bytearray(b"=")
    return bytes(data)


def use_config(path):
    """All that is done with a config before it is run, and it can be written and read again."""
    config = read(path, {})
    build.model(config)
    build.start(config)
    build.stop_rule(config.stop_when)
    again = path.with_name("again.toml")
    again.write_text(to_toml(config), encoding="utf-8")
    assert to_toml(read(again, {})) == to_toml(config)


def use_plan(path):
    """All that is done with a plan before its cells are run."""
    plan = read_plan(path)
    refuse_too_large(plan, None)
    cells = Cells(plan)
    check_seeds(plan, cells)
    batches(cells)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "use"), [("config", use_config), ("plan", use_plan)])
def test_bad_files_are_refused_in_one_line(budget, tmp_path, monkeypatch, kind, use):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    faults, path = [], tmp_path / "file.toml"
    for _ in range(budget(CALLS)):
        path.write_bytes(draw(kind, rng))
        try:
            with in_time():
                use(path)
        except (Exception, Hangs) as error:
            if fault := raw(error):
                faults.append(f"{fault} <- {path.read_bytes()[:400]!r}")
    assert not faults, report(faults)


def draw(kind, rng) -> bytes:
    """A file with something wrong in it."""
    bases = RUNS if kind == "config" else PLANS
    base = bases[rng.integers(len(bases))]
    return damaged(toml(base), rng) if rng.random() < 0.2 else toml(spoiled(base, rng)).encode(errors="replace")


@pytest.mark.parametrize("data", [*RUNS[:5], *RUNS[6:], *PLANS])
def test_the_files_are_right_before_they_are_spoiled(tmp_path, data):
    path = tmp_path / "file.toml"
    path.write_text(toml(data), encoding="utf-8")
    (read if data in RUNS else lambda path, _: read_plan(path))(path, {})
