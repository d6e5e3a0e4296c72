"""Pages of HTML in one file: a skeleton with its own style, tables, and images inside the page."""

import base64
import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The browser itself refuses anything from a network. plotly.js builds functions and blobs at run time.
POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; worker-src blob:; font-src data:"
)

STYLE = """
:root { --ink: #1f2328; --soft: #59636e; --line: #d9dee3; --wash: #f6f8fa; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif; font-size: 16px; }
main { max-width: 1000px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .5rem 0; }
.lead, figcaption, .note { color: var(--soft); }
figcaption, .note { font-size: .9rem; }
a { color: var(--accent); }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: .88em; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; overflow-x: auto; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; } .wide img { min-width: 640px; }
.plotly-graph-div { max-width: 100%; overflow: hidden; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .38rem .8rem .38rem 0; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; }
tbody th { font-weight: 500; color: var(--soft); width: 34%; }
td { overflow-wrap: anywhere; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 360px), 1fr)); gap: 0 2.5rem; }
.good { color: #00704f; } .bad { color: #b3400a; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
"""


def page(title: str, body: str) -> str:
    """A whole page. `body` is HTML already; the title is plain text.

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
    """A heading."""
    return f"<h{level}>{formula(text)}</h{level}>"


NESTED = r"\(((?:[^()]|\([^()]*\))*)\)"  # parentheses, with others in them once
INDEX = r"\*|\d+n?|[^\W\d_]|ij|max|min|first|last"  # lowered without braces after one letter; names of code are neither
TYPESET = {
    r"_\{([^{}]*)\}": r"<sub>\1</sub>",
    rf"\^{NESTED}": r"<sup>\1</sup>",
    r"\^(-?[\w½¼]+)": r"<sup>\1</sup>",
    rf"(?<![a-z_])([^\W\d_]|∂|max|min)_({INDEX})(?!\w)": r"\1<sub>\2</sub>",
}


def formula(text: str) -> str:
    """Text with `^{…}`, `^(…)` and `^x` raised, `_{…}` and `_x` lowered.

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
    """A paragraph; `kind` is a class of the style, such as "lead" or "note"."""
    return f'<p class="{escape(kind)}">{formula(text)}</p>' if kind else f"<p>{formula(text)}</p>"


def code(text: str) -> str:
    """Lines to be typed or read as they are."""
    return f"<pre><code>{escape(text)}</code></pre>"


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """A table of plain values; the first column names the row. It scrolls sideways where it is too wide.

    Example:
        >>> from tokenfield.report.page import table
        >>> table([("beta", 9.0), ("norm", "PostLN")], head=("what", "value"))
    """
    line = lambda row: f'<th scope="row">{text(row[0])}</th>' + "".join(f"<td>{text(cell)}</td>" for cell in row[1:])  # noqa: E731
    top = f"<thead><tr>{''.join(f'<th>{text(name)}</th>' for name in head)}</tr></thead>" if head else ""
    lines = "\n".join(f"<tr>{line(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}<tbody>\n{lines}\n</tbody></table></div>'


def text(value: object) -> str:
    """A value as escaped text: numbers to six digits, lists with commas, None as a dash."""
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
    """An image inside the page.

    Args:
        data: the bytes of the file.
        description: what it shows, in words, for those who do not see it.
        caption: a text below it.
        kind: "png" or "gif".
        wide: on a narrow screen, scroll sideways rather than shrink to nothing.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tokenfield.report.page import figure_png, image
        >>> image(figure_png(Figure()), "an empty figure")
    """
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    below = f"<figcaption>{formula(caption)}</figcaption>" if caption else ""
    picture = f'<img alt="{escape(description)}" src="{source}">'
    return (
        f'<figure><div class="wide">{picture}</div>{below}</figure>' if wide else f"<figure>{picture}{below}</figure>"
    )


def figure_png(figure: "Figure", dpi: int = 170) -> bytes:
    """A matplotlib figure as PNG bytes; the same figure gives the same bytes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure_png(Figure())
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
