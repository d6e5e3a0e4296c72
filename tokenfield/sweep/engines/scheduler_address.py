"""Check the address of a Dask scheduler: its form, and whether a scheduler answers within a deadline."""

import contextlib
import queue
import re
import socket
import ssl
import threading

from ..._shown import shown

DEADLINE = 10.0  # seconds for name resolution, connection and greeting together
ADDRESS = re.compile(r"(?:(tcp|tls)://)?(\[[0-9a-fA-F:.%]+\]|[\w.-]+):(\d{1,5})", re.ASCII)
LARGEST_GREETING = 1 << 20  # bytes; a scheduler's is a few hundred


def split_address(address: str) -> tuple[str, str, int]:
    """Return protocol, host and port of an address such as tcp://127.0.0.1:8786; raise a ValueError for another form."""
    found = ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not 0 < int(found[3]) < 65536:
        raise ValueError(
            f"--scheduler must be an address such as tcp://127.0.0.1:8786 (tcp, tls or none, host, port), got {shown(address)}"
        )
    return found[1] or "tcp", found[2].strip("[]"), int(found[3])


def require_scheduler(address: str) -> None:
    """Raise a ValueError unless a Dask scheduler answers at an address within 10 s.

    A scheduler sends first: the length of its greeting, then the greeting. A program that sends nothing, closes the connection
    or sends something else (a web server) is not a scheduler. Dask's own client would wait forever for a program that sends
    nothing, and would read the text of a web server as a length.
    """
    protocol, host, port = split_address(address)
    answers: queue.Queue[str | None] = queue.Queue()
    thread = threading.Thread(target=lambda: answers.put(_problem(protocol, host, port)), daemon=True)
    thread.start()  # a name may take longer to resolve than any timeout of a socket
    try:
        problem = answers.get(timeout=DEADLINE)
    except queue.Empty:
        problem = f"no answer came within {DEADLINE:g} s"
    if problem is not None:
        raise ValueError(f"--scheduler: no Dask scheduler answers at {address}: {problem}")


def _problem(protocol: str, host: str, port: int) -> str | None:
    """Return what is wrong with the address, or None."""
    try:
        with contextlib.closing(socket.create_connection((host, port), timeout=DEADLINE)) as plain:
            if protocol == "tls":
                return _tls_problem(plain, host)
            greeting = b""
            while len(greeting) < 8 and (part := plain.recv(8 - len(greeting))):
                greeting += part
    except TimeoutError:
        return f"no answer came within {DEADLINE:g} s"
    except OSError as error:
        return error.strerror or str(error)
    if len(greeting) == 8 and 0 < int.from_bytes(greeting, "little") <= LARGEST_GREETING:
        return None
    return "another program answers there, which is not Dask"


def _tls_problem(plain: socket.socket, host: str) -> str | None:
    """Return what is wrong with TLS, or None. Dask's client checks certificates later; here it is enough that TLS is used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLError as error:
        return None if "CERTIFICATE" in (error.reason or "") else "it does not speak TLS"
    return None
