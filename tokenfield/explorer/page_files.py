"""The files of the page."""

import json
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

SERVED = ("html", "css", "js", "json", "svg", "png", "woff2")
SCRIPT = re.compile(r'<script\s+type="module"\s+src="\./([\w./-]+)"\s*>\s*</script>')


def page_files() -> dict[str, bytes]:
    """Return the content of each file of the page by its path, such as "engine/worker.js"."""
    found: dict[str, bytes] = {}

    def collect(folder: Traversable, prefix: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda each: each.name):
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir():
                collect(entry, f"{prefix}{entry.name}/")
            elif entry.name.rpartition(".")[2] in SERVED:
                found[prefix + entry.name] = entry.read_bytes()

    collect(files(__package__) / "page", "")
    if "index.html" not in found:
        raise ValueError("tokenfield was installed without the page of the explorer: reinstall it")
    return found


def main_script(html: str) -> re.Match[str]:
    """Return the match of the only script of the page."""
    scripts = list(SCRIPT.finditer(html))
    if len(scripts) != 1 or html.count("<script") != 1:
        raise ValueError(f"index.html must have one script, of type module, got {html.count('<script')}")
    return scripts[0]


def with_options(html: str, options: dict[str, Any]) -> str:
    """Return the page with its options as data before the script."""
    place = main_script(html).start()
    return f"{html[:place]}{options_element(options)}\n{html[place:]}"


def options_element(options: dict[str, Any]) -> str:
    """Return options as an element of the page. `<` is escaped in the JSON, so no text can end the element."""
    text = json.dumps(options, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="tokenfield">{text}</script>'
