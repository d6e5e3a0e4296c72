"""HTML pages in one file: a skeleton with its own style, tables, and embedded images."""

import base64
import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from .style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With this policy, browsers load nothing from a network. plotly.js builds functions and blobs at run time.
POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; worker-src blob:; font-src data:"
)


# Metadata of a figure that say when or by which version it was drawn; they are left out.
VARYING = {"png": "Software", "pdf": "CreationDate", "svg": "Date"}


def page(title: str, body: str) -> str:
    """Return a whole page. `body` is HTML already; the title is plain text.

    Example:
        >>> from tokenfield.report.page import page, table
        >>> html = page("A run", table([("beta", "9")]))
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def heading(text: str, level: int = 2) -> str:
    """Return a heading."""
    return f"<h{level}>{formula(text)}</h{level}>"


NESTED = r"\(((?:[^()]|\([^()]*\))*)\)"  # parentheses that contain at most one more level
INDEX = r"\*|\d+n?|[^\W\d_]|ij|max|min|first|last"  # subscripts without braces after one letter; names in code are not subscripts
TYPESET = {
    r"_\{([^{}]*)\}": r"<sub>\1</sub>",
    rf"\^{NESTED}": r"<sup>\1</sup>",
    r"\^(-?[\w½¼]+)": r"<sup>\1</sup>",
    rf"(?<![a-z_])([^\W\d_]|∂|max|min)_({INDEX})(?!\w)": r"\1<sub>\2</sub>",
}


def formula(text: str) -> str:
    """Return text as HTML, with `^{…}`, `^(…)` and `^x` as superscripts, and `_{…}` and `_x` as subscripts.

    Example:
        >>> from tokenfield.report.page import formula
        >>> formula("e^{-2t} < I_{k+1}, w_k in R^d")
        'e<sup>-2t</sup> &lt; I<sub>k+1</sub>, w<sub>k</sub> in R<sup>d</sup>'
    """
    html, found = escape(text), 1
    while found:  # from the inside out
        html, found = re.subn(r"\^\{([^{}]*)\}", r"<sup>\1</sup>", html)
    for pattern, replacement in TYPESET.items():
        html = re.sub(pattern, replacement, html)
    return html


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph, with formulas and `code`; `kind` is a CSS class, such as "lead" or "note"."""
    return f'<p class="{escape(kind)}">{prose(text)}</p>' if kind else f"<p>{prose(text)}</p>"


def prose(text: str) -> str:
    """Return text with its formulas, and with code between backticks."""
    text = re.sub(r" ([=<>≤≥≈]) (?=\S)", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without its pair is a plain character
        return formula(text)
    return "".join(code_in_text(part) if k % 2 else formula(part) for k, part in enumerate(parts))


def code(text: str) -> str:
    """Return a block of code or output."""
    return f"<pre><code>{escape(text)}</code></pre>"


def code_in_text(value: str) -> str:
    """Return a short piece of code for a sentence that is HTML already."""
    return f"<code>{escape(value)}</code>"


def link(target: str, label: str = "") -> str:
    """Return a link to a file beside the page, or to another page."""
    return f'<a href="{escape(quote(target, safe="/:?=&#%.,"))}">{formula(label or target)}</a>'


def folded(title: str, html: str, opened: bool = False) -> str:
    """Return a part of the page that opens on a click; it needs no script."""
    return f"<details{' open' * opened}><summary>{formula(title)}</summary>\n{html}\n</details>"


def badge(label: str, kind: str) -> str:
    """Return a badge with a short verdict: `kind` is "good", "bad", "open" or "fixed"."""
    return f'<span class="badge {escape(kind)}">{formula(label)}</span>'


def classed(kind: str, html: str) -> str:
    """Return a part of the page with a CSS class."""
    return f'<div class="{escape(kind)}">{html}</div>'


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return a table of plain values; the first column names the row. It scrolls sideways if it is too wide.

    Numbers do not break. A cell that is `Markup` is HTML already.

    Example:
        >>> from tokenfield.report.page import table
        >>> table([("beta", 9.0), ("norm", "PostLN")], head=("what", "value"))
    """
    line = lambda row: f'<th scope="row">{text(row[0])}</th>' + "".join(_cell(cell) for cell in row[1:])  # noqa: E731
    top = f"<thead><tr>{''.join(f'<th>{formula(name)}</th>' for name in head)}</tr></thead>" if head else ""
    lines = "\n".join(f"<tr>{line(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}<tbody>\n{lines}\n</tbody></table></div>'


def stacked_table(rows: Iterable[Sequence[str]], head: Sequence[str]) -> str:
    """Return a table of cells that are HTML already; on a phone each row becomes a block, with the names of the columns."""
    top = "".join(f"<th>{formula(name)}</th>" for name in head)
    lines = "\n".join(f"<tr>{_stacked_row(row, head)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="stacked"><thead><tr>{top}</tr></thead><tbody>\n{lines}\n</tbody></table></div>'


def _stacked_row(row: Sequence[str], head: Sequence[str]) -> str:
    named = zip(head[1:], row[1:], strict=True)
    return f'<th scope="row">{row[0]}</th>' + "".join(f'<td data-column="{escape(n)}">{cell}</td>' for n, cell in named)


class Markup(str):
    """Text that is HTML already."""


def _cell(value: object) -> str:
    """Return a cell. A very long word, such as a hash, may break anywhere, other text only between words."""
    html = text(value)
    plain = not isinstance(value, Markup) and max(map(len, html.split()), default=0) > 30
    return f'<td class="long">{html}</td>' if plain else f"<td>{html}</td>"


def text(value: object) -> str:
    """Return a value as escaped text: numbers to six digits, lists with commas, None as a dash."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return escape(f"{value:.6g}".replace("-", "−"))
    if isinstance(value, (list, tuple)):
        return ", ".join(text(item) for item in value) or "none"
    return escape(str(value))


def image(data: bytes, description: str, caption: str = "", kind: str = "png", wide: bool = False) -> str:
    """Return an image inside the page.

    Args:
        data: the bytes of the file.
        description: alternative text that describes the image, for readers who cannot see it.
        caption: a text below it; `Markup` is HTML already.
        kind: "png" or "gif".
        wide: on a narrow screen, scroll sideways instead of shrinking too far.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tokenfield.report.page import figure_bytes, image
        >>> image(figure_bytes(Figure()), "an empty figure")
    """
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    below = f"<figcaption>{caption if isinstance(caption, Markup) else prose(caption)}</figcaption>" if caption else ""
    picture = f'<img alt="{escape(description)}" src="{source}">'
    return (
        f'<figure><div class="wide">{picture}</div>{below}</figure>' if wide else f"<figure>{picture}{below}</figure>"
    )


def figure_bytes(figure: "Figure", format: str = "png", dpi: int = 170) -> bytes:
    """Return a matplotlib figure as the bytes of a file; the same figure gives the same bytes, except for random names in SVG.

    Args:
        figure: the figure.
        format: "png", "pdf" or "svg".
        dpi: pixels per inch.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure_bytes(Figure())
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, dpi=dpi, metadata={VARYING[format]: None})
    return buffer.getvalue()
