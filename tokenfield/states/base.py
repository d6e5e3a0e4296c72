"""The interface of a state: a representation of the measure that a model moves."""

import abc
from typing import Any

import equinox as eqx

from .._kinds import Named


class AbstractState(Named, eqx.Module):
    """A representation of a measure: weighted tokens, one cosine, mean and covariance, a density.

    Its arrays may have leading axes: `Solution.states` is one state whose arrays are stacked along time.
    """

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """The lengths of the leading axes: () for one state, (m,) for the states of a solution at m times."""


def require_one(name: str, state: Any) -> None:
    """Raise ValueError if states are stacked; `name` is the function or the argument that takes one."""
    if isinstance(state, AbstractState) and state.batch_shape:
        raise ValueError(
            f"{name} takes one state, got a stack of shape {state.batch_shape}: "
            "take one of them, e.g. jax.tree.map(lambda leaf: leaf[0], states)"
        )
