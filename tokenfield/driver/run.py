"""The driver: run the stages of a schedule in chunks, with progress and checkpoints. It serves one run or an ensemble."""

import abc
import time
from typing import Any, NamedTuple

from ..solver.base import Problem
from .checkpoint import Checkpointer
from .errors import SolverError
from .progress import Progress


class Stage(NamedTuple):
    """A problem to integrate to its end, from the unknowns y at time t.

    Args:
        continues: True if it continues to fill the buffer of saved values of the previous stage.
        chunk: the number of trial steps in a chunk; None to let the loop choose.
    """

    problem: Problem
    t: float
    y: Any
    continues: bool = False
    chunk: int | None = None


class AbstractSchedule(abc.ABC):
    """The stages of a run, one after another. Each depends on how the previous one ended.

    A schedule is mutable state on the host. `checkpoint_data` returns it for a checkpoint, and `restore` sets it again.
    """

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """Maximum number of trial steps of a run."""

    @abc.abstractmethod
    def stage(self) -> Stage | None:
        """Return the next stage, or None at the end of the run. When a run resumes, only the shapes of its stage are used."""

    @abc.abstractmethod
    def after_chunk(self, record: Any) -> None:
        """Process the record after each chunk of a stage."""

    @abc.abstractmethod
    def finish(self, record: Any) -> None:
        """Read the results of a stage that has ended, and choose the next stage."""

    @abc.abstractmethod
    def progress(self, t: float) -> float:
        """Return how far the run is at time t of the stage, in the units of its progress bar."""

    @abc.abstractmethod
    def reached(self, t: float) -> str:
        """Return how far the run is at time t of the stage, for an error message."""

    @abc.abstractmethod
    def checkpoint_data(self) -> Any:
        """Return a copy of the state of the schedule: nested lists and dicts of numbers, strings and arrays."""

    @abc.abstractmethod
    def restore(self, data: Any) -> None:
        """Set the state of the schedule to what `checkpoint_data` returned."""


class Reached(NamedTuple):
    """How far the record of a stage is.

    Args:
        running: True until the stage has ended.
        steps: the number of trial steps of the member that has taken the most.
        total_steps: the number of trial steps of all members.
        time: the time reached; the mean over the members of an ensemble.
    """

    running: bool
    steps: int
    total_steps: int
    time: float


class AbstractLoop(abc.ABC):
    """How a stage is advanced: that of one run (`single.py`) or of an ensemble (`batch.py`), by the programs of `record.py`."""

    @abc.abstractmethod
    def begin(self, stage: Stage, before: Any) -> Any:
        """Return the record at the start of a stage; `before` is the record at the end of the previous stage, or None."""

    @abc.abstractmethod
    def advance(self, problem: Problem, record: Any, budget: int) -> Any:
        """Take at most `budget` trial steps with the run, or with each member of a batch."""

    @abc.abstractmethod
    def reached(self, record: Any) -> Reached:
        """Return how far a record is. This waits for the program that computes it."""

    @abc.abstractmethod
    def budget(self, before: int | None, rate: float) -> int:
        """Return the budget of the next chunk from the previous budget (None at first) and its steps per second."""


def run(schedule: AbstractSchedule, loop: AbstractLoop, bar: Progress, checkpointer: Checkpointer) -> Any:
    """Run a schedule to its end, and return the last record. Resume from the checkpoint if there is one."""
    resumed = checkpointer.read()
    if resumed is not None:
        schedule.restore(resumed.schedule)
    record = data = None
    with bar:
        while (stage := schedule.stage()) is not None:
            record = loop.begin(stage, record)
            if resumed is not None:  # this record has the shapes, and the file has the numbers
                record, resumed = resumed.fill(record), None
            record = _chunks(schedule, loop, stage, record, bar, checkpointer)
            data = schedule.checkpoint_data()  # before `finish`, which runs again when the run resumes
            schedule.finish(record)
    if record is not None:
        checkpointer.write(data, record)
    return record


def _chunks(
    schedule: AbstractSchedule, loop: AbstractLoop, stage: Stage, record: Any, bar: Progress, checkpointer: Checkpointer
) -> Any:
    """Integrate a stage to its end in chunks. Their size does not affect the results of a single run; see `advance`."""
    budget, now = loop.budget(None, 0.0), loop.reached(record)
    try:
        while now.running:
            left = schedule.max_steps - now.steps
            if left <= 0:
                raise SolverError(
                    f"max_steps = {schedule.max_steps} steps were not enough: stopped at {schedule.reached(now.time)}; "
                    "increase max_steps or loosen the tolerances"
                )
            started, before = time.monotonic(), now
            record = loop.advance(stage.problem, record, min(stage.chunk or budget, left))
            now = loop.reached(record)
            rate = (now.total_steps - before.total_steps) / max(time.monotonic() - started, 1e-9)
            schedule.after_chunk(record)
            bar.update(schedule.progress(now.time), rate)
            budget = loop.budget(budget, rate)
            if checkpointer.due():
                checkpointer.write(schedule.checkpoint_data(), record)
    except BaseException:  # Ctrl-C too
        checkpointer.write(schedule.checkpoint_data(), record)
        raise
    return record
