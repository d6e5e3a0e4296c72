"""The server: who may ask, what it answers, and that no message ends it. Websockets are those of Starlette's test client."""

import gc
import json
import random
import threading
import time
import tomllib

import numpy as np
import pytest

pytest.importorskip("starlette", reason='needs pip install -e ".[explore]"')
pytest.importorskip("httpx", reason="Starlette's test client needs httpx")

from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import tokenfield as tkf
from tokenfield.config.run import RunConfig
from tokenfield.explorer import client as clients
from tokenfield.explorer import page_files, server
from tokenfield.explorer.frames import decode
from tokenfield.explorer.guard import same_token
from tokenfield.explorer.messages import LARGEST, parse
from tokenfield.explorer.replay import replay_data
from tokenfield.explorer.run import FRAMES, RATE
from tokenfield.explorer.serve import free_port

PORT, TOKEN = 8765, "a-token-of-this-test"
BASE = f"http://127.0.0.1:{PORT}"
HTML = '<!doctype html><link rel="stylesheet" href="./style.css"><script type="module" src="./main.js"></script>'
SMALL = {"attention": {"beta": 4.0}, "tokens": {"n": 6, "d": 2, "seed": 3}}
ORIGIN = {"host": f"127.0.0.1:{PORT}", "origin": BASE}


@pytest.fixture
def client(monkeypatch):
    """Return a function that makes a client of a server with a page of three files."""
    stub = {"index.html": HTML.encode(), "main.js": b"1;", "style.css": b"a {}", "engine/worker.js": b"2;"}
    monkeypatch.setattr(server, "page_files", lambda: stub)

    def make(headers=None, **options):
        app = server.application(PORT, TOKEN, **options)
        return TestClient(app, BASE, headers=headers or {}, raise_server_exceptions=True)

    return make


def connect(client, token=TOKEN, headers=ORIGIN):
    return client.websocket_connect(f"/ws?token={token}", headers=headers)


def tell(page, **message):
    page.send_text(json.dumps(message))


def hear(page):
    """Return the next message: text as data, bytes as a frame."""
    message = page.receive()
    return json.loads(message["text"]) if message.get("text") is not None else decode(message["bytes"])[0]


def test_the_page_needs_its_token_and_its_files_do_not(client):
    web = client(config={"attention": {"beta": 3.0}})
    page = web.get(f"/?token={TOKEN}")
    assert page.status_code == 200
    assert '<script type="application/json" id="tokenfield">{"mode": "live", "config"' in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    for address in ("/", "/?token=", "/?token=wrong", f"/?token={TOKEN}x", "/?token=%ff%00", "/?token=é"):
        assert web.get(address).status_code == 403, address
    assert page.text.index("application/json") < page.text.index("main.js")
    assert web.get("/main.js").text == "1;"
    assert web.get("/engine/worker.js").headers["content-type"].startswith("text/javascript")
    assert web.get("/replay").status_code == 404
    assert web.post(f"/?token={TOKEN}").status_code == 405
    assert same_token("é", "é")
    assert not same_token(None, "é")


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "/engine/../../server.py",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/engine",
        "/index.html",
        "/main.js%00.css",
        "/C:\\windows",
        "/file:///etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_page(client, path):
    assert client().get(path).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": f"evil.example:{PORT}"},
        {"host": "127.0.0.1:80"},
        {"host": f"127.0.0.1:{PORT}.evil.example"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": f"127.0.0.1:{PORT}"},
        {"origin": f"http://localhost:{PORT}"},  # another origin than the Host of this request
    ],
)
def test_other_hosts_and_origins_are_refused(client, headers):
    assert client().get(f"/?token={TOKEN}", headers=headers).status_code == 403
    with pytest.raises(WebSocketDisconnect) as caught, connect(client(), headers={**ORIGIN, **headers}):
        pass
    assert caught.value.code == 1008


def test_websockets_need_an_origin_and_the_token(client):
    for token, headers in ((TOKEN, {"host": ORIGIN["host"]}), ("", ORIGIN), ("wrong", ORIGIN), (TOKEN[:-1], ORIGIN)):
        with pytest.raises(WebSocketDisconnect) as caught, connect(client(), token, headers):
            pass
        assert caught.value.code == 1008
    with connect(client(), headers={"host": f"localhost:{PORT}", "origin": f"http://localhost:{PORT}"}):
        pass


def test_a_live_run_sends_the_states_of_simulate(client, monkeypatch):
    start = tkf.uniform_sphere(6, 2, seed=3)
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
    times = np.arange(FRAMES + 1) / RATE
    states = tkf.simulate(model, start, float(times[-1]), save_at=times).states
    with connect(client()) as page:
        tell(page, type="step")
        assert "there is no run yet" in hear(page)["message"]
        tell(page, type="start", config=SMALL)
        info, first = hear(page), hear(page)
        assert info["type"] == "info"
        assert info["config"] == SMALL
        assert {("softmax", "softmax attention (SA)"), ("relu", "ReLU")} <= {tuple(each) for each in info["names"]}
        assert ["none", "no norm"] in info["norms"]
        assert "multihead" not in dict(info["names"])  # needs heads
        assert 'kind = "softmax"' in info["toml"]
        assert info["theory"] == []
        predicted = hear(page)  # a little later
        assert any(row["key"] and row["formula"] for row in predicted["theory"])
        monkeypatch.setattr(clients, "REST", 1e3)  # no more of them between the answers below
        np.testing.assert_array_equal(first.values, np.asarray(start.x, "f4").ravel())
        tell(page, type="play", speed=1.0, log=False)
        for k in range(1, 4):
            frame = hear(page)
            assert frame.time == pytest.approx(times[k])
            np.testing.assert_array_equal(frame.values, np.asarray(states[k].x, "f4").ravel())
        tell(page, type="pause")
        tell(page, type="set", beta=-1e400)
        frames = [hear(page)]
        while not isinstance(frames[-1], dict):  # frames that were on their way
            frames.append(hear(page))
        assert "message: must be JSON" in frames[-1]["message"]  # JSON has no Infinity
        tell(page, type="set", beta=2.0)
        info, now = hear(page), hear(page)
        assert info["config"]["attention"] == {"beta": 2.0}
        shown = len(frames) - 1 + 3
        np.testing.assert_array_equal(now.values, np.asarray(states[shown].x, "f4").ravel())
        tell(page, type="step")
        weaker = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN())
        moved = tkf.simulate(weaker, states[shown], 1 / RATE, save_at=2).final
        np.testing.assert_allclose(hear(page).values, np.ravel(moved.x), atol=1e-6)
        tell(page, type="tokens", x=[[1.0, 0.0], [0.6, 0.8]])
        assert (hear(page)["n"], hear(page).n) == (2, 2)
        tell(page, type="set", t1=1e-3, tokens=SMALL["tokens"])
        assert (hear(page)["type"], hear(page).time) == ("info", 0)
        tell(page, type="play", speed=1.0)
        frames = [hear(page)]
        while not isinstance(frames[-1], dict):
            frames.append(hear(page))
        assert frames[-1] == {"type": "end", "reason": "t1"}
        assert frames[-2].time == pytest.approx(1e-3)


def test_changes_keep_what_they_do_not_name(client, monkeypatch):
    monkeypatch.setattr(clients, "REST", 1e3)
    config = {
        "attention": {"kind": "relu", "beta": 4.0},
        "norm": {"kind": "mix", "tau": 3.0},
        "tokens": {"n": 5, "d": 2},
    }
    with connect(client(config=config)) as page:
        tell(page, type="start", changes={"beta": 3.0})
        assert hear(page)["config"] == config | {"attention": {"kind": "relu", "beta": 3.0}}
        assert hear(page).n == 5
        tell(page, type="set", beta=2.0, tau=1.0)
        changed = config | {"attention": {"kind": "relu", "beta": 2.0}, "norm": {"kind": "mix", "tau": 1.0}}
        info = hear(page)
        assert info["config"] == changed
        found = RunConfig.model_validate(tomllib.loads(info["toml"]))
        assert (found.attention.kind, found.attention.get("beta"), found.norm.get("tau"), found.tokens.n) == (
            "relu",
            2.0,
            1.0,
            5,
        )
        hear(page)
        tell(page, type="set", tokens={"x": [[1.0, 0.0], [0.6, 0.8]], "weights": [0.25, 0.75]})
        state = tomllib.loads(hear(page)["toml"])["state"]
        assert state == {"kind": "tokens", "x": [[1.0, 0.0], [0.6, 0.8]], "weights": [0.25, 0.75]}


def test_the_run_file_of_the_command_may_name_files_and_classes_and_a_page_may_not(client, monkeypatch, tmp_path):
    monkeypatch.setattr(clients, "REST", 1e3)
    np.save(tmp_path / "a.npy", [[1.0, 0.5], [0.0, 2.0]])
    np.save(tmp_path / "x.npy", [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    tokens = {"kind": "file", "file": str(tmp_path / "x.npy")}
    own = {"attention": {"kind": "tokenfield:ReLU", "A": str(tmp_path / "a.npy")}, "tokens": tokens}
    with connect(client(config=own)) as page:
        tell(page, type="start", config=own)
        assert "the page may name a kind, not a file or a module" in hear(page)["message"]
        tell(page, type="start", changes={"tokens": tokens})
        assert "tokens.kind: the page may name a kind" in hear(page)["message"]
        tell(page, type="start", changes={})
        assert hear(page)["config"]["attention"] == own["attention"]
        np.testing.assert_allclose(hear(page).values, np.load(tmp_path / "x.npy").ravel(), atol=1e-7)
        for patch in ({"A": "b.npy"}, {"kind": "os:system"}, {"tokens": tokens}):
            tell(page, type="set", **patch)
            assert "the page may name a kind" in hear(page)["message"]
        tell(page, type="set", causal=True)
        assert hear(page)["config"]["attention"] == own["attention"] | {"causal": True}
        hear(page)
        tell(page, type="tokens", x=["/etc/passwd"])
        assert "the page may name a kind" in hear(page)["message"]
    with connect(client()) as page:
        tell(page, type="start")
        assert hear(page)["message"] == "config must be a table: the server was started without a run file"


def test_a_replay_is_sent_to_those_who_have_the_token(client):
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
    data = replay_data(tkf.simulate(model, tkf.uniform_sphere(6, 2, seed=3), 1.0, save_at=3))
    web = client(replay=data)
    assert f'"replayUrl": "/replay?token={TOKEN}"' in web.get(f"/?token={TOKEN}").text
    assert web.get(f"/replay?token={TOKEN}").json() == data
    assert web.get("/replay").status_code == 403
    with pytest.raises(WebSocketDisconnect), connect(web):
        pass


def test_messages_over_size_or_rate_are_refused(client):
    with connect(client()) as page:
        page.send_text("x" * (LARGEST + 1))
        assert "at most 4000000 characters" in hear(page)["message"]
        with pytest.raises(WebSocketDisconnect) as caught:
            page.receive_text()
        assert caught.value.code == 1009
    with connect(client(rate=0.0, burst=3)) as page:
        for _ in range(4):
            tell(page, type="pause")
        assert "too many messages" in hear(page)["message"]
        with pytest.raises(WebSocketDisconnect) as caught:
            page.receive_text()
        assert caught.value.code == 1008


def test_more_pages_than_allowed_are_refused(client, monkeypatch):
    monkeypatch.setattr(server, "MOST_CLIENTS", 1)
    web = client()
    with connect(web) as first:
        with connect(web) as second:
            assert hear(second) == {"type": "error", "message": "at most 1 pages at a time"}
        tell(first, type="step")
        assert hear(first)["type"] == "error"


def fuzzed(rng, k):
    """Return a message that is wrong in some way, or nearly right."""
    good = [
        {"type": "start", "config": {"attention": {"beta": 1.0}, "tokens": {"n": 2, "d": 2}}},
        {"type": "play", "speed": 1.0, "log": False},
        {"type": "pause"},
        {"type": "step"},
        {"type": "set", "beta": 2.0},
        {"type": "tokens", "x": [[1.0, 0.0], [0.0, 1.0]]},
    ]
    odd = [None, True, -1, 0, 1e308, 2**70, "", "\ud800", "a" * 50, [], [[]], {}, {"a": {}}, [[1, 2], [3]], "x.npy"]
    text = json.dumps(rng.choice(good))
    match k % 5:
        case 0:
            return "".join(chr(rng.randrange(1, 0x2FF)) for _ in range(rng.randrange(40)))
        case 1:
            return text[: rng.randrange(len(text))]
        case 2:
            place = rng.randrange(len(text))
            return text[:place] + rng.choice('{}[]",:0Ne-') + text[place + 1 :]
        case 3:
            message = {"type": rng.choice(["set", "tokens", "play", "start", "nothing", 3])}
            keys = [
                "beta",
                "x",
                "speed",
                "log",
                "config",
                "attention",
                "norm",
                "noise",
                "tokens",
                "state",
                "t1",
                "depth",
            ]
            return json.dumps(message | {rng.choice(keys): rng.choice(odd) for _ in range(2)})
        case _:
            return "[" * rng.choice([5, 5000]) + json.dumps(rng.choice(odd))


def test_ten_thousand_wrong_messages_do_not_end_the_server(client, monkeypatch):
    monkeypatch.setattr(clients, "REST", 1e3)
    monkeypatch.setattr(clients.LiveRun, "next", lambda run: run.shot)  # messages are tried here, not the solver
    monkeypatch.setattr(clients.LiveRun, "ahead", lambda run: None)
    rng, web = random.Random(0), client(rate=1e9, burst=1e9)
    with connect(web) as page:
        tell(page, type="start", config=SMALL)
        for k in range(10_000):
            page.send_text(fuzzed(rng, k))
        page.send_bytes(b"\x00\xff")
        tell(page, type="pause")
        tell(page, type="nonsense", mark=12345)
        errors = 0
        while True:
            message = page.receive()
            if message.get("text") is None:
                continue
            found = json.loads(message["text"])
            if found["type"] == "error":
                errors += 1
                assert "\n" not in found["message"]
                assert len(found["message"]) < 700
                if "12345" in found["message"]:
                    break
        assert errors > 5000
        tell(page, type="start", config=SMALL)
        assert hear(page)["type"] == "info"
    assert web.get(f"/?token={TOKEN}").status_code == 200


def test_twenty_pages_leave_nothing_behind(client, monkeypatch):
    monkeypatch.setattr(clients, "REST", 1e3)
    web = client()
    before = threading.active_count()
    for _ in range(2):
        pages = [connect(web) for _ in range(20)]
        for page in pages:
            page.__enter__()
            tell(page, type="start", config=SMALL)
            tell(page, type="step")
        for page in pages:
            assert [type(hear(page)).__name__ for _ in range(3)] == ["dict", "Frame", "Frame"]
        assert len(web.app.app.state.clients) == 20
        for page in pages:
            page.__exit__(None, None, None)
        assert len(web.app.app.state.clients) == 0
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    gc.collect()
    assert threading.active_count() <= before
    from tokenfield.explorer.run import LiveRun

    assert not [each for each in gc.get_objects() if type(each) is LiveRun]


def test_a_port_in_use_is_left_for_the_next_one():
    with free_port(0) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == "127.0.0.1"
        with free_port(port) as second:
            assert port < second.getsockname()[1] < port + 20
    with pytest.raises(ValueError, match="--port must be a port from 0 to 65535, got 70000"):
        free_port(70000)


def test_messages_name_what_is_wrong():
    with pytest.raises(ValueError, match=r"message\.type must be one of start, play, pause, step, set, tokens, got"):
        parse("[1]")


def test_page_needs_one_script():
    with pytest.raises(ValueError, match=r"index\.html must have one script, of type module, got 0"):
        page_files.with_options("<p>", {})
    hostile = page_files.options_element({"config": "</script><script>alert(1)</script>"})
    assert hostile.count("<") == 2
    assert json.loads(hostile[hostile.index(">") + 1 : hostile.rindex("<")])["config"].startswith("</script>")
