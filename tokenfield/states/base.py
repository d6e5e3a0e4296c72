"""What a state is: a representation of the measure that a model moves."""

from collections.abc import Callable

import equinox as eqx

from .._kinds import Named


class AbstractState(Named, eqx.Module):
    """A representation of a measure: weighted tokens, one cosine, mean and covariance, a density."""

    @classmethod
    def starter(cls) -> "Callable[..., AbstractState]":
        """Return what makes such a state from plain data. Its parameters are the keys of `[state]` in a TOML file."""
        return cls
