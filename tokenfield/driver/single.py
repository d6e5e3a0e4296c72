"""One run in the driver's loop."""

import functools

import jax
import numpy as np
from jaxtyping import Array

from .._xla.arrays import from_numpy
from ..solver.base import HIT, RUNNING
from .record import PROGRAMS, SMALL_PROGRAMS
from .run import AbstractLoop, Reached

CHUNK_SECONDS = 0.3
SMALL = 1024  # numbers in a state for which compiling takes longer than running


class Single(AbstractLoop):
    """One run. The sizes of its chunks do not affect the results."""

    def begin(self, stage, before):
        steps, rejected = (_number(0), _number(0)) if before is None else (before.carry.steps, before.carry.rejected)
        saved = (before.saved, before.count) if stage.continues and before is not None else None
        t = from_numpy(np.asarray(stage.t, float))
        return _programs(stage.y).start(stage.problem, t, stage.y, steps, rejected, saved)

    def advance(self, problem, record, budget):
        record = PROGRAMS.advance(problem, record, _number(budget))
        if problem.stop is not None and int(record.carry.status) == HIT:
            record = _programs(record.carry.y).finish(problem, record)
        return record

    def reached(self, record):
        c = record.carry
        steps = int(c.steps) + int(c.rejected)
        return Reached(int(c.status) == RUNNING, steps, steps, float(c.t))

    def budget(self, before, rate):
        """Aim at chunks of `CHUNK_SECONDS`, starting with a single step."""
        return 1 if before is None else max(1, int(min(rate * CHUNK_SECONDS, 4 * before)))


def _programs(y):
    """Return the programs for unknowns of this size."""
    return SMALL_PROGRAMS if sum(leaf.size for leaf in jax.tree.leaves(y)) <= SMALL else PROGRAMS


@functools.lru_cache(maxsize=64)
def _number(value: int) -> Array:
    return from_numpy(np.asarray(value))
