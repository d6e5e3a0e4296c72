"""Access control: only pages of this machine, with the token of the server."""

import hmac
import time
from collections.abc import Collection
from typing import Any

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self' blob:; worker-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src blob:; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every response. The address contains the token, so it must not be sent elsewhere."""


def hosts(port: int) -> frozenset[str]:
    """Return the host names of the server for browsers on this machine. Any other name is a DNS rebinding attack."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))


def same_token(given: str | None, token: str) -> bool:
    """Compare tokens in constant time."""
    return hmac.compare_digest((given or "").encode("utf-8", "replace"), token.encode())


class Guard:
    """Answer 403 to requests with a wrong Host header or from pages of another origin."""

    def __init__(self, app: Any, allowed: Collection[str]):
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or self._permitted(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # "websocket.connect"; closing before accepting answers 403
            await send({"type": "websocket.close", "code": 1008})
        else:
            body = b"forbidden: open the address that `tokenfield explore` printed\n"
            headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _permitted(self, scope: Any) -> bool:
        found = {b"host": [], b"origin": []}  # type: dict[bytes, list[str]]
        for name, value in scope["headers"]:
            if name in found:
                found[name].append(value.decode("latin-1"))
        if len(found[b"host"]) != 1 or found[b"host"][0] not in self.allowed:
            return False
        own = [f"http://{found[b'host'][0]}"]
        return found[b"origin"] == own or (
            not found[b"origin"] and scope["type"] == "http"
        )  # a websocket always has one


class Allowance:
    """Rate limit for messages: `rate` per second on average, at most `burst` at once.

    Example:
        >>> from tokenfield.explorer.guard import Allowance
        >>> allowance = Allowance(rate=1.0, burst=2)
        >>> [allowance.take(at=0.0) for _ in range(3)], allowance.take(at=1.0)
        ([True, True, False], True)
    """

    def __init__(self, rate: float, burst: float):
        self.rate, self.burst = rate, burst
        self.left, self.before = burst, 0.0

    def take(self, at: float | None = None) -> bool:
        """Return True if one more message is within the limit at a time in seconds (now by default)."""
        now = time.monotonic() if at is None else at
        self.left = min(self.burst, self.left + (now - self.before) * self.rate)
        self.before = now
        if self.left < 1:
            return False
        self.left -= 1
        return True
