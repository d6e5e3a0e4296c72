"""Help texts without Python's names for types."""

import re
from typing import Any

from typer.core import TyperCommand

PYTHON = re.compile(r"<list\[(\w+)\]>|<(\w+) range>")


class PlainHelp(TyperCommand):
    """A command whose help shows `<path>` for a flag that may be repeated, not `<list[Path]>`."""

    def get_help(self, ctx: Any) -> str:
        """Return the help text; columns stay aligned."""
        return PYTHON.sub(lambda m: f"<{(m[1] or m[2]).lower()}>".ljust(len(m[0])), super().get_help(ctx))
