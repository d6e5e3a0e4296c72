"""Files of older versions are read and drawn with the names that their variables have now."""

import dataclasses
import json

import numpy as np
import xarray
from matplotlib.collections import QuadMesh

import tokenfield as tkf
from tokenfield.plotting.norms import norms_figure
from tokenfield.plotting.phase_diagram import phase_diagram_figure
from tokenfield.probe.architecture import Architecture
from tokenfield.probe.result import ProbeResult


def test_a_saved_probe(tmp_path):
    old = {"norm_mean": 8.0, "gamma_critical": 2.0, "predicted_cosine_turned": 0.5, "null_norm_mean": 9.0}
    old |= {
        "lipschitz_exponent": 0.25,
        "lipschitz_exponent_low": 0.2,
        "lipschitz_exponent_high": 0.3,
        "mean_cosine": 0.1,
    }
    architecture = Architecture("bert", "post", False, False, 4, 2, 2, 64, 32, False, False, 512, "", True, "")
    attributes = {"architecture": json.dumps(dataclasses.asdict(architecture)), "notes": "[]"}
    ProbeResult(xarray.Dataset(old, attrs=attributes)).save(tmp_path / "probe.zarr")
    found = ProbeResult.load(tmp_path / "probe.zarr").dataset
    assert {str(name): float(value) for name, value in found.data_vars.items()} == {
        "mean_length": 8.0,
        "critical_gamma": 2.0,
        "predicted_cosine_rotated": 0.5,
        "null_mean_length": 9.0,
        "lipschitz_power": 0.25,
        "lipschitz_power_low": 0.2,
        "lipschitz_power_high": 0.3,
        "mean_cosine": 0.1,
    }


def test_figures_of_saved_studies():
    diagram = tkf.theory.phase_diagram([1.0, 4.0], [0.3, 3.0], d=2)
    runs = xarray.Dataset(
        {"m_1": (("beta", "place", "start"), [[[0.0, 0.9]]]), "kappa": (("beta", "place"), [[0.5]])},
        {"beta": [1.0]},
        {"config": '{"n": 100}'},
    )
    sheet = phase_diagram_figure(diagram.rename(order_parameter="m_1"), runs)
    (drawn,) = [each for each in sheet.axes[0].collections if isinstance(each, QuadMesh)]
    np.testing.assert_array_equal(drawn.get_array(), diagram["order_parameter"].values.T)
    study = tkf.studies.normalization_study(d=8, n=4, depth=2, seeds=2, rules=("post",))
    line = norms_figure(study.rename(mean_cosine="cosine")).axes[0].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), study["mean_cosine"].mean("seed")[0])
