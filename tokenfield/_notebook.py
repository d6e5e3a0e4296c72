"""A progress bar for Jupyter notebooks, in HTML: it needs no widgets."""

import sys
import time
from html import escape
from typing import Any

PAUSE = 0.2  # seconds between updates


def in_notebook() -> bool:
    """Return True in a Jupyter kernel."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


class NotebookBar:
    """A progress bar below the cell, with a line of text; it disappears when the work is done."""

    def __init__(self, title: str, total: float):
        from IPython.display import HTML, display

        self.title, self.total, self.start = title, total, time.monotonic()
        self.html, self.last = HTML, -PAUSE
        self.handle: Any = display(HTML(self._page(0.0, "")), display_id=True)

    def update(self, done: float, text: str) -> None:
        """Update the bar, at most five times per second."""
        now = time.monotonic() - self.start
        if now - self.last >= PAUSE:
            self.last = now
            left = now * (self.total - done) / done if 0 < done <= self.total else float("inf")
            rest = f" · {left:.0f} s left" if left < 1e6 else ""
            self.handle.update(self.html(self._page(done, f"{text} · {now:.0f} s{rest}")))

    def close(self) -> None:
        """Remove the bar."""
        self.handle.update(self.html(""))

    def _page(self, done: float, text: str) -> str:
        share = min(max(done / self.total, 0.0), 1.0) if 0 < self.total < float("inf") else 0.0
        return f'{escape(self.title)} <progress value="{share:.4f}" max="1"></progress> {escape(text)}'
