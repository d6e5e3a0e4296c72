"""The page as one file that works from disk: modules, styles and data inlined, without a build tool.

The modules of the page only use the forms `import { a, b as c } from "./x.js";`, `export function`, `export async function`,
`export class` and `export const`, and have no import cycles. Each becomes a function that returns its exports.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from .._check import as_path
from .._files import write_text
from .page_files import main_script, options_element, page_files

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*["\'](\.[^"\']+)["\']\s*;?[ \t]*$', re.M)
EXPORT = re.compile(r"^export\s+(?=(?:async\s+)?function\b|class\b|const\b)", re.M)
NAMED = re.compile(r"^export\s+(?:async\s+)?(?:function\s*\*?|class)\s+([\w$]+)", re.M)
CONST = re.compile(r"^export\s+const\s+(.*?);[ \t]*(?://.*)?$", re.M | re.S)
NAME = re.compile(r"[A-Za-z_$][\w$]*")
STYLE = re.compile(r'<link\s+rel="stylesheet"\s+href="\./([\w./-]+)"\s*/?>')
ICON = re.compile(r'(<link\s+rel="icon"[^>]*\s)href="\./([\w./-]+)"')
WORKER = "engine/worker.js"
ENGINE_ID, WORKER_ID = "tokenfield-engine", "tokenfield-worker"  # main.js builds a worker from these two


def export_page(path: str | os.PathLike, replay: dict[str, Any] | None = None, docs: str | None = None) -> Path:
    """Write the page as one file.

    Args:
        path: the file.
        replay: a run to replay, from `replay_data`; by default the page computes runs itself.
        docs: address of the theory pages, to which formulas link.

    Example:
        >>> from tokenfield.explorer import export_page
        >>> export_page("page.html")  # doctest: +SKIP
    """
    target = as_path("path", path)
    if target.is_dir():
        raise ValueError(f"{target} is a folder: give a file, such as {target / 'page.html'}")
    if not target.parent.is_dir():
        raise ValueError(f"{target.parent} does not exist: create it first, or give another path")
    write_text(target, one_file(replay, docs))
    return target


def one_file(replay: dict[str, Any] | None = None, docs: str | None = None) -> str:
    """Return the page as one HTML text. Modules that the page shares with its worker are included once."""
    found = page_files()
    texts = {name: data.decode() for name, data in found.items() if name.endswith((".js", ".css", ".html", ".svg"))}
    options: dict[str, Any] = {} if replay is None else {"mode": "replay", "replay": replay}
    if docs is not None:
        options["docs"] = docs
    html = texts["index.html"]
    main = main_script(html)
    modules = joined(texts, posixpath.normpath(main[1]))
    parts = [options_element(options)]
    if WORKER in texts:
        engine = joined(texts, WORKER)
        worker = engine.pop(WORKER)
        parts.append(_script(f'id="{ENGINE_ID}"', '"use strict";\n' + "".join(engine.values())))
        parts.append(_script(f'type="text/plain" id="{WORKER_ID}"', worker))
        modules = {name: text for name, text in modules.items() if name not in engine}
    parts.append(_script('type="module"', "".join(modules.values())))
    html = html[: main.start()] + "\n".join(parts) + html[main.end() :]
    html = STYLE.sub(lambda match: f"<style>\n{texts[posixpath.normpath(match[1])]}</style>", html)
    return ICON.sub(lambda match: f'{match[1]}href="{_data_url(texts[posixpath.normpath(match[2])])}"', html)


def _script(attributes: str, text: str) -> str:
    text = text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"<script {attributes}>\n{text}</script>"


def joined(texts: dict[str, str], entry: str) -> dict[str, str]:
    """Return a module and all its imports as parts of one script, by name, in the order in which to run them."""
    done: dict[str, str] = {}
    _add(texts, entry, done, ())
    return done


def _add(texts: dict[str, str], name: str, done: dict[str, str], above: tuple[str, ...]) -> None:
    """Add a module after those that it imports."""
    if name in above:
        raise ValueError(f"import cycle in the modules of the page: {' -> '.join((*above, name))}")
    if name in done:
        return
    if name not in texts:
        raise ValueError(f"{above[-1] if above else 'index.html'} imports {name}, which does not exist")
    source = texts[name]

    def imported(match: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
        _add(texts, other, done, (*above, name))
        return f"const {{ {_renamed(match[1])} }} = {_variable(other)};"

    exports = _exports(source)
    body = EXPORT.sub("", IMPORT.sub(imported, source))
    if left := re.search(r"^(import|export)\b[^(\n]*", body, re.M):
        raise ValueError(f"{name}: the single-file export does not support {left[0]!r}")
    result = f"return {{ {', '.join(exports)} }};\n" if exports else ""
    done[name] = f"// {name}\nconst {_variable(name)} = (() => {{\n{body}\n{result}}})();\n"


def _renamed(names: str) -> str:
    """Rewrite the names `a, b as c` of an import as the pattern `a, b: c`."""
    return ", ".join(re.sub(r"\s+as\s+", ": ", each.strip()) for each in names.split(",") if each.strip())


def _exports(source: str) -> list[str]:
    names = NAMED.findall(source)
    for match in CONST.finditer(source):
        names += _constants(match[1])
    return names


def _constants(text: str) -> list[str]:
    """Return the names in `a = 1, b = f(2, 3)`."""
    names, depth, expected, quote = [], 0, True, ""
    place = 0
    while place < len(text):
        letter = text[place]
        if quote:
            place += 2 if letter == "\\" else 1
            quote = "" if letter == quote else quote
            continue
        if expected and (found := NAME.match(text, place)):
            names.append(found[0])
            place, expected = found.end(), False
            continue
        if letter in "\"'`":
            quote = letter
        depth += (letter in "([{") - (letter in ")]}")
        expected = expected if letter != "," or depth else True
        place += 1
    return names


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _data_url(svg: str) -> str:
    from urllib.parse import quote

    return f"data:image/svg+xml,{quote(svg)}"
