"""The live page: a server, replays of saved runs, single-file exports and a notebook widget."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .export import export_page as export_page
    from .replay import open_run as open_run
    from .replay import replay_data as replay_data
    from .widget import explore as explore

__all__, __getattr__, __dir__ = lazy(
    __name__, {"export": "export_page", "replay": "open_run replay_data", "widget": "explore"}
)
