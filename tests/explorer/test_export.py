"""The page as one file, replays of saved runs, the widget, and `tokenfield explore`."""

import base64
import json
import logging
import re
import socket
import sys

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.cli import main
from tokenfield.explorer import export, serve, widget
from tokenfield.explorer.export import export_page, joined, one_file
from tokenfield.explorer.extra import require
from tokenfield.explorer.frames import decode
from tokenfield.explorer.page_files import page_files
from tokenfield.explorer.replay import model_config, open_run, replay_data
from tokenfield.results.describe import describe

MODEL = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())


@pytest.fixture(scope="module")
def traj():
    return tkf.simulate(MODEL, tkf.uniform_sphere(6, 2, seed=3), 1.0, save_at=5)


def test_a_replay_holds_the_states_of_the_run(traj):
    data = replay_data(traj)
    frames = decode(base64.b64decode(data["frames"]))
    assert data["times"] == traj.times.tolist()
    assert data["log_times"][0] is None
    assert data["log_times"][1:] == pytest.approx(np.log(traj.times[1:]).tolist())
    assert data["config"] == {
        "attention": {"kind": "softmax", "beta": 4.0, "causal": False},
        "norm": {"kind": "post"},
        "noise": None,
        "t1": 1.0,
    }
    for frame, state, time in zip(frames, traj.states, traj.times, strict=True):
        np.testing.assert_array_equal(frame.values, np.ravel(state.x).astype("f4"))
        assert (frame.time, frame.log_time_unit) == (time, 0.0)
        assert frame.energy == pytest.approx(float(tkf.normalized_energy(state, 4.0)))
        assert frame.clusters == len(tkf.clusters(state).sizes)
    json.dumps(data, allow_nan=False)


MATRIX = [[1.0, 0.5], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("attention", "norm", "wanted"),
    [
        (
            tkf.Softmax(beta=2.0, causal=True, positions=tkf.ALiBi(slope=3.0)),
            tkf.PostLN(),
            {"kind": "softmax", "beta": 2.0, "causal": True, "slope": 3.0},
        ),
        (
            tkf.Hardmax(rule="others"),
            tkf.NGPT(0.5),
            {"kind": "hardmax", "beta": 1.0, "causal": False, "rule": "others"},
        ),
        (
            tkf.Unnormalized(A=MATRIX, V=-1.0),
            tkf.PreLN(),
            {"kind": "unnormalized", "A": MATRIX, "V": -1.0, "causal": False},
        ),
        (tkf.MultiHead([tkf.Softmax(beta=1.0), tkf.Softmax(beta=2.0)]), tkf.PostLN(), None),
        (tkf.Softmax(Q=MATRIX, K=MATRIX), tkf.PostLN(), None),
        (tkf.Softmax(beta=2.0, positions=tkf.RoPE()), tkf.PostLN(), None),
        (tkf.Softmax(beta=2.0), tkf.PreLN(gain=[1.0, 2.0]), None),
    ],
)
def test_a_replay_names_a_model_only_if_the_page_knows_all_of_it(attention, norm, wanted):
    found = model_config(describe(tkf.Transformer(attention, norm=norm)))
    assert (None if found is None else found["attention"]) == wanted


def test_a_long_run_is_thinned(traj, monkeypatch):
    monkeypatch.setattr(sys.modules["tokenfield.explorer.replay"], "LARGEST", 400)
    assert replay_data(traj)["times"] == traj.times[[0, 2, 4]].tolist()


def test_clusters_of_long_runs_are_counted_now_and_then(traj, monkeypatch):
    monkeypatch.setattr(sys.modules["tokenfield.explorer.replay"], "FEW", 5)
    monkeypatch.setattr(sys.modules["tokenfield.explorer.replay"], "MOST_COUNTED", 2)
    frames = decode(base64.b64decode(replay_data(traj)["frames"]))
    counts = [len(tkf.clusters(state).sizes) for state in traj.states]
    assert [frame.clusters for frame in frames] == [counts[0]] * 3 + [counts[3]] * 2


def test_runs_are_found_in_their_folders(traj, tmp_path):
    (tmp_path / "run").mkdir()
    traj.save(tmp_path / "run" / "trajectory.zarr")
    traj.save(tmp_path / "saved.zarr")
    report = tmp_path / "run" / "report.html"
    report.write_text("")
    for path in (tmp_path / "run", report, tmp_path / "saved.zarr", tmp_path / "run" / "trajectory.zarr"):
        np.testing.assert_array_equal(open_run(path).times, traj.times)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for path, message in (
        ("empty", "is not a run: it has no trajectory.zarr"),
        ("none", "no such"),
        ("file", "no such"),
    ):
        with pytest.raises(ValueError, match=message):
            open_run(tmp_path / path)


MODULES = {
    "main.js": 'import { twice, TWO as Z } from "./lib/a.js";\nimport {\n  add,\n} from "./b.js";\nout(twice(Z) + add(1));\n',
    "lib/a.js": 'import { add } from "../b.js";\nexport const ONE = 1, TWO = f(2, 3), S = "a, b = 3;";\n'
    "export function twice(x) {\n  return add(x);\n}\nexport class C {}\nexport async function g() {}\nfunction f() {}\n",
    "b.js": "export const add = (x) => x;\nexport const LIST = [\n  1,\n  2,\n];\n",
}


def test_modules_become_one_script():
    parts = joined(MODULES, "main.js")
    assert list(parts) == ["b.js", "lib/a.js", "main.js"]
    script = "".join(parts.values())
    assert re.findall(r"^// (.*)$", script, re.M) == ["b.js", "lib/a.js", "main.js"]
    assert not re.search(r"^(import|export)\b", script, re.M)
    assert "const { twice, TWO: Z } = $lib_a;" in script
    assert "const { add } = $b;" in script
    assert "return { twice, C, g, ONE, TWO, S };" in script
    assert "return { add, LIST };" in script


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"main.js": 'import { a } from "./none.js";\n'}, r"main\.js imports none\.js, which does not exist"),
        ({"main.js": 'import { a } from "./b.js";\n', "b.js": 'import { c } from "./main.js";\n'}, "import cycle"),
        ({"main.js": "export default 3;\n"}, "does not support 'export default 3;'"),
        ({"main.js": 'import * as a from "./b.js";\n', "b.js": ""}, "does not support"),
    ],
)
def test_modules_that_cannot_be_joined_are_refused(modules, message):
    with pytest.raises(ValueError, match=message):
        joined(modules, "main.js")


def test_the_page_is_one_file_that_asks_for_nothing(traj, tmp_path):
    page = one_file(replay_data(traj))
    assert len(one_file().encode()) < 300_000
    assert sum(len(data) for data in page_files().values()) < 300_000
    outside = re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.S)
    assert not re.search(r'(src|href)\s*=\s*"(?!data:)', outside)
    assert not re.search(r"@import|url\((?!['\"]?data:|#)", page[page.index("<style>") : page.index("</style>")])
    scripts = dict(re.findall(r"<script ([^>]*)>\n?(.*?)</script>", page, re.S))
    assert page.count("<script") == page.count("</script>") == len(scripts) == 4
    engine, worker = scripts['id="tokenfield-engine"'], scripts['type="text/plain" id="tokenfield-worker"']
    code = engine + worker + scripts['type="module"']
    names = re.findall(r"^// ([\w/]+\.js)$", code, re.M)
    assert len(names) == len(set(names))  # each module is in the file once
    assert worker.count("// engine/worker.js") == 1
    assert not re.search(r"^\s*(import|export)\s", code, re.M)
    assert not re.search(r"""(fetch|importScripts|WebSocket)\(\s*["'`]https?:""", code)
    data = json.loads(re.search(r'id="tokenfield">(.*?)</script>', page, re.S)[1])
    assert data["mode"] == "replay"
    assert data["replay"]["times"] == traj.times.tolist()
    assert "onmessage" in worker
    assert "worker" not in data
    assert export_page(tmp_path / "page.html").read_text() == one_file()
    assert '"docs": "theory/"' in export_page(tmp_path / "page.html", docs="theory/").read_text()
    with pytest.raises(ValueError, match="is a folder: give a file"):
        export_page(tmp_path)
    with pytest.raises(ValueError, match="does not exist: create it first"):
        export_page(tmp_path / "none" / "page.html")


def test_text_that_looks_like_a_tag_stays_text(monkeypatch):
    html = '<script type="module" src="./main.js"></script>'
    hostile = {"index.html": html.encode(), "main.js": b'const a = "</script><!-- <script>";\n'}
    monkeypatch.setattr(export, "page_files", lambda: hostile)
    page = one_file({"name": "</script>"})
    assert page.count("</script>") == 2
    assert "<!--" not in page


def test_a_trajectory_in_a_notebook(traj, tmp_path, monkeypatch):
    monkeypatch.setattr(widget, "find_spec", lambda name: None)
    shown = traj.explore(height=300)
    text = shown._repr_html_()
    assert text.startswith('<iframe title="tokenfield" style="width:100%;height:300px')
    assert text.count("<") == 2
    assert shown.save(tmp_path / "a.html").read_text() == shown.page
    with pytest.raises(ValueError, match="height"):
        traj.explore(height=1)


def test_a_trajectory_as_a_widget(traj, tmp_path):
    pytest.importorskip("anywidget", reason='needs pip install -e ".[explore]"')
    shown = traj.explore()
    state = shown.get_state()
    assert state["page"] == one_file(replay_data(traj))
    assert state["height"] == 640
    assert shown.save(tmp_path / "a.html").read_text() == state["page"]


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["explore", *map(str, arguments)])
    out, err = capsys.readouterr()
    return caught.value.code, out, err


def test_the_command_writes_a_page(traj, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    traj.save(tmp_path / "run" / "trajectory.zarr")
    assert command(capsys, "--export", tmp_path / "a.html") == (0, f"open {tmp_path / 'a.html'}\n", "")
    assert (tmp_path / "a.html").read_text() == one_file()
    assert command(capsys, tmp_path / "run", "--export", tmp_path / "b.html")[0] == 0
    assert '"mode": "replay"' in (tmp_path / "b.html").read_text()


def test_the_command_says_in_one_line_what_is_wrong(tmp_path, capsys, monkeypatch):
    (tmp_path / "run.toml").write_text("t1 = 3.0\n")
    for arguments, words in (
        ([tmp_path], "is not a run"),
        ([tmp_path / "none"], "no such folder"),
        ([tmp_path / "none.toml"], "no such file"),
        ([tmp_path / "run.toml", "--export", tmp_path / "a.html"], "cannot run a TOML file"),
        (["--port", "99999"], "--port must be a port from 0 to 65535, got 99999"),
    ):
        code, out, err = command(capsys, *arguments, "--no-browser")
        assert code == 2
        assert words in err
        assert err.count("\n") == 1
        assert out == ""
    extra = sys.modules["tokenfield.explorer.extra"]
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "uvicorn" else True)
    assert (
        command(capsys)[2]
        == 'tokenfield: uvicorn is not installed: pip install -e ".[explore]" in the folder of tokenfield\n'
    )
    with pytest.raises(ValueError, match=r'pip install -e "\.\[explore\]"'):
        require("uvicorn")


def test_the_server_is_told_what_the_command_says(traj, tmp_path, capsys, monkeypatch):
    pytest.importorskip("uvicorn", reason='needs pip install -e ".[explore]"')
    served = []

    def run(server, sockets):
        served.append((server.config, sockets[0].getsockname()))

    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr(serve, "_compile", lambda config: None)
    opened = []
    monkeypatch.setattr(serve.webbrowser, "open", opened.append)
    (tmp_path / "run.toml").write_text("[attention]\nbeta = 3.0\n")
    other = logging.FileHandler(tmp_path / "other.log", delay=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = command(capsys, tmp_path / "run.toml", "--port", port)
    assert (code, err) == (0, "")
    config, (host, found) = served[0]
    assert host == "127.0.0.1"
    assert found != port
    assert out.startswith(f"port {port} is in use: using {found}\nopen http://127.0.0.1:{found}/?token=")
    assert opened[0] in out
    assert len(opened[0].partition("token=")[2]) == 32
    assert config.ws_max_size == 4_000_000
    assert not config.access_log
    assert other.stream is not None  # a server that configures logging closes the handlers of others
    other.close()
