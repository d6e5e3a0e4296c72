"""One bit of a stored file is flipped, at random: the file is refused in one line, or nothing that is read has changed."""

import dataclasses
import json

import numpy as np
import pytest
import xarray
from sweeps import PLAN, bits

import tokenfield as tkf
from tokenfield.driver import checkpoint
from tokenfield.probe.architecture import Architecture
from tokenfield.probe.result import ProbeResult

FLIPS = 60


def saved_run(folder):
    state = tkf.Tokens(tkf.uniform_sphere(6, 3, seed=0).x, [0.1, 0.1, 0.2, 0.2, 0.2, 0.2], np.linspace(0, 1, 6))
    model = tkf.Transformer(tkf.Softmax(2.0, causal=True), tkf.PostLN())
    path = tkf.simulate(model, state, 3.0, save_at=3, stop_when=tkf.order_above(0.9)).save(folder / "run.zarr")
    return path, lambda: tkf.load(path).dataset


def saved_probe(folder):
    rng = np.random.default_rng(0)
    words = np.array(["eins", "zwei — ü", ""], dtype=object)
    data = {"mean_cosine": (("layer", "text"), rng.random((4, 3))), "text_excerpt": ("text", words)}
    architecture = Architecture("bert", "post", False, False, 3, 2, 2, 8, 4, False, False, 512, None, True, "")
    attributes = {
        "architecture": json.dumps(dataclasses.asdict(architecture)),
        "notes": "[]",
        "config": "{}",
        "source": "made",
    }
    path = ProbeResult(xarray.Dataset(data, {"layer": np.arange(4)}, attributes)).save(folder / "probe.zarr")
    return path, lambda: ProbeResult.load(path).dataset


def swept(folder):
    tkf.sweep(PLAN, folder)
    return folder, lambda: tkf.sweep.SweepResult.open(folder).dataset


def kept_run(folder):
    path = folder / "run.npz"
    rng = np.random.default_rng(0)
    checkpoint.write(path, "f" * 64, [1, None], [rng.random((5, 3)), np.arange(4), np.float64(0.5), np.array("text")])

    def read():
        segment, leaves = checkpoint.read(path, "f" * 64)
        variables = {f"leaf{k}": (tuple(f"{k}-{d}" for d in range(leaf.ndim)), leaf) for k, leaf in enumerate(leaves)}
        return xarray.Dataset(variables, attrs={"segment": json.dumps(segment)})

    return path, read


def test_a_large_array_of_a_checkpoint_is_checked_with_its_header(tmp_path):
    """Every bit of the header: a shorter shape, or a start of the numbers at another byte, leaves enough of them to read."""
    path, numbers = tmp_path / "run.npz", np.random.default_rng(0).random((5001, 3))
    checkpoint.write(path, "f" * 64, 1, [numbers])
    whole = path.read_bytes()
    begin = whole.index(b"\x93NUMPY")
    for place in range(begin, whole.index(b"\n", begin) + 1):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(checkpoint.CheckpointError, match="cannot be read"):
                checkpoint.read(path, "f" * 64)


@pytest.mark.parametrize("store", [saved_run, saved_probe, swept, kept_run])
def test_a_flipped_bit_is_found_or_has_no_effect(store, tmp_path, budget):
    place, read = store(tmp_path)
    whole, rng, found = read(), np.random.default_rng(1), 0
    files = [path for path in ([place] if place.is_file() else sorted(place.rglob("*"))) if path.is_file()]
    sizes = np.array([path.stat().st_size for path in files], float)
    flips = budget(FLIPS)
    for k in range(flips):
        chances = sizes / sizes.sum() if k % 2 else None  # every other time each file is as likely as any
        victim = files[rng.choice(len(files), p=chances)]
        data = bytearray(victim.read_bytes())
        where, bit = int(rng.integers(len(data))), int(rng.integers(8))
        data[where] ^= 1 << bit
        original = victim.read_bytes()
        victim.write_bytes(data)
        what = f"bit {bit} of byte {where} of {victim.relative_to(tmp_path)}"
        try:
            after, said = read(), None
        except ValueError as error:
            after, said = None, str(error)
        finally:
            victim.write_bytes(original)
        if after is None:
            assert str(tmp_path) in said, what
            assert len(said.splitlines()) == 1, what
            found += 1
        else:
            assert bits(after) == bits(whole), what
            assert {name: v.attrs for name, v in after.variables.items()} == {
                name: v.attrs for name, v in whole.variables.items()
            }, what
            assert {n: str(v.dtype) for n, v in after.variables.items()} == {
                n: str(v.dtype) for n, v in whole.variables.items()
            }, what
            plain = lambda attributes: {k: v for k, v in attributes.items() if k != "checksum"}  # noqa: E731
            assert plain(after.attrs) == plain(whole.attrs), what
    assert found >= (0.5 if store in (kept_run, swept) else 1.0) * flips  # a zip file and plan.json have idle bits
