"""A progress bar for long runs: fraction of the time covered, steps a second, time left."""

import sys
from contextlib import AbstractContextManager
from typing import Any


class Progress(AbstractContextManager):
    """Shown on standard error, only on a terminal unless asked for.

    Args:
        show: True, False, or None for "on a terminal".
    """

    def __init__(self, show: bool | None, title: str, total: float):
        self.show = sys.stderr.isatty() if show is None else show
        self.title, self.total = title, total
        self.bar: Any = None

    def __enter__(self) -> "Progress":
        if self.show:
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self.bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("t = {task.fields[t]:.4g} of {task.total:.4g} · {task.fields[rate]:.0f} steps/s"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, t=0.0, rate=0.0)
        return self

    def update(self, done: float, rate: float) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=done, t=done, rate=rate)

    def __exit__(self, *exception: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
