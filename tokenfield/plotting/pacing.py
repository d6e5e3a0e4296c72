"""The times of the frames of an animation: evenly spaced in time, or in log time if tokens move early."""

import numpy as np

from .._check import one_of
from .frames import Frames

PACES = ("log", "linear")
EARLY = 0.1  # if half of the motion happens within this fraction of the time, frames are evenly spaced in log time
STILL = 0.01  # fraction of the motion that is skipped at the start in log time


def pace(frames: Frames, log_times: np.ndarray, time: str | None, count: int) -> tuple[Frames, np.ndarray, str]:
    """Return at most `count` frames, the logarithms of their times, and the pace: "log", "linear" or "saved".

    By default, states saved at uneven times are shown one after another ("saved"): they are dense when tokens move. For evenly
    spaced times, the pace is "log" if half of the motion is over within a tenth of the time, and otherwise "linear". On the
    sphere and in R^d, tokens are interpolated between saved states; in other spaces the nearest state is used.

    Args:
        frames: saved states.
        log_times: logarithms of their times, -inf at time 0.
        time: "log", "linear", or None to choose.
        count: number of frames.
    """
    if time is not None:
        one_of("time", time, PACES)
    elif _is_even(frames.times):
        time = "log" if _moves_early(frames) else "linear"
    else:
        chosen = np.unique(np.linspace(0, len(log_times) - 1, min(count, len(log_times))).round().astype(int))
        return frames.at(chosen), log_times[chosen], "saved"
    clock = log_times if time == "log" else frames.times
    known = np.flatnonzero(np.isfinite(clock))
    count = min(count, len(frames.times))
    if len(known) < 2 or count < 2 or clock[known[-1]] <= clock[known[0]]:
        return frames, log_times, time
    first = clock[known[0]]
    if time == "log":
        begun = np.flatnonzero(_motion(frames) <= STILL)[-1]
        first = min(max(first, clock[begun]), clock[known[-2]])
    goals = np.linspace(first, clock[known[-1]], count)
    left, share = _places(clock[known], goals, between=not frames.charted)
    left, right = known[left], known[np.minimum(left + 1, len(known) - 1)]
    if time == "log":  # the first frame is the start itself
        left[0] = right[0] = 0
    x = _between(frames.x, left, right, share)
    if frames.spherical:
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        x = np.where(length > 0, x / np.where(length > 0, length, 1), frames.x[left])
    unit = log_times[known[-1]] - np.log(frames.times[known[-1]])
    times = goals.copy() if time == "linear" else np.exp(goals - unit)
    logs = np.interp(goals, clock[known], log_times[known]) if time == "linear" else goals.copy()
    times[0], logs[0] = frames.times[left[0]], log_times[left[0]]
    made = frames._replace(times=times, x=x, tokens=x, weights=_between(frames.weights, left, right, share))
    return made, logs, time


def _is_even(times: np.ndarray) -> bool:
    gaps = np.diff(times)
    return bool(len(gaps) == 0 or np.ptp(gaps) <= 1e-6 * max(abs(gaps).max(), 1e-300))


def _moves_early(frames: Frames) -> bool:
    """Return True if half of the motion is over within a tenth of the time."""
    span = frames.times[-1] - frames.times[0]
    half = np.searchsorted(_motion(frames), 0.5)
    return bool(span > 0 and frames.times[min(half, len(frames.times) - 1)] - frames.times[0] < EARLY * span)


def _motion(frames: Frames) -> np.ndarray:
    """Return the fraction of the mean path length that tokens have traveled at each frame, from 0 to 1."""
    way = np.concatenate([[0.0], np.linalg.norm(np.diff(frames.x, axis=0), axis=-1).mean(axis=1).cumsum()])
    return way / way[-1] if way[-1] > 0 else np.linspace(0, 1, len(way))


def _places(clock: np.ndarray, goals: np.ndarray, between: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each goal, the index of the saved time before it and the fraction of the gap passed (0 or 1 if not `between`)."""
    left = (np.searchsorted(clock, goals, side="right") - 1).clip(0, len(clock) - 2)
    gap = clock[left + 1] - clock[left]
    share = np.clip((goals - clock[left]) / np.where(gap > 0, gap, 1), 0, 1)
    return left, share if between else share.round()


def _between(values: np.ndarray, left: np.ndarray, right: np.ndarray, share: np.ndarray) -> np.ndarray:
    part = share.reshape(-1, *[1] * (values.ndim - 1))
    return (1 - part) * values[left] + part * values[right]
