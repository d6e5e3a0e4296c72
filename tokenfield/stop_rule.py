"""Stop rules: a rule has a real margin, which is negative while a run continues and reaches 0 where it ends."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._explained import Explained
from ._shown import shown


class AbstractStopRule(Explained, eqx.Module):
    """A condition on the state that holds where its margin, a real number, is at least 0.

    If the margin m is differentiable, so is the time of the stop: by the implicit function theorem, its derivative with
    respect to a parameter p is `-(dm/dp) / (dm/dt)`, both evaluated along the run at the stop.
    """

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The name of the event when the rule ends a run."""

    @property
    @abc.abstractmethod
    def differentiable(self) -> bool:
        """False if the margin has no useful derivative, as for a condition that returns a bool."""

    @property
    @abc.abstractmethod
    def clusters(self) -> int | None:
        """The number of clusters at which the rule ends a run; None if it is not about clusters. Method "coarsen" needs it."""

    @property
    @abc.abstractmethod
    def rotation_invariant(self) -> bool:
        """True if the margin stays the same when all tokens are rotated. Otherwise runs keep the coordinates of the start."""

    @abc.abstractmethod
    def margin(self, t: Float[Array, ""], state: Any, velocity: Callable[[], Any]) -> Float[Array, ""]:
        """Return the margin at a state: >= 0 where the run should end.

        Args:
            t: the time.
            state: the state at that time.
            velocity: returns the time derivative of the state, as a state, for rules that need it.
        """

    @abc.abstractmethod
    def resolve(self, model: Any, state: Any) -> "AbstractStopRule":
        """Return the rule with parameters from the model filled in; raise ValueError if it does not apply to the model or state."""

    def __call__(self, t: Float[Array, ""], state: Any, velocity: Callable[[], Any]) -> Bool[Array, ""]:
        """Return True if the run should end. A NaN margin does not end a run."""
        return self.margin(t, state, velocity) >= 0


class When(AbstractStopRule):
    """A rule from any function of the state, which returns a margin or a bool that says whether to stop.

    If it returns an array, the run stops when all entries are >= 0, or True.
    """

    condition: Callable[[Any], Any]
    differentiable: bool = eqx.field(static=True, default=False)

    @property
    def kind(self):
        return getattr(self.condition, "__name__", "stopped").strip("<>")

    @property
    def rotation_invariant(self):
        return False

    @property
    def clusters(self):
        return None

    def margin(self, t, state, velocity):
        found = jnp.asarray(self.condition(state))
        if found.dtype == bool:
            return jnp.where(found.all(), 1.0, -1.0)
        return found.min().astype(float)

    def resolve(self, model, state):
        try:
            result = jax.eval_shape(lambda state: jnp.asarray(self.condition(state)), state)
        except jax.errors.JAXTypeError as error:
            raise ValueError(
                "stop_when must use jax.numpy: numpy, math and `if` do not work on the numbers of a state"
            ) from error
        except TypeError as error:
            raise ValueError(
                f"stop_when must return a bool, or a real number that is >= 0 where a run ends: {error}"
            ) from error
        if result.dtype != bool and not jnp.issubdtype(result.dtype, jnp.floating):
            raise ValueError(
                f"stop_when must return a bool, or a real number that is >= 0 where a run ends, got dtype {result.dtype}"
            )
        return When(self.condition, result.dtype != bool)


def as_rule(stop_when: AbstractStopRule | Callable | None) -> AbstractStopRule | None:
    """Return a stop rule unchanged, or make one from a function of the state."""
    if stop_when is None or isinstance(stop_when, AbstractStopRule):
        return stop_when
    if callable(stop_when):
        return When(stop_when)
    raise ValueError(
        f"stop_when must be a rule such as one_cluster() or a function of the state, got {shown(stop_when)}"
    )
