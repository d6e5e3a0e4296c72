"""Check a built documentation site: every link leads somewhere, no markup is left, and nothing is fetched from outside.

    python tools/check_site.py docs/_build/html

Every example of the gallery must have a picture: one that was skipped, because weights are missing, has none.

Where Playwright and chromium are installed, pages are opened too: one of each kind at the sizes of a desktop and a phone, light and
dark; all others outside the API reference at the size of a phone, half of them dark. No page may be wider than its window, cut text
off, have the wrong colors, ask for anything that is not a file of the site, or complain on the console.
"""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LEFT = re.compile(r"&lt;(?:inline|literal|reference|pending_xref)\b|(?<!\$)\{(?:name|test|claim|cite:[pt])\}`")
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
OPENED = (
    "index",
    "explore",
    "comparison",
    "probe",
    "architecture",
    "start/student",
    "theory/claims",
    "theory/normalization",
    "theory/errata",
    "reference/keys",
    "gallery/index",
    "gallery/1_first_steps/plot_first_clusters",
    "api/models",
    "api/names/tokenfield.Softmax",
)
NOT_READ = ("api", "_modules", "_static")  # folders of the reference, whose pages are alike; and files
MADE = ("genindex", "py-modindex", "search", "live")
SIZES = ((1280, 900), (390, 844))
MODES = ("light", "dark")
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# Elements that hide what does not fit, and whose text does not; elements of a pixel and MathML are for screen readers.
CUT = """document.querySelectorAll("mjx-assistive-mml").forEach(each => each.remove()),
[...document.body.querySelectorAll("*")].filter(each => {
    const style = getComputedStyle(each);
    return /hidden|clip/.test(style.overflowX) && each.checkVisibility({visibilityProperty: true}) && each.clientWidth > 1
        && each.innerText && each.scrollWidth > each.clientWidth + 1;
}).map(each => `${each.tagName.toLowerCase()} ${each.className}: `
    + [...each.innerText.replace(/\\s+/g, " ")].slice(0, 40).join(""))"""
# The brightness of the page and of its text, from 0 to 255.
COLORS = """(style => [style.backgroundColor, style.color].map(
    each => each.match(/[0-9.]+/g).slice(0, 3).reduce((sum, part) => sum + part / 3, 0)))(getComputedStyle(document.body))"""


class Page(HTMLParser):
    """The anchors, links and fetched files of a page."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        text = path.read_text(encoding="utf-8")
        self.left = LEFT.findall(text)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {key: value or "" for key, value in attrs}
        self.anchors.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if (
            tag in FETCHED
            and FETCHED[tag] in given
            and given.get("rel") not in ("canonical", "index", "search", "next", "prev")
        ):
            self.fetched.append(given[FETCHED[tag]])


def problems(root: Path) -> Iterator[str]:
    """What is wrong with the links of a site, one line each."""
    pages = {path: Page(path) for path in root.rglob("*.html") if path.relative_to(root).parts[0] != "_static"}
    for path, page in pages.items():
        here = path.relative_to(root)
        yield from (f"{here}: markup that is shown as text: {each}" for each in page.left)
        for url in page.fetched:
            if urlsplit(url).scheme not in ("", "data") or url.startswith("//"):
                yield f"{here}: fetches {url}"
        for url in (*page.links, *(each for each in page.fetched if not each.startswith("data:"))):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{here}: no such file: {url}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{here}: no such place: {url}"


def without_picture(root: Path) -> Iterator[str]:
    """Which examples of the gallery have no picture, one line each; their thumbnails are a placeholder.

    A site without any, built with `-D plot_gallery=0`, is left alone.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.glob("gallery/*/plot_*.html"))}
    bare = {path: text for path, text in texts.items() if not re.search(rf"sphx_glr_{path.stem}_\d+\.", text)}
    for path, text in bare.items() if len(bare) < len(texts) else ():
        said = re.search(r"skipped: [^<]*", text)
        yield f"{path.relative_to(root)}: has no picture{f' ({said[0].strip()})' if said else ''}"


def visits(root: Path) -> Iterator[tuple[tuple[int, int], str, Sequence[str]]]:
    """Sizes and modes in which pages are opened, each with the names of the pages."""
    for size in SIZES:
        for mode in MODES:
            yield size, mode, OPENED
    names = (path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.html"))
    others = sorted(name for name in names if name not in (*OPENED, *MADE) and name.partition("/")[0] not in NOT_READ)
    for k, mode in enumerate(MODES):
        yield SIZES[-1], mode, others[k :: len(MODES)]


def opened(root: Path, browser_path: str) -> Iterator[str]:
    """What is wrong with pages in a browser, one line each."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for (width, height), mode, names in visits(root):
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=mode)
            for name in names:
                page, where = context.new_page(), f"{name} at {width} pixels, {mode}"
                said: list[str] = []
                page.on("request", lambda asked, said=said: said.append(asked.url) if outside(asked.url) else None)
                page.on("console", lambda line, said=said: said.append(line.text) if line.type == "error" else None)
                page.goto((root / f"{name}.html").as_uri())
                page.wait_for_timeout(500)
                said += looks(page, mode)
                yield from (f"{where}: {each}" for each in said)  # what it asked for, or complains of
                page.close()
            context.close()
        browser.close()


def looks(page: Any, mode: str) -> Iterator[str]:
    """What is wrong with the looks of an open page, one line each."""
    if page.evaluate(WIDER):
        yield "is wider than its window"
    yield from (f"cuts off text: {each}" for each in page.evaluate(CUT))
    paper, ink = page.evaluate(COLORS)
    if (paper > ink) != (mode == "light") or abs(paper - ink) < 100:
        yield f"has text of brightness {ink:.0f} on {paper:.0f}"


def outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    found = [*problems(root), *without_picture(root)]
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or find_spec("playwright") is None:
        print("chromium or Playwright is not installed: pages were not opened in a browser")
    else:
        found += opened(root, browser)
    for each in found:
        print(each)
    print(f"{sum(1 for _ in root.rglob('*.html'))} pages, {len(found)} problems")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
