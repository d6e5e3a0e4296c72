"""Merges of clusters: the time of each, and the events, in order of time."""

import math
from typing import Any, NamedTuple

import numpy as np


class Merge(NamedTuple):
    """A merge of two clusters into one.

    Args:
        log_time: log of the time at which the pair has completed the part `e^{-beta(1-rho)} = fraction` of its energy step.
        fraction: ½. For clusters that were never that far apart, halfway between 1 and the fraction when they were farthest
            apart; for clusters that coincide from the start, 1.
        tokens: the first token of each cluster.
        labels: the tokens of each cluster.
        masses: the masses of the two clusters.
        log_merged: log of the time at which they were replaced by one token.
    """

    log_time: float
    fraction: float
    tokens: tuple[int, int]
    labels: tuple[np.ndarray, np.ndarray]
    masses: tuple[float, float]
    log_merged: float

    @classmethod
    def restored(cls, data: Any) -> "Merge":
        """Return the merge from a checkpoint, where tuples have become lists."""
        log_time, fraction, tokens, labels, masses, log_merged = data
        return cls(log_time, fraction, tuple(tokens), tuple(labels), tuple(masses), log_merged)


def merge_errors(fine: list[Merge], rough: list[Merge], least: float) -> list[float]:
    """Return estimated relative errors of merge times: the difference from a run with looser tolerances.

    The error is infinite where the two runs disagree about which clusters merge.
    """
    errors = []
    for k, merge in enumerate(fine):
        other = rough[k] if k < len(rough) else None
        if other is None or set(other.tokens) != set(merge.tokens):
            errors.append(math.inf)
        elif merge.log_time == other.log_time:  # both may be at time 0
            errors.append(least)
        else:
            errors.append(abs(math.expm1(merge.log_time - other.log_time)) + least)
    return errors


def merge_events(
    merges: list[Merge], errors: list[float], weights: np.ndarray, base: float, shift: float
) -> list[dict]:
    """Return the merge events in order of time; no event comes before the merges that formed its clusters.

    Args:
        weights: the masses of the clusters before the first merge.
        base: logarithm of the unit of the log times.
        shift: logarithm of the unit of event times, relative to `base`.
    """
    made: dict[int, float] = {}
    timed = []
    for merge, error in zip(merges, errors, strict=True):
        log_time = max(merge.log_time, *(made.get(token, -math.inf) for token in merge.tokens))
        made[min(merge.tokens)] = log_time
        timed.append((merge._replace(log_time=log_time), error))
    timed.sort(key=lambda pair: pair[0].log_time)
    events, energy = [], math.fsum(weights**2)
    for merge, error in timed:
        after = energy + 2 * merge.masses[0] * merge.masses[1]
        events.append(_event(merge, error, energy, after, base, shift))
        energy = after
    return events


def _event(merge: Merge, error: float, before: float, after: float, base: float, shift: float) -> dict[str, Any]:
    tokens = sum(map(len, merge.labels))
    return {
        "kind": "merge",
        "time": math.exp(merge.log_time - shift) if merge.log_time > -math.inf else 0.0,
        "detail": {
            "log_time": merge.log_time + base,
            "relative_error": error,
            "energy_fraction": merge.fraction,
            "tokens": list(merge.tokens),
            "clusters": [group.tolist() for group in merge.labels] if tokens <= 64 else None,
            "sizes": [len(group) for group in merge.labels],
            "masses": list(merge.masses),
            "energy_before": before,
            "energy_after": after,
        },
    }
