"""The driver: run a course stage by stage, in chunks, with progress and checkpoints. It serves one run or an ensemble."""

import abc
import time
from typing import Any, NamedTuple

from ..solver.base import Problem
from .checkpoint import Keeper
from .errors import SolverError
from .progress import Progress


class Stage(NamedTuple):
    """A problem to integrate to its end, from the unknowns y at time t.

    Args:
        continues: True if it goes on filling the buffer of saved values of the stage before.
        chunk: the number of trial steps in a chunk; None to let the loop choose.
    """

    problem: Problem
    t: float
    y: Any
    continues: bool = False
    chunk: int | None = None


class AbstractCourse(abc.ABC):
    """What a run does: stages one after another, each of which depends on how the one before ended.

    A course is mutable state on the host. `kept` and `restore` save it to a checkpoint and restore it.
    """

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """Maximum number of trial steps of a run."""

    @abc.abstractmethod
    def stage(self) -> Stage | None:
        """Return the next stage, or None at the end of the run. When a run resumes, only the shapes of its stage are used."""

    @abc.abstractmethod
    def watch(self, record: Any) -> None:
        """Look at the record after each chunk of a stage."""

    @abc.abstractmethod
    def finish(self, record: Any) -> None:
        """Take the results of a stage that has ended, and decide what comes next."""

    @abc.abstractmethod
    def progress(self, t: float) -> float:
        """Return how far the run is at time t of the stage, in the units of its progress bar."""

    @abc.abstractmethod
    def reached(self, t: float) -> str:
        """Return how far the run is at time t of the stage, for an error message."""

    @abc.abstractmethod
    def kept(self) -> Any:
        """Return a copy of the state of the course: nested lists and dicts of numbers, strings and arrays."""

    @abc.abstractmethod
    def restore(self, kept: Any) -> None:
        """Set the state of the course to what `kept` returned."""


class AbstractLoop(abc.ABC):
    """The compiled programs that integrate a stage: of one run (`record.py`) or of an ensemble (`ensemble_loop.py`)."""

    @abc.abstractmethod
    def begin(self, stage: Stage, before: Any) -> Any:
        """Return the record at the start of a stage; `before` is the record at the end of the stage before, or None."""

    @abc.abstractmethod
    def go_on(self, problem: Problem, record: Any, budget: int) -> Any:
        """Take at most `budget` trial steps with every member. The budget does not affect the results."""

    @abc.abstractmethod
    def running(self, record: Any) -> bool:
        """Return True until the stage has ended."""

    @abc.abstractmethod
    def steps(self, record: Any) -> int:
        """Return the largest number of trial steps that a member has taken."""

    @abc.abstractmethod
    def time(self, record: Any) -> float:
        """Return the time reached; the mean over the members of an ensemble."""

    @abc.abstractmethod
    def taken(self, record: Any) -> int:
        """Return the number of trial steps of all members, for the progress bar."""

    @abc.abstractmethod
    def budget(self, before: int | None, rate: float) -> int:
        """Return the budget of the next chunk from the one before (None for the first) and its steps per second."""


def run(course: AbstractCourse, loop: AbstractLoop, bar: Progress, keeper: Keeper) -> Any:
    """Run a course to its end, and return the last record. Resume from the keeper's checkpoint if there is one."""
    resumed = keeper.read()
    if resumed is not None:
        course.restore(resumed.course)
    record = kept = None
    with bar:
        while (stage := course.stage()) is not None:
            record = loop.begin(stage, record)
            if resumed is not None:  # shapes from this record, all numbers from the file
                record, resumed = resumed.fill(record), None
            record = _chunks(course, loop, stage, record, bar, keeper)
            kept = course.kept()  # before `finish`, which is repeated when the checkpoint is read
            course.finish(record)
    if record is not None:
        keeper.write(kept, record)
    return record


def _chunks(
    course: AbstractCourse, loop: AbstractLoop, stage: Stage, record: Any, bar: Progress, keeper: Keeper
) -> Any:
    """Integrate a stage to its end in chunks; the size of a chunk does not affect the results."""
    budget = loop.budget(None, 0.0)
    try:
        while loop.running(record):
            left = course.max_steps - loop.steps(record)
            if left <= 0:
                raise SolverError(
                    f"max_steps = {course.max_steps} steps were not enough: stopped at {course.reached(loop.time(record))}; "
                    "increase max_steps or loosen the tolerances"
                )
            begun, done = time.monotonic(), loop.taken(record)
            record = loop.go_on(stage.problem, record, min(stage.chunk or budget, left))
            rate = (loop.taken(record) - done) / max(time.monotonic() - begun, 1e-9)
            course.watch(record)
            bar.update(course.progress(loop.time(record)), rate)
            budget = loop.budget(budget, rate)
            if keeper.due():
                keeper.write(course.kept(), record)
    except BaseException:  # Ctrl-C too
        keeper.write(course.kept(), record)
        raise
    return record
