"""The page's own modules, tested by Node: the engine and the theory against numbers of tokenfield, links and copied code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tokenfield.config import build
from tokenfield.config.run import read

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "tokenfield" / "explorer" / "page"


def node() -> str:
    """Node 20 or newer, or skip."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node is not installed: the engine of the page is not tested")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < 20:
        pytest.skip(f"Node 20 or newer is needed to test the page, found {version}")
    return found


def run_node(arguments: list[str], **more: str) -> subprocess.CompletedProcess:
    return subprocess.run([node(), *arguments], capture_output=True, text=True, timeout=300, env=os.environ | more)


def test_engine_against_tokenfield(tmp_path):
    node()
    numbers = tmp_path / "golden.json"
    subprocess.run([sys.executable, HERE / "golden.py", numbers], check=True, timeout=300)
    tests = [str(path) for path in sorted((HERE / "page").glob("*.test.mjs"))]
    done = run_node(["--test", *tests], TOKENFIELD_GOLDEN=str(numbers))
    assert done.returncode == 0, done.stdout
    assert "# fail 0" in done.stdout


def test_copied_python_and_toml_end_in_the_same_clusters(tmp_path, capsys):
    runs = json.loads(run_node([str(HERE / "page" / "copied.mjs")]).stdout)
    assert len(runs[0]["sizes"]) > 3
    for number, run in enumerate(runs):  # the last one has weights, and points of the sphere
        exec(run["python"], {})
        printed = capsys.readouterr().out
        assert [int(word) for word in printed.strip(" []\n").split()] == run["sizes"]
        path = tmp_path / f"{number}.toml"
        path.write_text(run["toml"])
        config = read(path, {})
        start = build.start(config)
        assert start.n == sum(run["sizes"])
        if run["weights"] is not None:
            np.testing.assert_allclose(start.weights, np.array(run["weights"]) / sum(run["weights"]), rtol=1e-12)
            np.testing.assert_allclose(start.x, run["x"] / np.linalg.norm(run["x"], axis=1, keepdims=True), rtol=1e-12)
        assert f"{type(build.model(config).norm).__name__}()" in run["python"]


def test_a_film_as_gif_holds_the_frames(tmp_path):
    done = run_node([str(HERE / "page" / "film.mjs"), str(tmp_path / "a.gif"), str(tmp_path / "a.raw")])
    assert done.returncode == 0, done.stderr
    film, raw = Image.open(tmp_path / "a.gif"), np.fromfile(tmp_path / "a.raw", np.uint8).reshape(3, 64, 96, 4)
    for k, wanted in enumerate(raw):
        film.seek(k)
        np.testing.assert_array_equal(np.asarray(film.convert("RGBA")), wanted)
        assert film.info["duration"] == 100 * (k + 1)
    assert film.n_frames == 3
    assert film.info["loop"] == 0


def test_formulas_link_to_pages_of_theory():
    files = [PAGE / "panels.js", *(PAGE / "panels").glob("*.js")]
    named = {name for path in files for name in re.findall(r'page: "(\w+)"', path.read_text(encoding="utf-8"))}
    sections = set(re.findall(r"^  (\w+): \{$", (PAGE / "notes.js").read_text(encoding="utf-8"), re.M))
    assert len(named) >= 6
    assert named == sections  # each formula leads to a section in the page, and each section to a page
    for name in named:
        assert (HERE.parent.parent / "docs" / "theory" / f"{name}.md").is_file()


def test_page_is_small_and_loads_nothing_from_elsewhere():
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    for path in files:
        text = path.read_text(encoding="utf-8")
        allowed = text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in allowed, path
        assert "https://" not in allowed, path
