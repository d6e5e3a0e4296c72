"""One connected page: receives its messages, sends frames."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._shown import LONGEST_MESSAGE, cut
from ..theory.prediction import predict
from . import messages
from .frames import encode
from .names import kernel_names, norm_names
from .run import LiveRun
from .setup import Setup, as_toml, patched, refuse_names

_THEORY = ThreadPoolExecutor(1, "tokenfield-theory")
"""One thread for all pages: predictions are slow Python code, and many at once would block the server."""
REST = 0.4  # seconds without a change before predictions are computed


class Client:
    """The run of one websocket. `send_text` and `send_bytes` send to that websocket.

    `own` is the config that the server was started with. It may name files and modules; messages of the page may not.

    Messages are handled one after another. A separate task sends frames while the run plays.
    """

    def __init__(
        self,
        send_text: Callable[[str], Awaitable[None]],
        send_bytes: Callable[[bytes], Awaitable[None]],
        own: dict[str, Any] | None = None,
    ):
        self._send_text, self._send_bytes, self._own = send_text, send_bytes, own
        self._run: LiveRun | None = None
        self._playing, self._changed = asyncio.Event(), asyncio.Event()
        self._lock = asyncio.Lock()
        self._thread, self._slow = (
            ThreadPoolExecutor(1, "tokenfield-client"),
            ThreadPoolExecutor(1, "tokenfield-theory"),
        )
        self._predicting: asyncio.Task[None] | None = None

    async def handle(self, text: str) -> None:
        """Handle one message. If it is invalid, send a one-line error back and leave the run unchanged."""
        try:
            message = messages.parse(text)
            await getattr(self, f"_on_{message['type']}")(message)
        except (messages.Gone, asyncio.CancelledError):
            raise
        except Exception as error:
            await self._send_message(type="error", message=_one_line(error))

    async def play(self) -> None:
        """Send frames while the run plays; never returns."""
        while True:
            await self._playing.wait()
            try:
                await self._advance()
            except (messages.Gone, asyncio.CancelledError):
                raise
            except Exception as error:
                self._playing.clear()
                await self._send_message(type="error", message=_one_line(error))

    def close(self) -> None:
        """Stop all computations of this page."""
        if self._run is not None:
            self._run.close()
        self._run = None
        if self._predicting is not None:
            self._predicting.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _on_start(self, message: dict[str, Any]) -> None:
        config = self._config(message)
        async with self._lock:
            run = await self._in_thread(LiveRun, config)
            old, self._run = self._run, run
            if old is not None:
                run.set_pace(old.pace)
                old.close()
            self._changed.set()
            await self._show(run)

    async def _on_play(self, message: dict[str, Any]) -> None:
        run = self._started()
        pace = messages.pace(message, run.pace)
        async with self._lock:
            run.set_pace(pace)
        self._changed.set()
        self._playing.set()

    async def _on_pause(self, message: dict[str, Any]) -> None:
        self._playing.clear()
        self._changed.set()

    async def _on_step(self, message: dict[str, Any]) -> None:
        self._started()
        self._playing.clear()
        self._changed.set()
        await self._advance(wait=False)

    async def _on_set(self, message: dict[str, Any]) -> None:
        run, patch = self._started(), {key: value for key, value in message.items() if key != "type"}
        async with self._lock:
            refuse_names(patch)
            await self._in_thread(run.set, patch)
            self._changed.set()
            await self._show(run)

    async def _on_tokens(self, message: dict[str, Any]) -> None:
        run = self._started()
        async with self._lock:
            refuse_names(message.get("x"), "x")
            await self._in_thread(run.place, message.get("x"))
            self._changed.set()
            await self._show(run)

    def _config(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the config of a message "start": its own, or that of the server with the changes of the message."""
        if "config" in message:
            config = messages.table(message, "config")
            refuse_names(config)
            return config
        if self._own is None:
            raise ValueError("config must be a table: the server was started without a run file")
        changes = messages.table(message, "changes")
        refuse_names(changes)
        return patched(self._own, changes)

    def _started(self) -> LiveRun:
        if self._run is None:
            raise ValueError('there is no run yet: send {"type": "start", "config": {…}} first')
        return self._run

    async def _advance(self, wait: bool = True) -> None:
        """Send the next frame and wait while it is shown. Messages are still handled and may change the run."""
        while (window := self._started().ahead()) is not None and not window.done():
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            computed = asyncio.ensure_future(asyncio.wait([asyncio.wrap_future(window)]))
            try:
                await asyncio.wait([changed, computed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                computed.cancel()
            if wait and not self._playing.is_set():
                return
        async with self._lock:
            run = self._started()
            if (window := run.ahead()) is not None and not window.done():
                return  # the run has changed in the meantime
            ended = run.shot.end is not None
            frame = await self._in_thread(_next_frame, run)
            await self._send_bytes(frame)
            reason, interval = run.shot.end, run.interval
        if reason is not None:
            self._playing.clear()
            await self._send_message(type="end", reason=reason)
        elif wait and not ended:
            await asyncio.sleep(interval)

    async def _show(self, run: LiveRun) -> None:
        """Send the description of a run and its current frame; predictions of theory follow when they are computed."""
        await self._send_message(**_info(run))
        await self._send_bytes(await self._in_thread(lambda: encode(run.frame())))
        if self._predicting is not None:
            self._predicting.cancel()
        self._predicting = asyncio.create_task(self._predict(_info(run), run.setup, run.shot.state))

    async def _predict(self, info: dict[str, Any], setup: Setup, state: Any) -> None:
        """Send the predictions of theory, which take half a second, once the sliders are no longer moving."""
        with contextlib.suppress(messages.Gone):
            await asyncio.sleep(REST)
            rows = await asyncio.get_running_loop().run_in_executor(_THEORY, _theory, setup, state)
            await self._send_message(**info | {"theory": rows})

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def _send_message(self, **message: Any) -> None:
        await self._send_text(json.dumps(messages.finite(message)))


def _next_frame(run: LiveRun) -> bytes:
    run.next()
    return encode(run.frame())


def _info(run: LiveRun) -> dict[str, Any]:
    """Return the description of a run that is sent to the page."""
    setup, state = run.setup, run.shot.state
    return {
        "type": "info",
        "names": kernel_names(),
        "norms": norm_names(),
        "theory": [],
        "kind": type(state).__name__,
        "n": getattr(state, "n", None),
        "d": getattr(state, "d", None),
        "log": run.waits,
        "config": {key: value for key, value in setup.data.items() if key != "tokens" or "x" not in value},
        "toml": as_toml(setup),
    }


def _theory(setup: Setup, state: Any) -> list[dict[str, Any]]:
    """Return the predictions of theory for the model; empty if there are none for such a model."""
    config = setup.config
    beta = config.attention.get("beta")
    try:
        rows = predict(
            state.n,
            state.d,
            1.0 if beta is None else beta,
            setup.model.norm,  # type: ignore[arg-type]
            config.attention.kind,
            A=config.attention.get("A"),
            V=config.attention.get("V"),
            kappa=None if config.noise is None else config.noise.get("kappa"),
        )
    except (AttributeError, TypeError, ValueError, OverflowError):
        return []
    return [row._asdict() for row in rows]


def _one_line(error: Exception) -> str:
    text = cut(str(error), LONGEST_MESSAGE) or type(error).__name__
    return text if isinstance(error, ValueError) else f"{text} ({type(error).__name__})"
