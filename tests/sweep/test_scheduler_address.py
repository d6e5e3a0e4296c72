"""`--scheduler`: what is not a Dask scheduler is said in one line, soon, and before anything is written."""

import http.server
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

import tokenfield as tkf
from tokenfield.sweep.engines import scheduler_address
from tokenfield.sweep.engines.scheduler_address import require_scheduler, split_address

PLAN = {"run": {"t1": 0.1, "tokens": {"n": 4, "d": 3}}, "axes": {"beta": [1.0]}, "record": {"r": "mean_cosine"}}


@contextmanager
def listening(answer=None):
    """A port that accepts connections, says `answer` (b"" closes at once, None nothing) and waits."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        held = []

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                if answer == b"":
                    connection.close()
                    continue
                if answer:
                    connection.sendall(answer)
                held.append(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        for connection in held:
            connection.close()


@contextmanager
def web_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def closed_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(scheduler_address, "DEADLINE", 0.4)


def refused(address, tmp_path, message):
    pytest.importorskip("distributed")
    start = time.monotonic()
    with pytest.raises(ValueError, match=message) as error:
        tkf.sweep(PLAN, tmp_path / "out", scheduler=address)
    assert time.monotonic() - start < 5
    assert len(str(error.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("protocol", ["", "tcp://", "tls://"])
def test_a_silent_port_is_left_after_the_deadline(tmp_path, protocol):
    with listening() as address:
        refused(protocol + address, tmp_path, "no Dask scheduler answers at .*: no answer came within 0.4 s")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", bytes(8)])
def test_what_speaks_otherwise_is_told_apart(tmp_path, answer):
    with listening(answer) as address:
        refused(f"tcp://{address}", tmp_path, "another program answers there")
        refused(f"tls://{address}", tmp_path, "does not speak TLS|no answer|reset|closed|EOF")


def test_a_web_server_is_none(tmp_path):
    with web_server() as address:
        refused(f"tcp://{address}", tmp_path, "no Dask scheduler answers at")


def test_a_closed_port(tmp_path):
    refused(f"tcp://{closed_port()}", tmp_path, "no Dask scheduler answers at .*: Connection refused")


def test_a_name_that_is_not_known(tmp_path):
    refused(
        "tcp://no-such-host.invalid:8786", tmp_path, "no Dask scheduler answers at tcp://no-such-host.invalid:8786: "
    )


@pytest.mark.parametrize(
    "address",
    ["", "x", "tcp://", "tcp://x", "tcp://:8786", "tcp://x:", "tcp://x:0", "tcp://x:99999", "tcp://x:-1",
     "x:1:2", "foo://x:1", "inproc://1",
     "http://127.0.0.1:8786", "tcp://127.0.0.1:8786/", "tcp://a b:1", "tcp://x:1\n",
     "tcp://::1:8786", "tcp://x:١", "x" * 5000, None, 8786],
)  # fmt: skip
def test_malformed_addresses_are_refused_at_once(tmp_path, address):
    if address is not None:
        refused(address, tmp_path, "--scheduler must be an address such as tcp://127.0.0.1:8786")
    with pytest.raises(ValueError, match="must be an address"):
        split_address(address)


def test_addresses_are_taken_apart():
    assert split_address("127.0.0.1:8786") == ("tcp", "127.0.0.1", 8786)
    assert split_address("tls://node-7.cluster:1") == ("tls", "node-7.cluster", 1)
    assert split_address("tcp://[::1]:8786") == ("tcp", "::1", 8786)


def test_a_scheduler_answers():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 0, "host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options, processes=False, protocol="tcp") as cluster:
        scheduler_address.DEADLINE = 10.0
        require_scheduler(cluster.scheduler_address)
