"""Animations: the clock of their frames, films by ffmpeg, pages with a player."""

import base64
import io
import json
import re
import shutil
import sys

import numpy as np
import pytest
from PIL import Image
from test_plotting import made

import tokenfield as tkf
from tokenfield.plotting import animate
from tokenfield.plotting.frames import read_frames
from tokenfield.plotting.pacing import pace

FAKE = """#!{python}
import pathlib, sys
data = sys.stdin.buffer.read()
pathlib.Path(sys.argv[-1]).write_bytes(b"film" + len(data).to_bytes(8, "big") + " ".join(sys.argv[1:-1]).encode())
"""


def turning(angles, times=None, **options):
    """A run of one token on the circle, beside one that stays."""
    x = np.stack([np.stack([np.cos(angles), np.sin(angles)], -1), np.tile([0.0, 1.0], (len(angles), 1))], 1)
    return made(x, times, **options)


def paced(traj, time, count):
    frames = read_frames(traj, most=len(traj.times))
    return pace(frames, traj.log_times, time, count)


def test_frames_are_even_in_the_chosen_time():
    traj = turning(np.linspace(0, 1, 101), np.linspace(0, 100, 101))
    for wanted in (None, "linear"):
        shown, _, found = paced(traj, wanted, 11)
        assert found == "linear"
        np.testing.assert_allclose(shown.times, np.linspace(0, 100, 11))
        np.testing.assert_allclose(shown.x[:, 0], np.stack([np.cos(shown.times / 100), np.sin(shown.times / 100)], 1))
    shown, logs, _ = paced(traj, "log", 21)
    np.testing.assert_allclose(shown.times[[0, 1, 20]], [0, 100 ** (1 / 20), 100])
    np.testing.assert_allclose(np.exp(logs[1:]), shown.times[1:])
    np.testing.assert_allclose(np.linalg.norm(shown.x, axis=-1), 1)
    angles = np.arctan2(shown.x[:, 0, 1], shown.x[:, 0, 0])
    np.testing.assert_allclose(angles, shown.times / 100, atol=2e-3)  # between two states, on the arc


def test_log_time_is_chosen_where_the_action_is_early():
    times = np.linspace(0, 40, 101)
    assert paced(turning(np.exp(-times), times), None, 50)[2] == "log"
    assert paced(turning(np.exp(-times / 30), times), None, 50)[2] == "linear"
    _, logs, found = paced(turning(np.linspace(0, 1, 9), np.geomspace(1e-3, 1e9, 9), log_unit=300.0), None, 100)
    assert found == "saved"  # uneven times are shown as they are
    np.testing.assert_allclose(logs, np.log(np.geomspace(1e-3, 1e9, 9)) + 300)
    with pytest.raises(ValueError, match="time must be one of"):
        animate(turning(times, times), "x.gif", time="cubic")


def test_nothing_is_interpolated_in_other_spaces():
    traj = turning(np.linspace(0, 1, 11), np.linspace(0, 10, 11))
    frames = read_frames(traj, most=11)._replace(space=tkf.Torus())
    shown, _, _ = pace(frames, traj.log_times, "log", 11)
    assert {tuple(x) for x in shown.x[:, 0]} <= {tuple(x) for x in frames.x[:, 0]}


def test_a_page_holds_the_places_of_all_tokens(tmp_path):
    traj = turning(np.linspace(0, 1, 5))
    page = animate(traj, tmp_path / "run.html", fps=7).read_text(encoding="utf-8")
    assert not re.search(r"https?://|src=\"(?!data:)", page)
    data = json.loads(re.search(r"const run = (.*);", page)[1])
    assert data["times"] == [f"t = {k}" for k in range(5)]
    assert data["fps"] == 7
    raw = np.frombuffer(base64.b64decode(data["places"]), "<u2").reshape(5, 2, 2)
    places = raw * [data["across"], data["down"]] + [data["left"], data["top"]]
    angles = np.linspace(0, 1, 5)
    first = np.stack([np.cos(angles), -np.sin(angles)], 1)  # y of a page goes down
    scale = (places[0, 0, 0] - places[-1, 0, 0]) / (1 - np.cos(1))
    np.testing.assert_allclose((places[:, 0] - places[0, 0]) / scale, first - first[0], atol=1e-3)
    with Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]*)", page)[1]))) as image:
        assert image.size == (2 * data["width"], 2 * data["height"])


def test_a_film_without_ffmpeg_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r'".mp4" needs ffmpeg, which is not on the PATH: install it, or use ".gif"'):
        animate(turning(np.linspace(0, 1, 3)), tmp_path / "run.mp4")


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_ffmpeg_gets_all_frames(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    film = animate(turning(np.linspace(0, 1, 4)), tmp_path / "run.mp4", fps=10).read_bytes()
    assert film.startswith(b"film")
    assert int.from_bytes(film[4:12], "big") == (4 + 15) * 480 * 480 * 3  # and a second and a half of the last one
    assert b"-s 480x480 -r 10 -i -" in film
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stdin.buffer.read()\nsys.exit('no such codec')")
    with pytest.raises(OSError, match="ffmpeg failed: no such codec"):
        animate(turning(np.linspace(0, 1, 3)), tmp_path / "other.mp4")
    assert not (tmp_path / "other.mp4").exists()


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_a_film_is_an_mp4(tmp_path):
    assert animate(turning(np.linspace(0, 1, 4)), tmp_path / "run.mp4").read_bytes()[4:8] == b"ftyp"


def test_flags_of_the_command(tmp_path, capsys, monkeypatch):
    from commands import assert_one_line_error, tokenfield_here

    monkeypatch.setattr(tkf.Trajectory, "plot", lambda self: tkf.plotting.Sheet())
    monkeypatch.setattr("tokenfield.report.write_report", lambda *_, **__: None)
    asked = []
    monkeypatch.setattr(tkf.Trajectory, "animate", lambda self, path, time: asked.append((path.name, time)) or path)
    small = ["simulate", "--n", 4, "--d", 2, "--t1", 0.1, "--save-at", 3, "--quiet"]
    for number, flags in enumerate(
        (["--animation", "html", "--animate-time", "log"], ["--no-animation"], [], ["--animation", "none"])
    ):
        ended = tokenfield_here(capsys, *small, *flags, "--out", tmp_path / str(number))
        assert ended == (0, "", "")
    assert asked == [("animation.html", "log"), ("animation.gif", None)]
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = tokenfield_here(capsys, *small, "--animation", "mp4", "--out", tmp_path / "film")
    assert_one_line_error(refused, "needs ffmpeg")
    assert not (tmp_path / "film").exists()
