"""Types of constructor arguments. Unlike `numpy.typing.ArrayLike`, they do not admit strings."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Array

Number: TypeAlias = float | np.number | np.ndarray | Array
Vector: TypeAlias = Sequence[float] | np.ndarray | Array
Matrix: TypeAlias = Sequence[Sequence[float]] | Sequence[np.ndarray] | np.ndarray | Array
OfTime: TypeAlias = Callable[[Array], Array]
"""A function of time, in jax.numpy."""

# The parameters of an attention; None stands for the identity.
Beta: TypeAlias = Number | OfTime | None
Map: TypeAlias = Matrix | OfTime | None
Values: TypeAlias = Number | Matrix | OfTime | None
