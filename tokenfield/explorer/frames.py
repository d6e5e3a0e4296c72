"""Binary frames: one state of a run, as the page reads it.

Little-endian: the bytes "TKF1"; uint32 kind, n, d; float64 time, log_time_unit, energy, order; uint32 clusters, flags; then
float32 values; then float32 weights (n) if flags has bit 1, and int32 labels (n) if it has bit 2.
"""

import struct
from typing import NamedTuple

import numpy as np

MAGIC = b"TKF1"
HEADER = struct.Struct("<4sIIIddddII")
TOKENS, CIRCLE_DENSITY, GAUSSIAN, SPHERE_DENSITY = 0, 1, 2, 3
WEIGHTS, LABELS = 1, 2
NOT_MEASURED = 0xFFFFFFFF
"""Value of `clusters` if they were not counted."""


class Frame(NamedTuple):
    """One state of a run.

    Args:
        kind: TOKENS (values are x, n x d), CIRCLE_DENSITY (n values at equally spaced angles from 0, d = 1), GAUSSIAN (the
            mean, then the rows of the covariance; n = 1) or SPHERE_DENSITY (n x d points, with the density as weights).
        n, d: number of tokens, or of values of a density; dimension.
        values: float32, flat.
        time: time in units of `exp(log_time_unit)`.
        energy: normalized energy; NaN if there is none.
        order: order parameter; NaN if there is none.
        clusters: number of clusters and single tokens, or NOT_MEASURED.
        weights, labels: (n,) weight and cluster of each token; None if all weights are equal, or clusters were not computed.
    """

    kind: int
    n: int
    d: int
    values: np.ndarray
    time: float
    log_time_unit: float = 0.0
    energy: float = float("nan")
    order: float = float("nan")
    clusters: int = NOT_MEASURED
    weights: np.ndarray | None = None
    labels: np.ndarray | None = None


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame.

    Example:
        >>> import numpy as np
        >>> from tokenfield.explorer.frames import Frame, encode
        >>> len(encode(Frame(0, 2, 2, np.eye(2).ravel(), time=0.0)))
        72
    """
    flags = (WEIGHTS if frame.weights is not None else 0) | (LABELS if frame.labels is not None else 0)
    numbers = frame.time, frame.log_time_unit, frame.energy, frame.order
    parts = [HEADER.pack(MAGIC, frame.kind, frame.n, frame.d, *numbers, frame.clusters, flags)]
    parts.append(np.ascontiguousarray(frame.values, "<f4").tobytes())
    if frame.weights is not None:
        parts.append(np.ascontiguousarray(frame.weights, "<f4").tobytes())
    if frame.labels is not None:
        parts.append(np.ascontiguousarray(frame.labels, "<i4").tobytes())
    return b"".join(parts)


def decode(data: bytes) -> list[Frame]:
    """Return the frames in a sequence of bytes; raise ValueError if it contains anything else."""
    frames, place = [], 0
    while place < len(data):
        if len(data) - place < HEADER.size:
            raise ValueError(f"frames: {len(data) - place} bytes at {place} are too few for a frame")
        magic, kind, n, d, time, unit, energy, order, clusters, flags = HEADER.unpack_from(data, place)
        if (
            magic != MAGIC
            or kind not in (TOKENS, CIRCLE_DENSITY, GAUSSIAN, SPHERE_DENSITY)
            or flags > (WEIGHTS | LABELS)
        ):
            raise ValueError(f"frames: no frame begins at byte {place}")
        place += HEADER.size
        size = d + d * d if kind == GAUSSIAN else n * d
        arrays = []
        for present, count, kind_of in ((1, size, "<f4"), (flags & WEIGHTS, n, "<f4"), (flags & LABELS, n, "<i4")):
            if present and len(data) - place < 4 * count:
                raise ValueError(f"frames: {len(data) - place} bytes at {place} are too few for {count} numbers")
            arrays.append(np.frombuffer(data, kind_of, count, place) if present else None)
            place += 4 * count if present else 0
        values, weights, labels = arrays
        frames.append(Frame(kind, n, d, values, time, unit, energy, order, clusters, weights, labels))  # type: ignore[arg-type]
    return frames
