"""The interface of a state: a representation of the measure that a model moves."""

import equinox as eqx

from .._kinds import Named


class AbstractState(Named, eqx.Module):
    """A representation of a measure: weighted tokens, one cosine, mean and covariance, a density."""
