"""Live progress of a sweep: cells done, failed, rate, time left."""

from contextlib import AbstractContextManager
from typing import Any

from .._notebook import NotebookBar, in_notebook
from .._quiet import shows_progress


class SweepProgress(AbstractContextManager):
    """A progress bar on standard error, or below the cell of a notebook; by default shown only there and on a terminal."""

    def __init__(self, show: bool | None, title: str, total: int):
        self.show = in_notebook() or shows_progress() if show is None else show
        self.title, self.total = title, total
        self.bar: Any = None
        self.page: NotebookBar | None = None

    def __enter__(self) -> "SweepProgress":
        if self.show and in_notebook():
            self.page = NotebookBar(self.title, self.total)
        elif self.show:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self.bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn(
                    "{task.completed} of {task.total} cells, {task.fields[failed]} failed · {task.fields[rate]}"
                ),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(elapsed_when_finished=False),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, failed=0, rate="")
        return self

    def update(self, done: int, failed: int) -> None:
        if self.page is not None:
            self.page.update(done + failed, f"{done + failed} of {self.total} cells, {failed} failed")
        if self.bar is None:
            return
        speed = self.bar.tasks[0].speed
        rate = "" if not speed else f"{speed:.3g} cells/s"
        self.bar.update(self.task, completed=done + failed, failed=failed, rate=rate)

    def __exit__(self, *exception: Any) -> None:
        if self.page is not None:
            self.page.close()
        if self.bar is not None:
            self.bar.stop()
