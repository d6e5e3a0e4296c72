"""A live run: successive states, computed slightly ahead by `simulate`.

The run is split into windows. Each window is one call of `simulate` from the last state of the previous window, so every
model, state, reduction and method of `simulate` can be shown live. Three cases are computed as a whole: layers, rules that
change with time, and long waits of clusters (method "coarsen", whose times are logarithms).
"""

import math
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.interpreters import partial_eval

from .._shown import shown
from ..driver import layers, simulate
from ..flows import is_random, segments
from ..flows.coarse import coarse_obstacle
from ..results import Trajectory
from ..states import Tokens
from .drawn import MOST_PAIRS, Measured, frame_of, measure
from .frames import NOT_MEASURED, Frame
from .setup import Setup, patched, set_up

FRAMES = 16  # per window
RATE = 30.0  # frames per second
SLOW_RATE = 10.0  # the same for many tokens, when a frame is about a megabyte
MANY = 10_000
SMALLEST_START = 0.01  # time at which log time begins
UNTIL = 20.0  # end of a run that is computed as a whole and has no t1
WHOLE = 301  # number of states of such a run
_ROOM = threading.Semaphore(4)  # windows computed at the same time, for all pages
QUICKEST, SLOWEST = 1 / 60, 0.5  # seconds between frames


class Shot(NamedTuple):
    """A state with its time, in units of `exp(log_time_unit)`. `end`: why the run ends here, or None if it goes on."""

    state: Any
    time: float
    log_time_unit: float
    end: str | None = None

    @property
    def log_time(self) -> float:
        return math.log(self.time) + self.log_time_unit if self.time > 0 else -math.inf


class Pace(NamedTuple):
    """How fast a run is shown: units of time, or powers of ten of time, per second."""

    speed: float = 1.0
    log: bool = False


class LiveRun:
    """A run that is shown while it is computed. Its methods block; one thread at a time may call them.

    Args:
        data: a config of the page; see `set_up`.
    """

    def __init__(self, data: dict[str, Any]):
        self._executor, self._closed = ThreadPoolExecutor(1, "tokenfield-run"), threading.Event()
        self.setup = set_up(data)
        self.pace = Pace()
        self.interval = 1 / RATE
        """Seconds between the previous frame and this one."""
        self.waits = False
        """True if long waits can be skipped in log time."""
        self._windows, self._changes = 0, False
        self._structure: Any = None
        self._ahead: deque[Shot] = deque()
        self._next: Future[list[Shot]] | None = None
        self._begin(Shot(self.setup.state, 0.0, 0.0))

    def _begin(self, shot: Shot) -> None:
        """Continue from a state and discard everything computed ahead."""
        setup, structure = self.setup, jax.tree.structure((self.setup.model, self.setup.state))
        self.shot = shot
        self._drop()
        self._last_measured: Measured | None = None
        if self._structure is None or structure != self._structure:
            self._changes = setup.config.depth is None and changes_with_time(setup.model, setup.state)
            self._structure = structure
        self.waits = isinstance(setup.state, Tokens) and coarse_obstacle(setup.model) is None

    def ahead(self) -> "Future[list[Shot]] | None":
        """Return the computation that `next` has to wait for, or None if it does not have to wait."""
        if self._ahead or self.shot.end is not None:
            return None
        if self._next is None:
            self._next = self._submit(self.shot)
        return self._next

    def set_pace(self, pace: Pace) -> None:
        """Change the speed, starting from the state that is shown."""
        if pace != self.pace:
            self.pace = pace
            self._drop()

    def set(self, patch: dict[str, Any]) -> None:
        """Change the model and keep the tokens, unless the patch has new ones. If this raises an error, nothing has changed."""
        data = patched(self.setup.data, patch)
        moved = "tokens" in patch or "state" in patch
        restart = moved or self._changes or self.setup.config.depth is not None
        setup = set_up(data, None if restart else self.shot.state)
        segments(setup.state, setup.model)  # raises for a state without a flow under this model
        self.setup = setup
        self._begin(Shot(setup.state, 0.0, 0.0) if restart else self.shot)

    def place(self, x: Any) -> None:
        """Set the tokens to points x, after one was added, moved or removed by hand. Time continues; weights become equal."""
        if not isinstance(x, list):
            raise ValueError(f"x must be a list of points, got {shown(x)}")
        setup = set_up({key: value for key, value in self.setup.data.items() if key != "state"} | {"tokens": {"x": x}})
        segments(setup.state, setup.model)
        self.setup = setup
        self._begin(self.shot._replace(state=setup.state, end=None))

    def next(self) -> Shot:
        """Advance by one frame."""
        if (window := self.ahead()) is not None:
            found = window.result()
            self._next = None
            self._ahead.extend(found)
        if self.shot.end is not None:
            return self.shot
        before, self.shot = self.shot, self._ahead.popleft()
        last = self._ahead[-1] if self._ahead else self.shot
        if self._next is None and last.end is None and len(self._ahead) < FRAMES:
            self._next = self._submit(last)
        self.interval = self._interval(before, self.shot)
        return self.shot

    def _interval(self, before: Shot, shot: Shot) -> float:
        """Return the seconds between two states at the current pace."""
        passed = (shot.log_time - before.log_time) / math.log(10) if self.pace.log else shot.time - before.time
        wanted = passed / self.pace.speed if math.isfinite(passed) else 1 / RATE
        quickest = 1 / SLOW_RATE if getattr(shot.state, "n", 0) > MANY else QUICKEST
        return min(max(wanted, quickest), SLOWEST)

    def frame(self) -> Frame:
        """Return the current state as a frame. With more than 128 tokens, clusters are counted once per window."""
        shot = self.shot
        few = getattr(shot.state, "n", 0) <= 128
        count = few or self._last_measured is None or len(self._ahead) % FRAMES == 0
        found = measure(shot.state, self.setup.model, count)
        before = self._last_measured
        if found.clusters == NOT_MEASURED and before is not None and getattr(shot.state, "n", 0) <= MOST_PAIRS:
            found = found._replace(clusters=before.clusters, labels=before.labels)
        self._last_measured = found
        return frame_of(shot.state, shot.time, shot.log_time_unit, found)

    def close(self) -> None:
        """Discard what was computed ahead; a window in progress is finished in its thread and discarded."""
        self._closed.set()
        self._drop()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _drop(self) -> None:
        self._ahead.clear()
        if self._next is not None:
            self._next.cancel()
        self._next = None

    def _submit(self, shot: Shot) -> "Future[list[Shot]]":
        self._windows += 1
        return self._executor.submit(
            self._compute, self.setup, shot, self.pace, self._windows, self._changes, self.waits
        )

    def _compute(self, setup: Setup, shot: Shot, *options: Any) -> list[Shot]:
        """Compute a window when a slot is free, unless it is no longer needed."""
        with _ROOM:
            return [shot] if self._closed.is_set() else _window(setup, shot, *options)


def _window(setup: Setup, shot: Shot, pace: Pace, number: int, changes: bool, waits: bool) -> list[Shot]:
    if setup.config.depth is not None:
        return _from(shot, _layers(setup), "depth")
    if changes:
        return _from(shot, _whole(setup), "t1")
    if pace.log and waits and setup.config.t1 is None:
        return _later(shot, _waits(setup, shot.state))
    return _short(setup, shot, pace, number)


def _short(setup: Setup, shot: Shot, pace: Pace, number: int) -> list[Shot]:
    """Return the next `FRAMES` states, evenly spaced in time or in log time."""
    now, span = shot.time, FRAMES / RATE * pace.speed
    if pace.log:
        times = max(now, SMALLEST_START) * np.expm1(np.log(10) * np.linspace(0, min(span, 20.0), FRAMES + 1))
    else:
        times = np.linspace(0, span, FRAMES + 1)
    ends = setup.config.t1 is not None and now + times[-1] >= setup.config.t1
    if ends:
        times *= (setup.config.t1 - now) / times[-1]  # type: ignore[operator]
    traj = simulate(setup.model, shot.state, float(times[-1]), save_at=times, **_options(setup, shot.state, number))
    unit = traj.log_time_unit
    before = now * math.exp(shot.log_time_unit - unit) if now > 0 else 0.0
    shots = [Shot(traj.state(k), before + float(t), unit) for k, t in enumerate(traj.times)][1:]
    stop = _stop(traj) or ("t1" if ends else None)
    shots[-1] = shots[-1]._replace(end=stop)
    return shots


def _options(setup: Setup, state: Any, number: int) -> dict[str, Any]:
    config = setup.config
    own: dict[str, Any]
    if is_random(state, setup.model):
        own = {"seed": (config.noise.seed if config.noise else 0) + number - 1}
    else:
        own = {"rtol": config.rtol, "atol": config.atol}
    return {**own, "dt": config.dt, "method": config.method, "progress": False}


def _layers(setup: Setup) -> Trajectory:
    return layers(setup.model, setup.state, setup.config.depth, setup.config.step, progress=False)


def _whole(setup: Setup) -> Trajectory:
    t1 = setup.config.t1 or UNTIL
    return simulate(setup.model, setup.state, t1, save_at=WHOLE, **_options(setup, setup.state, 1))


def _waits(setup: Setup, state: Tokens) -> Trajectory:
    return simulate(setup.model, state, math.inf, method="coarsen", progress=False)


def _from(shot: Shot, traj: Trajectory, reason: str) -> list[Shot]:
    """Return the states of a whole run that come after a shot."""
    unit, after = traj.log_time_unit, shot.time
    shots = [Shot(traj.state(k), float(t), unit) for k, t in enumerate(traj.times) if t > after]
    shots = shots or [shot]
    shots[-1] = shots[-1]._replace(end=_stop(traj) or reason)
    return shots


def _later(shot: Shot, traj: Trajectory) -> list[Shot]:
    """Return the states of a run in log time that began at a shot. Each has time 1, in its own unit of time."""
    logs = np.logaddexp(shot.log_time, traj.log_times)
    shots = [
        Shot(traj.state(k), 1.0, float(value)) if value > 600 else Shot(traj.state(k), math.exp(value), 0.0)
        for k, value in enumerate(logs)
        if value > shot.log_time and np.isfinite(value)
    ]
    shots = shots or [shot]
    shots[-1] = shots[-1]._replace(end=_stop(traj) or "one cluster")
    return shots


def _stop(traj: Trajectory) -> str | None:
    """Return why a run ended early."""
    ends = [event for event in traj.events if event.kind != "merge"]
    return (
        None if not ends else ": ".join(filter(None, [ends[-1].kind.replace("_", " "), ends[-1].detail.get("message")]))
    )


def changes_with_time(model: Any, state: Any) -> bool:
    """Return True if the velocity of a state depends on time itself, as under Mix-LN."""
    parts = segments(state, model)
    if len(parts) > 1:
        return True
    flow = parts[0].flow
    traced = jax.make_jaxpr(flow.velocity)(0.0, flow.pack(state)).jaxpr
    return partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))[1][0]
