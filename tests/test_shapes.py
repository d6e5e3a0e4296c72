"""Annotations of arrays are enforced while tests run."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import shapes
from jaxtyping import Array, Float, TypeCheckError

import tokenfield as tkf
from tokenfield.attention.sums import row_max

MLP = tkf.MLP(np.eye(3), np.eye(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: row_max(jnp.zeros(3), jnp.ones(3, bool)),  # a vector for a matrix
        lambda: row_max(jnp.zeros((2, 3)), jnp.ones((2, 4), bool)),  # n = 3 and n = 4
        lambda: row_max(jnp.zeros((2, 3)), jnp.ones((2, 3))),  # numbers for truth values
        lambda: MLP(np.zeros(3)),  # NumPy is checked too
        lambda: MLP(jnp.zeros((2, 3), int)),
        lambda: tkf.Sphere().inner(jnp.ones(3), jnp.ones(1)),
    ],
)
def test_a_wrong_array_is_refused(call):
    with pytest.raises(TypeCheckError):
        call()


def test_every_part_with_annotations_of_arrays_is_checked():
    root, annotation = Path(tkf.__file__).parent, re.compile(r'\w\[(Array|np\.ndarray), "')
    files = (path for path in root.rglob("*.py") if annotation.search(path.read_text(encoding="utf-8")))
    assert {path.relative_to(root).parts[0].removesuffix(".py") for path in files} == set(shapes.PACKAGES.split())


def test_only_arrays_are_checked():
    """Our own checks say what is wrong with everything else."""
    with pytest.raises(ValueError, match="x must be a number or an array of numbers, got 'words'"):
        tkf.Tokens("words")


@pytest.mark.parametrize(
    ("hint", "of_arrays"),
    [
        (Float[Array, "n d"], True),
        (Float[Array, " n"] | None, True),
        (tuple[Float[Array, " n"], int], True),
        (int | None, False),
        ("Tokens", False),
        (None, False),
    ],
)
def test_what_is_an_annotation_of_arrays(hint, of_arrays):
    assert shapes._is_of_arrays(hint) == of_arrays
