"""The server of `tokenfield explore`: the page, a replay, and a websocket to the engine. It listens on this machine only."""

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from .client import Client
from .guard import HEADERS, Allowance, Guard, hosts, same_token
from .messages import LARGEST, Gone
from .page_files import page_files, with_options

if TYPE_CHECKING:  # starlette is in the extra `explore`
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

MOST_CLIENTS = 32
RATE, BURST = 120.0, 240.0  # messages per second on average, and at once
TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
}
TOO_MANY, TOO_LARGE, POLICY = 1013, 1009, 1008  # websocket close codes


def application(
    port: int,
    token: str,
    *,
    replay: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    rate: float = RATE,
    burst: float = BURST,
) -> Any:
    """Return the ASGI application.

    Args:
        port: the port on which it is served; requests must name it.
        token: the token that the address of the page must contain.
        replay: a run to replay, from `replay_data`; None for the live engine.
        config: the run to begin with; the page's own by default.
        rate, burst: messages that a page may send, per second on average and at once.
    """
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route, WebSocketRoute

    files = page_files()
    options: dict[str, Any] = (
        {"mode": "live"} if replay is None else {"mode": "replay", "replayUrl": f"/replay?token={token}"}
    )
    if config is not None:
        options["config"] = config
    index = with_options(files["index.html"].decode(), options).encode()
    replayed = None if replay is None else json.dumps(replay).encode()
    clients: set[Client] = set()

    async def page(request: "Request") -> "Response":
        if not same_token(request.query_params.get("token"), token):
            message = "forbidden: the address needs the token that `tokenfield explore` printed\n"
            return PlainTextResponse(message, 403, HEADERS)
        return Response(index, 200, HEADERS, "text/html; charset=utf-8")

    async def replay_file(request: "Request") -> "Response":
        if replayed is None:
            return PlainTextResponse("not found\n", 404, HEADERS)
        if not same_token(request.query_params.get("token"), token):
            return PlainTextResponse("forbidden\n", 403, HEADERS)
        return Response(replayed, 200, HEADERS, "application/json")

    async def file(request: "Request") -> "Response":
        name = request.path_params["name"]
        kind = TYPES.get(name.rpartition(".")[2])
        if name not in files or kind is None or name == "index.html":  # a lookup in a table: paths are never joined
            return PlainTextResponse("not found\n", 404, HEADERS)
        return Response(files[name], 200, HEADERS, kind)

    async def socket(websocket: "WebSocket") -> None:
        if replay is not None or not same_token(websocket.query_params.get("token"), token):
            await websocket.close(POLICY)
            return
        await websocket.accept()
        if len(clients) >= MOST_CLIENTS:
            await websocket.send_text(
                json.dumps({"type": "error", "message": f"at most {MOST_CLIENTS} pages at a time"})
            )
            await websocket.close(TOO_MANY)
            return
        client = Client(_sender(websocket.send_text), _sender(websocket.send_bytes), config)
        clients.add(client)
        player = asyncio.create_task(client.play())
        try:
            await _listen(websocket, client, Allowance(rate, burst))
        finally:
            clients.discard(client)
            player.cancel()
            client.close()
            with contextlib.suppress(asyncio.CancelledError, Gone):
                await player

    routes = [
        Route("/", page),
        Route("/replay", replay_file),
        WebSocketRoute("/ws", socket),
        Route("/{name:path}", file),
    ]
    app = Starlette(routes=routes)
    app.state.clients = clients
    return Guard(app, hosts(port))


def _sender(send: Any) -> Any:
    """Return a function that sends, and raises Gone if the page has disconnected."""
    from starlette.websockets import WebSocketDisconnect

    async def sender(data: Any) -> None:
        try:
            await send(data)
        except (WebSocketDisconnect, RuntimeError, OSError):
            raise Gone from None

    return sender


async def _listen(websocket: "WebSocket", client: Client, allowance: Allowance) -> None:
    """Pass messages to a client until the page disconnects or exceeds the limits."""
    from starlette.websockets import WebSocketDisconnect

    with contextlib.suppress(WebSocketDisconnect, Gone):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text, data = message.get("text"), message.get("bytes")
            if not allowance.take():
                await _refuse(websocket, "too many messages: the page sends more than the server allows", POLICY)
                return
            if len(text or data or "") > LARGEST:
                await _refuse(websocket, f"message: at most {LARGEST} characters", TOO_LARGE)
                return
            await client.handle("" if text is None else text)


async def _refuse(websocket: "WebSocket", message: str, code: int) -> None:
    await websocket.send_text(json.dumps({"type": "error", "message": message}))
    await websocket.close(code)
