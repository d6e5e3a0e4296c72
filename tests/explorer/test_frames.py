"""Binary frames against a naive reading with struct, and what is drawn of each kind of state."""

import struct

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.explorer.drawn import drawn, frame_of, measure
from tokenfield.explorer.frames import (
    CIRCLE_DENSITY,
    GAUSSIAN,
    NOT_MEASURED,
    SPHERE_DENSITY,
    TOKENS,
    Frame,
    decode,
    encode,
)


def naive(data):
    """Read one frame number by number."""
    place = 0

    def take(letter, count=1):
        nonlocal place
        found = []
        for _ in range(count):
            found.append(struct.unpack_from("<" + letter, data, place)[0])
            place += struct.calcsize("<" + letter)
        return found

    assert bytes(data[:4]) == b"TKF1"
    place = 4
    kind, n, d = take("I", 3)
    numbers = take("d", 4)
    clusters, flags = take("I", 2)
    values = take("f", {0: n * d, 1: n, 2: d + d * d}[kind])
    weights = take("f", n) if flags & 1 else None
    labels = take("i", n) if flags & 2 else None
    return (kind, n, d, *numbers, clusters, values, weights, labels), place


FRAMES = [
    Frame(TOKENS, 2, 3, np.arange(6.0) / 7, 1.5, 2.0, 0.25, 0.5, 2, np.array([0.25, 0.75]), np.array([-1, 7])),
    Frame(TOKENS, 1, 2, np.array([0.0, 1.0]), 0.0),
    Frame(TOKENS, 3, 1, np.array([1.0, 2.0, 3.0]), 4.0, labels=np.array([2, 1, 0])),
    Frame(CIRCLE_DENSITY, 4, 1, np.array([1.0, 0.5, 1.5, 1.0]), 1e300, 900.0, 0.3, 0.1),
    Frame(GAUSSIAN, 1, 2, np.array([1.0, 2.0, 3.0, 0.5, 0.5, 4.0]), 0.5),
]


def test_frames_are_what_a_naive_reading_finds_and_come_back():
    data = b"".join(map(encode, FRAMES))
    place = 0
    for frame, back in zip(FRAMES, decode(data), strict=True):
        found, used = naive(data[place:])
        place += used
        for reading in (found, (*back[:3], *back[4:9], back.values, back.weights, back.labels)):
            np.testing.assert_array_equal(reading[:8], (*frame[:3], *frame[4:9]))
            np.testing.assert_array_equal(np.asarray(reading[8], "f4"), frame.values.astype("f4"))
            for given, read in ((frame.weights, reading[9]), (frame.labels, reading[10])):
                assert (given is None) == (read is None)
                np.testing.assert_array_equal([] if given is None else given, [] if read is None else read)
    assert place == len(data)


@pytest.mark.parametrize("cut", [1, 30, 57, 61])
def test_damaged_frames_are_refused(cut):
    data = encode(FRAMES[0])
    with pytest.raises(ValueError, match="too few"):
        decode(data[:-cut])
    with pytest.raises(ValueError, match="no frame begins at byte 0"):
        decode(b"X" + data[1:])


def test_what_is_drawn_of_each_state():
    tokens = tkf.Tokens([[1.0, 0.0], [0.0, 1.0]], weights=[0.25, 0.75])
    frame = frame_of(tokens, 2.0, 0.0, measure(tokens, 3.0))
    assert frame.values.tolist() == [1, 0, 0, 1]
    assert frame.weights.tolist() == [0.25, 0.75]
    assert frame.clusters == 2
    assert frame.order == pytest.approx((0.25**2 + 0.75**2) ** 0.5)
    assert frame.energy == pytest.approx(0.25**2 + 0.75**2 + 2 * 0.25 * 0.75 * np.exp(-3.0))
    assert drawn(tkf.uniform_sphere(5, 3, seed=0)).weights is None

    gaussian = tkf.Gaussian([1.0, 2.0], [[3.0, 0.5], [0.5, 4.0]])
    assert drawn(gaussian)[:3] == (GAUSSIAN, 1, 2)
    assert drawn(gaussian).values.tolist() == [1, 2, 3, 0.5, 0.5, 4]
    assert np.isnan(measure(gaussian, 1.0).order)
    assert measure(gaussian, 1.0).clusters == NOT_MEASURED

    wave = tkf.CircleDensity.from_function(lambda angle: 1 + 0.5 * np.sin(angle), modes=4)
    shape = drawn(wave)
    angles = 2 * np.pi * np.arange(shape.n) / shape.n
    np.testing.assert_allclose(shape.values, 1 + 0.5 * np.sin(angles), atol=1e-12)

    cap = tkf.SphereDensity.from_function(lambda x: 1 + 0.5 * x[:, 2], modes=3)
    shape = drawn(cap)
    assert shape.kind == SPHERE_DENSITY
    points = shape.values.reshape(-1, 3)
    assert shape.weights @ points == pytest.approx([0, 0, 0.5 / 3], abs=1e-3)  # ∫ z (1 + z/2) over the sphere

    equal = drawn(tkf.Equiangular(0.25, 4))
    gram = equal.values.reshape(4, -1) @ equal.values.reshape(4, -1).T
    np.testing.assert_allclose(gram, 0.25 + 0.75 * np.eye(4), atol=1e-12)


def test_a_density_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="circle and the 2-sphere only, got d = 5"):
        drawn(tkf.ZonalDensity.uniform(4, 5))
