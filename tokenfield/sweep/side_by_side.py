"""Members of equal shape in one compiled program, of which only the numbers that the plan keeps leave the loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..config import build
from ..config.run import RunConfig
from .outcome import Outcome, keep, times_of
from .plan import Plan, Recorded
from .quantities import QUANTITIES


class Watch(eqx.Module):
    """The quantities kept of a state; the state itself too, where one of them is measured afterwards."""

    quantities: tuple[Any, ...]
    state: bool = eqx.field(static=True)

    def __call__(self, state: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple(quantity(state) for quantity in self.quantities), state if self.state else ()


def watch_of(plan: Plan) -> tuple[Watch, dict[str, int]]:
    """The watch of a plan, and the place of each quantity in it."""
    inside = {
        name: QUANTITIES[quantity.observable].make
        for name, quantity in plan.record.items()
        if quantity.observable and QUANTITIES[quantity.observable].make
    }
    made = tuple(make(**plan.record[name].options()) for name, make in inside.items() if make is not None)
    later = any(q.times is not None and q.observable and QUANTITIES[q.observable].measure for q in plan.record.values())
    return Watch(made, later), {name: k for k, name in enumerate(inside)}


class Member(NamedTuple):
    """What was seen of one member, and its model."""

    model: Any
    places: dict[str, int]
    times: np.ndarray
    saved: Any
    reached: int
    last: Any
    state: Any
    blown: bool

    def value(self, name: str, quantity: Recorded) -> np.ndarray:
        """A quantity at the end, or at its times. A run that a rule has ended keeps its last value; one that blew up
        has none after that."""
        final = np.nan if self.blown else self._final(name, quantity)
        if quantity.times is None:
            return np.asarray(final, float)
        whole = np.full(len(self.times), final, float)
        whole[: self.reached] = self._series(name, quantity)
        return whole[np.searchsorted(self.times, quantity.times.expanded())]

    def _final(self, name: str, quantity: Recorded) -> Any:
        return self.last[0][self.places[name]] if name in self.places else self._measure(quantity, self.state)

    def _series(self, name: str, quantity: Recorded) -> Any:
        if name in self.places:
            return self.saved[0][self.places[name]][: self.reached]
        at = lambda j: jax.tree.map(lambda leaf: leaf[j], self.saved[1])  # noqa: E731
        return [self._measure(quantity, at(j)) for j in range(self.reached)]

    def _measure(self, quantity: Recorded, state: Any) -> float:
        measure = QUANTITIES[quantity.observable or ""].measure
        assert measure is not None
        return measure(state, self.model, **quantity.options())


def side_by_side(
    plan: Plan, config: RunConfig, models: list[Any], states: list[Any], width: int | None = None
) -> list[Outcome]:
    """The outcomes of members that differ in their starts and in the numbers of their models alone."""
    from ..solve.observed import observe_many

    assert config.t1 is not None
    times, (watch, places) = times_of(plan), watch_of(plan)
    method, rule = config.method or "tsit5", build.stop_rule(config.stop_when)
    seen = observe_many(
        models,
        states,
        config.t1,
        watch,
        save_at=times,
        stop_when=rule,
        rtol=config.rtol,
        atol=config.atol,
        method=method,
        width=width,
    )
    outcomes = []
    for k, (model, kind) in enumerate(zip(models, seen.events, strict=True)):
        saved, last, state = (
            jax.tree.map(lambda leaf, k=k: leaf[k], tree) for tree in (seen.saved, seen.last, seen.states)
        )
        member = Member(model, places, times, saved, int(seen.counts[k]), last, state, kind == "blow_up")
        end = float(seen.end_time[k])
        outcomes.append(Outcome(keep(plan, member.value, [] if kind is None else [(kind, end)]), end, ""))
    return outcomes
