"""Rules that end a run early, located to rounding inside the step in which they first hold."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float


class AbstractStopRule(eqx.Module):
    """A condition on the state. `velocity()` gives the state's time derivative, for rules that need it."""

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The name of the event, when the rule ends a run."""

    @abc.abstractmethod
    def __call__(self, t: Float[Array, ""], state: Any, velocity: Callable[[], Any]) -> Bool[Array, ""]:
        """True when the run should end."""

    def resolve(self, model: Any, state: Any) -> "AbstractStopRule":
        """The rule with whatever it takes from the model filled in; a ValueError where it makes no sense."""
        return self


class When(AbstractStopRule):
    """A rule from any function of the state."""

    condition: Callable[[Any], Any]

    @property
    def kind(self):
        return getattr(self.condition, "__name__", "stopped").strip("<>")

    def __call__(self, t, state, velocity):
        return jax.numpy.asarray(self.condition(state)).astype(bool).all()


class OnFlow(eqx.Module):
    """A rule on states as a rule on the unknowns of a flow."""

    rule: AbstractStopRule

    def __call__(self, t, y, flow):
        velocity = lambda: jax.jvp(flow.unpack, (y,), (flow.velocity(t, y),))[1]  # noqa: E731
        return self.rule(t, flow.unpack(y), velocity)


def as_rule(stop_when: AbstractStopRule | Callable | None) -> AbstractStopRule | None:
    """A rule as given, or made from a plain function of the state."""
    if stop_when is None or isinstance(stop_when, AbstractStopRule):
        return stop_when
    if callable(stop_when):
        return When(stop_when)
    raise ValueError(f"stop_when must be a rule such as one_cluster() or a function of the state, got {stop_when!r}")
