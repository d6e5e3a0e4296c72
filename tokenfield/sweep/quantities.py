"""Observables inside the compiled time loop of a sweep."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..config.observed import Observed


class Measured(eqx.Module):
    """An observable with its options, as a function of the state alone."""

    function: Callable[..., Any] = eqx.field(static=True)
    options: tuple[tuple[str, Any], ...] = eqx.field(static=True)

    def __call__(self, state: Any) -> Any:
        return jnp.asarray(self.function(state, **dict(self.options)), float)


def measured(quantity: Observed) -> Measured:
    """Return an observable as it is computed inside the loop."""
    return Measured(quantity.function, tuple(sorted(quantity.options.items())))
