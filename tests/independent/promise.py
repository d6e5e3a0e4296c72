"""What every run promises: finite states, lengths that the norm fixes, an end at t1 or an event there that says why not."""

import numpy as np

ENDINGS = ("blow_up", "vanished", "resolution")


def ending(run, t1, name):
    """The kind of event that ended a run, or "end"; fails if the run breaks a promise that needs no reference."""
    times = np.asarray(run.times)
    assert np.isfinite(times).all(), name
    assert (np.diff(times) >= 0).all(), name
    for key, values in run.dataset.data_vars.items():
        assert np.isfinite(values.values).all(), f"{name}: {key} is not finite"
    last = [event for event in run.events if event.kind in ENDINGS]
    assert len(last) <= 1, f"{name}: {run.events}"
    if not last:
        assert times[-1] == t1, f"{name}: ends at {times[-1]} without an event"
        return "end"
    assert 0 <= last[0].time <= t1, f"{name}: {run.events}"
    assert times[-1] <= last[0].time * (1 + 1e-12), f"{name}: {run.events}, last state at {times[-1]}"
    return last[0].kind


def on_sphere(x, radius, name):
    """All tokens have the length `radius`."""
    sizes = np.linalg.norm(np.asarray(x), axis=-1)
    assert np.abs(sizes / radius - 1).max() < 1e-9, f"{name}: lengths {sizes}"


def refusal(error, name):
    """An error that refuses a run is one line."""
    text = str(error)
    assert text, name
    assert "\n" not in text.strip(), f"{name}: {text}"
