"""Files that are written: alone, in one step, without following links, and nothing is left behind."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield_here

import tokenfield as tkf
from tokenfield._files import current, recover, remove, replacing
from tokenfield._lock import alone_in, alone_with, locked
from tokenfield.cli.folders import open_folder, write_dataset

MODEL, TOKENS = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN()), tkf.uniform_sphere(4, 3, seed=0)
SAMPLER = tkf.lipschitz.data_model("sphere", 3)


@pytest.fixture(scope="module")
def traj():
    return tkf.layers(MODEL, TOKENS, 2)


HOLDER = """
import sys, time
from pathlib import Path
from tokenfield._lock import locked
with locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    file = tmp_path / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match=r"^taken$"), locked(file, "taken"):
        pass
    holder.kill()
    holder.wait()
    with locked(file, "taken"), locked(file, "taken again by the same thread"):
        assert file.exists()
    assert not file.exists()


def test_only_one_thread_is_inside(tmp_path):
    inside, most, done = [], [], []

    def work(_):
        for _ in range(20):
            with locked(tmp_path / ".lock", "busy", wait=60):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()
                done.append(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert max(most) == 1
    assert len(done) == 80
    assert not os.listdir(tmp_path)


def from_another_thread(function, *arguments, **options):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments, **options).result()


@pytest.mark.parametrize(
    "run",
    [
        lambda path: tkf.simulate(MODEL, TOKENS, 0.1, checkpoint=path),
        lambda path: tkf.layers(MODEL, TOKENS, 2, checkpoint=path),
        lambda path: tkf.lipschitz.growth(MODEL.attention, SAMPLER, (2, 3), 1, checkpoint=path),
    ],
)
def test_a_checkpoint_belongs_to_one_run_at_a_time(run, tmp_path):
    path = tmp_path / "run.npz"
    with (
        alone_with(path, "checkpoint"),
        pytest.raises(ValueError, match=r"^checkpoint: another process is using .*npz"),
    ):
        from_another_thread(run, path)
    with pytest.raises(ValueError, match=r"^checkpoint: cannot write to .*run\.npz: No such file or directory"):
        run(tmp_path / "nowhere" / "run.npz")
    assert not os.listdir(tmp_path)


def test_a_folder_belongs_to_one_command_at_a_time(tmp_path, capsys, traj):
    commands = [
        ["simulate", "--n", 4, "--depth", 1, "--out", tmp_path],
        ["norms", "--quick", "--out", tmp_path],
        ["lipschitz", "--lengths", "2,3", "--out", tmp_path],
        ["phase-diagram", "--out", tmp_path],
        ["sweep", "run", "figure3", "--out", tmp_path],
    ]
    ready, over = threading.Event(), threading.Event()

    def hold():
        with alone_in(tmp_path):
            ready.set()
            over.wait(120)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        ready.wait(120)
        try:
            for command in commands:
                assert_one_line_error(tokenfield_here(capsys, *command), f"is writing to {tmp_path}")
            with pytest.raises(ValueError, match="is writing to"):
                tkf.probe("nowhere", ["text"], out=tmp_path)
        finally:
            over.set()
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_are_replaced_and_not_followed(tmp_path, traj, capsys):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    place = tmp_path / "place"
    place.mkdir()
    run = traj.save(precious / "run.zarr")
    (place / "run.zarr").symlink_to(run)
    with pytest.raises(FileExistsError):
        traj.save(place / "run.zarr")
    tkf.layers(MODEL, TOKENS, 1).save(place / "run.zarr", overwrite=True)
    assert len(tkf.load(place / "run.zarr").times) == 2
    assert len(tkf.load(run).times) == 3
    out = place / "out"
    out.mkdir()
    names = ["overview.png", "report.html", "animation.gif", "checkpoint.npz"]
    for name in names:
        (out / name).symlink_to(precious / "file")
    (out / "dangling").symlink_to(precious / "new")
    flags = ["--n", 4, "--d", 2, "--depth", 1]
    assert tokenfield_here(capsys, "simulate", *flags, "--out", out, "--overwrite").returncode == 0
    assert (precious / "file").read_text() == "precious"
    assert sorted(os.listdir(precious)) == ["file", "run.zarr"]
    assert not any((out / name).is_symlink() for name in names)
    remove(out / "dangling")
    (out / "folder").symlink_to(precious)
    remove(out / "folder")
    assert sorted(os.listdir(precious)) == ["file", "run.zarr"]


def test_an_error_leaves_what_was_there(tmp_path):
    import xarray

    data = xarray.Dataset({"x": ("k", np.arange(3.0))})
    write_dataset(data, tmp_path / "study.zarr")

    def fail():
        with replacing(tmp_path / "study.zarr") as part:
            part.mkdir()
            (part / "half").write_text("")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ValueError, match="cannot serialize"):
        write_dataset(xarray.Dataset({"x": ("k", np.array([object()]))}), tmp_path / "study.zarr")
    assert os.listdir(tmp_path) == ["study.zarr"]
    assert xarray.open_zarr(tmp_path / "study.zarr", consolidated=False).equals(data)


def test_a_flipped_bit_in_the_numbers_of_a_study_is_found_by_xarray(tmp_path):
    import xarray

    data = xarray.Dataset(
        {"x": ("k", np.random.default_rng(0).random(50))},
        {"k": np.arange(50), "name": ("k", np.array(["ü"] * 50, dtype=object))},
    )
    write_dataset(data, tmp_path / "study.zarr")
    read = lambda: xarray.open_zarr(tmp_path / "study.zarr", consolidated=False, chunks=None).load()  # noqa: E731
    assert read().equals(data)
    files = sorted((tmp_path / "study.zarr").glob("*/c/*"))
    assert len(files) == 3
    for file in files:
        whole = file.read_bytes()
        for place in np.random.default_rng(1).integers(len(whole), size=10):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(ValueError, match="checksum"):
                read()
        file.write_bytes(whole)


def test_what_a_kill_leaves_is_brought_back_and_cleared(tmp_path, traj):
    traj.save(tmp_path / "run.zarr").rename(tmp_path / ".old-run.zarr")
    for name in (".part-7-0123abcd-run.zarr", ".part-8-89abcdef-.old-run.zarr", ".part-9-0123abcd-other-run.zarr"):
        (tmp_path / name).mkdir()
    assert current(tmp_path / "run.zarr") == tmp_path / ".old-run.zarr"
    assert len(tkf.load(tmp_path / "run.zarr").times) == 3
    with pytest.raises(FileExistsError):
        traj.save(tmp_path / "run.zarr")
    recover(tmp_path / "run.zarr")
    assert sorted(os.listdir(tmp_path)) == [".part-9-0123abcd-other-run.zarr", "run.zarr"]  # the last is another's
    with open_folder(tmp_path, "other-run.zarr", "a study", True):
        assert sorted(os.listdir(tmp_path)) == [".lock", "run.zarr"]


def test_two_processes_may_save_to_one_path(tmp_path, traj):
    other = tkf.layers(MODEL, TOKENS, 1)

    def work(each):
        for _ in range(10):
            each.save(tmp_path / "run.zarr", overwrite=True)
            assert len(tkf.load(tmp_path / "run.zarr").times) in (2, 3)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (traj, other)))
    assert os.listdir(tmp_path) == ["run.zarr"]
