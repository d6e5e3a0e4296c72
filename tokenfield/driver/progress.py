"""A progress bar for long work: fraction done, steps per second or items done, and time left."""

from contextlib import AbstractContextManager
from typing import Any

from .._notebook import NotebookBar, in_notebook
from .._quiet import shows_progress


class Progress(AbstractContextManager):
    """A progress bar on standard error, or below the cell of a notebook; by default shown only there and on a terminal.

    Args:
        show: True, False, or None for "only on a terminal or in a notebook".
        title: what is being done.
        total: the end time, or the number of items.
        things: what is counted, e.g. "runs"; by default simulated time, with steps per second.
    """

    def __init__(self, show: bool | None, title: str, total: float, things: str = ""):
        self.show = in_notebook() or shows_progress() if show is None else show
        self.title, self.total, self.things = title, total, things
        self.bar: Any = None
        self.page: NotebookBar | None = None

    def __enter__(self) -> "Progress":
        if self.show and in_notebook():
            self.page = NotebookBar(self.title, self.total)
        elif self.show:
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            timed = "t = {task.fields[t]:.4g} of {task.total:.4g} · {task.fields[rate]:.0f} steps/s"
            counted = "{task.completed:.0f} of {task.total:.0f} " + self.things
            self.bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn(counted if self.things else timed),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, t=0.0, rate=0.0)
        return self

    def update(self, done: float, rate: float = 0.0) -> None:
        if self.page is not None:
            timed = f"t = {done:.4g} of {self.total:.4g} · {rate:.0f} steps/s"
            self.page.update(done, f"{done:.0f} of {self.total:.0f} {self.things}" if self.things else timed)
        if self.bar is not None:
            self.bar.update(self.task, completed=done, t=done, rate=rate)

    def __exit__(self, *exception: Any) -> None:
        if self.page is not None:
            self.page.close()
        if self.bar is not None:
            self.bar.stop()
