"""Run members of equal shape in one compiled program; only the recorded numbers leave the loop."""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..config import build
from ..config.run import RunConfig
from .outcome import Outcome, keep, times_of
from .plan import Plan, Recorded
from .quantities import measured

if TYPE_CHECKING:
    from ..driver.observed import Observed


class Watch(eqx.Module):
    """The recorded quantities of a state, and the state itself if one of them is measured afterwards."""

    quantities: tuple[Any, ...]
    state: bool = eqx.field(static=True)

    def __call__(self, state: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple(quantity(state) for quantity in self.quantities), state if self.state else ()


def watch_of(plan: Plan) -> tuple[Watch, dict[str, int]]:
    """Return the `Watch` of a plan, and the index of each quantity in it."""
    recorded = {name: quantity for name, quantity in plan.record.items() if quantity.observable}
    inside = [name for name, quantity in recorded.items() if quantity.in_loop]
    later = any(quantity.times is not None and not quantity.in_loop for quantity in recorded.values())
    return Watch(tuple(measured(recorded[name]) for name in inside), later), {name: k for k, name in enumerate(inside)}


class Members(NamedTuple):
    """The recorded values of members, and their models."""

    models: list[Any]
    places: dict[str, int]
    times: np.ndarray
    seen: "Observed"

    def values(self, name: str, quantity: Recorded) -> np.ndarray:
        """Return a quantity at the end (m,), or at its times (m, T). A run that a rule has ended keeps its last value; one that
        blew up, or in which a token vanished, has none after that."""
        blown = np.array([kind in ("blow_up", "vanished", "resolution", "fold") for kind in self.seen.events])
        final = np.where(blown, np.nan, self._final(name, quantity, blown))
        if quantity.times is None:
            return final
        reached = (np.arange(len(self.times)) < self.seen.counts[:, None]) & (self.times < self.seen.end_time[:, None])
        whole = np.where(reached, self._series(name, quantity), final[:, None])
        return whole[:, np.searchsorted(self.times, quantity.times.expanded())]

    def _final(self, name: str, quantity: Recorded, blown: np.ndarray) -> np.ndarray:
        if name in self.places:
            return self.seen.last[0][self.places[name]]
        ends = [_member(self.seen.states, k) for k in range(len(blown))]
        measured = [np.nan if gone else self._measure(quantity, k, ends[k]) for k, gone in enumerate(blown)]
        return np.array(measured, float)

    def _series(self, name: str, quantity: Recorded) -> np.ndarray:
        if name in self.places:
            return self.seen.saved[0][self.places[name]]
        found = np.full((len(self.models), len(self.times)), np.nan)
        for k, count in enumerate(self.seen.counts):
            states = [_member(self.seen.saved[1], (k, j)) for j in range(count)]
            found[k, :count] = [self._measure(quantity, k, state) for state in states]
        return found

    def _measure(self, quantity: Recorded, k: int, state: Any) -> float:
        return quantity.measure(state, self.models[k])


def _member(tree: Any, k: int | tuple[int, int]) -> Any:
    return jax.tree.map(lambda leaf: leaf[k], tree)


def side_by_side(
    plan: Plan, config: RunConfig, models: list[Any], states: list[Any], width: int | None = None
) -> list[Outcome]:
    """Return the outcomes of members that differ only in their initial states and in the numbers of their models."""
    from ..driver.observed import observe_many

    assert config.t1 is not None
    times, (watch, places) = times_of(plan), watch_of(plan)
    seen = observe_many(
        models,
        states,
        config.t1,
        watch,
        save_at=times,
        stop_when=build.stop_rule(config.stop_when),
        rtol=config.rtol,
        atol=config.atol,
        method=config.method,
        width=width,
        rotation_invariant=all(q.labels.rotation_invariant for q in plan.record.values() if q.observable),
    )
    members = Members(models, places, times, seen)
    found = {name: members.values(name, quantity) for name, quantity in plan.record.items() if quantity.observable}
    outcomes = []
    for k, (kind, end) in enumerate(zip(seen.events, seen.end_time.tolist(), strict=True)):
        value = lambda name, _, k=k: found[name][k]  # noqa: E731
        events = [] if kind is None else [(kind, end)]
        outcomes.append(Outcome(keep(plan, value, events), end, "", seen.method, ", ".join(seen.reductions[k])))
    return outcomes
