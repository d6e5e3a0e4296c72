"""Start the server of the page."""

import contextlib
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Any

from .extra import SERVER, require

HOST = "127.0.0.1"
PAGE_START = {"attention": {"beta": 9.0}, "tokens": {"n": 256, "d": 3}}  # the page's own default start
PORTS = 20  # number of ports to try, starting at the requested one


def free_port(port: int, host: str = HOST) -> socket.socket:
    """Return a socket that listens on a port, or on one of the next ones if it is in use. Only this machine can reach it."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be a port from 0 to 65535, got {port}")
    for candidate in range(port, min(port + PORTS, 65536)):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.bind((host, candidate))
            listening.listen(128)
        except OSError:
            listening.close()
            continue
        return listening
    raise ValueError(f"--port: {port} and the {PORTS - 1} ports after it are in use: give another one")


def _compile(config: dict[str, Any]) -> None:
    """Run a little of the run that the page begins with, so that its programs are compiled before the page requests it."""
    from .run import LiveRun

    with contextlib.suppress(Exception):  # the page gets the error when it requests the run
        run = LiveRun(config)
        run.next()
        run.frame()
        run.close()


def settings(app: Any) -> Any:
    """Return the settings of the server, a `uvicorn.Config`."""
    import uvicorn

    from .messages import LARGEST

    return uvicorn.Config(
        app,
        log_config=None,  # uvicorn's default would close the log handlers of this process, and their streams
        log_level="warning",
        access_log=False,  # addresses contain the token
        ws="websockets-sansio",
        ws_max_size=LARGEST,
        ws_max_queue=64,
        ws_ping_timeout=120.0,  # on a busy machine a page may respond late
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )


def serve(
    port: int = 8765,
    *,
    replay: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        port: the port; if it is in use, the next free one.
        replay: a run to replay, from `replay_data`; None for the live engine.
        config: the run to begin with.
        browser: open the page in a browser.
        say: function that prints the address.
    """
    require(*SERVER)
    import uvicorn

    from .server import application

    with free_port(port) as listening:
        found = listening.getsockname()[1]
        if port and found != port:
            say(f"port {port} is in use: using {found}")
        token = secrets.token_urlsafe(24)
        app = application(found, token, replay=replay, config=config)
        address = f"http://{HOST}:{found}/?token={token}"
        say(f"open {address}  (Ctrl-C stops)")
        if replay is None:
            threading.Thread(target=_compile, args=(config or PAGE_START,), daemon=True).start()
        if browser:
            webbrowser.open(address)
        uvicorn.Server(settings(app)).run(sockets=[listening])
