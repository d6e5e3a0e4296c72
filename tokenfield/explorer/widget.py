"""A run in a notebook: the page in an iframe, as an anywidget, or as HTML if anywidget is not installed."""

import html
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .._check import count
from .export import export_page, one_file
from .replay import replay_data

SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "tokenfield";
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0;`;
  frame.srcdoc = model.get("page");
  el.replaceChildren(frame);
  return () => frame.remove();
}
export default { render };
"""


def explore(traj: Any, height: int = 640) -> Any:
    """Return the page that replays a run, for the last line of a notebook cell.

    Args:
        traj: a `Trajectory`.
        height: height in pixels.

    Returns:
        An anywidget if that package is installed, otherwise an object that notebooks show as HTML. Both have
        `save(path)`, which writes the page as one file.
    """
    data = replay_data(traj)
    page, height = one_file(data), count("height", height, 100)
    return _widget_class()(data, page=page, height=height) if find_spec("anywidget") else Page(data, page, height)


class Page:
    """The page as HTML, in an iframe."""

    def __init__(self, replay: dict[str, Any], page: str, height: int):
        self.replay, self.page, self.height = replay, page, height

    def save(self, path: str | os.PathLike) -> Path:
        """Write the page as one file."""
        return export_page(path, self.replay)

    def _repr_html_(self) -> str:
        source = html.escape(self.page, quote=True)
        return (
            f'<iframe title="tokenfield" style="width:100%;height:{self.height}px;border:0" srcdoc="{source}"></iframe>'
        )


def _widget_class() -> Any:
    """Return the widget's class. It is created on first use, because anywidget is optional."""
    global _class
    if _class is None:
        import anywidget
        import traitlets

        class Explorer(anywidget.AnyWidget):
            """The page in an iframe."""

            _esm = SCRIPT
            page = traitlets.Unicode("").tag(sync=True)
            height = traitlets.Int(640).tag(sync=True)

            def __init__(self, replay: dict[str, Any], **options: Any):
                super().__init__(**options)
                self.replay = replay

            def save(self, path: str | os.PathLike) -> Path:
                """Write the page as one file."""
                return export_page(path, self.replay)

        _class = Explorer
    return _class


_class: Any = None
