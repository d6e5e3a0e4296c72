"""A folder that comes from somebody else runs no code when it is loaded: only Zarr version 3 is read, which has no pickles."""

import contextlib
import json
import os
import pickle
import tomllib
from importlib.metadata import version
from pathlib import Path

import numcodecs
import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield_here
from numcodecs.abc import Codec

import tokenfield as tkf
from tokenfield.probe.result import ProbeResult
from tokenfield.results.saved import seal

RUN: list[str] = []


class Payload:
    """What is unpickled calls a function."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Spy(Codec):
    """A filter of Zarr version 2 that notes that it was called, as any that is installed could."""

    codec_id = "spy"

    def encode(self, buffer):
        return buffer

    def decode(self, buffer, out=None):
        RUN.append("decoded")
        return np.ones(1)


@pytest.fixture
def spy():
    numcodecs.register_codec(Spy)
    RUN.clear()
    yield RUN
    numcodecs.registry.codec_registry.pop("spy")


def old_array(folder, payload, filters):
    """An array in Zarr version 2, of objects where that is what the filter makes."""
    folder.mkdir(parents=True)
    metadata = {
        "zarr_format": 2,
        "shape": [1],
        "chunks": [1],
        "dtype": "|O" if filters[0]["id"] == "pickle" else "<f8",
        "compressor": None,
        "fill_value": None if filters[0]["id"] == "pickle" else 0.0,
        "order": "C",
        "filters": filters,
    }
    (folder / ".zarray").write_text(json.dumps(metadata))
    (folder / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["time"]}))
    (folder / "0").write_bytes(payload)


def old_group(folder, attributes, payload, filters):
    old_array(folder / "x", payload, filters)
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / ".zattrs").write_text(json.dumps(attributes))


def new_group(folder, attributes, payload, filters, version=3):
    """A group of version 3, with a checksum that fits, around an array of version 2."""
    old_array(folder / "x", payload, filters)
    attributes = {**attributes, "checksum": "0" * 64}
    metadata = {"zarr_format": version, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(metadata))
    seal(folder)


def disguised_group(folder, attributes, payload, filters):
    """The same with a `zarr.json` that says version 2, which Zarr believes."""
    new_group(folder, attributes, payload, filters, version=2)


ATTRIBUTES = {
    "format": "tokenfield-trajectory-2",
    "state": "Tokens",
    "events": "[]",
    "config": "{}",
    "log_time_unit": 0.0,
    "checksum": "0" * 64,
    "plan": json.dumps({"run": {"t1": 1.0}, "axes": {"beta": [1.0]}, "record": {"x": "order_parameter"}}),
}


@pytest.mark.filterwarnings("ignore:Object at x is not recognized")
@pytest.mark.parametrize("make", [old_group, new_group, disguised_group])
@pytest.mark.parametrize("kind", ["pickle", "spy"])
def test_loading_runs_no_code(make, kind, spy, tmp_path, capsys):
    marker = tmp_path / "it ran"
    payload = pickle.dumps(np.array([Payload(marker)], dtype=object)) if kind == "pickle" else bytes(8)

    def craft(name, format):
        make(tmp_path / name, {**ATTRIBUTES, "format": format}, payload, [{"id": kind}])
        return tmp_path / name

    calls = [
        (tkf.load, craft("run.zarr", "tokenfield-trajectory-2")),
        (ProbeResult.load, craft("probe.zarr", "tokenfield-probe-2")),
        (tkf.sweep.SweepResult.open, craft("out/sweep.zarr", "tokenfield-sweep-3").parent),
    ]
    for load, folder in calls:
        with contextlib.suppress(ValueError):
            assert "x" not in load(folder).dataset  # the old array is not seen at all
    assert not marker.exists()
    assert not spy
    assert_one_line_error(tokenfield_here(capsys, "sweep", "status", tmp_path / "out"), "sweep.zarr is damaged")


def test_codecs_that_unpickle_are_not_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "numcodecs>=0.16.6" in project["dependencies"]
    assert tuple(map(int, version("numcodecs").split(".")[:3])) >= (0, 16, 6)
