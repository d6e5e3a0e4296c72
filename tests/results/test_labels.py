"""Every dataset that is written to a file has a name and a unit on each of its variables, also after it was read again."""

import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

import tokenfield as tkf
from tokenfield.cli.folders import write_dataset
from tokenfield.cli.lipschitz_numbers import dataset as growth_dataset

sys.path.append(str(Path(__file__).parent.parent / "probe"))

POST = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
FREE = tkf.Transformer(tkf.Softmax(A=[[-1.0, 0.0], [0.0, -0.5]]))
COVARIANCE = tkf.Gaussian([0.1, 0.2], [[0.7, 0.1], [0.1, 0.3]])
RUNS = {
    "tokens": (POST, tkf.uniform_sphere(4, 3, seed=0)),
    "growing tokens": (tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PreLN()), tkf.uniform_sphere(4, 3, seed=0)),
    "rescaled tokens": (tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.Rescaled()), tkf.uniform_sphere(4, 2, seed=0)),
    "gaussian": (FREE, COVARIANCE),
    "equiangular": (POST, tkf.Equiangular(0.1, 4)),
    "circle": (POST, tkf.CircleDensity.from_function(lambda a: np.exp(np.cos(a)), modes=8)),
    "zonal": (POST, tkf.ZonalDensity.from_function(np.exp, modes=8, d=4)),
}
PLAN = {
    "run": {"t1": 0.1, "attention": {"beta": 1.0}, "tokens": {"n": 4, "d": 3}},
    "axes": {"beta": [0.5, 2.0]},
    "record": {"cosine": "mean_cosine"},
}


def growth(folder):
    found = tkf.lipschitz.growth(tkf.Softmax(beta=0.5), tkf.lipschitz.data_model("gaussian", d=2), (2, 4), repeats=2)
    return written(growth_dataset(found, {}), folder)


def written(dataset, folder):
    write_dataset(dataset, folder / "data.zarr")
    return opened(folder / "data.zarr")


def opened(path):
    return xarray.open_zarr(path, consolidated=False)


def probe(folder):
    pytest.importorskip("torch", reason='pip install -e ".[models]"')
    from small_models import REACTIONS, build

    tkf.probe(build(folder / "bert", "bert"), REACTIONS, full=True, lengths=(8, 12), out=folder / "out", progress=False)
    return opened(folder / "out" / "probe.zarr")


def run(name, folder):
    model, state = RUNS[name]
    return opened(tkf.simulate(model, state, 0.1, save_at=2, progress=False).save(folder / "run.zarr"))


def ensemble(folder):
    runs = tkf.simulate_many(POST, [tkf.uniform_sphere(4, 3, seed=seed) for seed in range(2)], 0.1, save_at=2)
    return written(runs.dataset, folder)


SLOW = (
    "run of growing tokens",
    "run of rescaled tokens",
    "run of circle",
    "run of zonal",
    "merges",
    "noisy runs",
    "probe",
)
WRITTEN = {
    **{f"run of {name}": lambda folder, name=name: run(name, folder) for name in RUNS},
    "merges": lambda folder: opened(
        tkf.simulate(POST.replace(beta=50.0), tkf.circle_tokens([0.0, 0.5, 2.0]), t1=np.inf).save(folder / "run.zarr")
    ),
    "ensemble": ensemble,
    "norms": lambda folder: written(tkf.studies.normalization_study(d=8, n=4, depth=2, seeds=2), folder),
    "growth": growth,
    "phase diagram": lambda folder: written(tkf.theory.phase_diagram([1.0, 4.0], [0.3, 2.0], d=2), folder),
    "noisy runs": lambda folder: written(tkf.studies.noisy_order_study([1.0], d=2, n=16, progress=False), folder),
    "sweep": lambda folder: opened(tkf.sweep(PLAN, folder / "found", progress=False).folder / "sweep.zarr"),
    "probe": probe,
}


CASES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WRITTEN]


@pytest.mark.parametrize("name", CASES)
def test_every_variable_has_a_name_and_a_unit(name, tmp_path):
    dataset = WRITTEN[name](tmp_path)
    bare = {
        key for key, each in dataset.variables.items() if not each.attrs.get("long_name") or not each.attrs.get("units")
    }
    assert bare == set()
    spelled = {key for key, each in dataset.variables.items() if each.attrs["long_name"] == str(key).replace("_", " ")}
    assert {key for key in spelled if "_" in str(key)} == set()  # a name that says more than that of the variable
