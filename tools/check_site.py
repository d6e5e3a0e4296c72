"""Check a built documentation site: every link leads somewhere, no markup is left, and nothing is fetched from outside.

    python tools/check_site.py docs/_build/html

Where Playwright and chromium are installed, pages are opened too, at the sizes of a desktop and a phone, light and dark: no page
may be wider than its window, ask for anything that is not a file of the site, or complain on the console.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LEFT = re.compile(r"&lt;(?:inline|literal|reference|pending_xref)\b|\{(?:name|test|claim|cite:[pt])\}`")
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
OPENED = (
    "index",
    "explore",
    "start/student",
    "theory/normalization",
    "theory/errata",
    "reference/keys",
    "gallery/index",
    "gallery/1_first_steps/plot_first_clusters",
    "api/models",
    "api/names/tokenfield.Softmax",
)
SIZES = ((1280, 900), (390, 844))


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


def opened(root: Path) -> Iterator[str]:
    """What is wrong with pages in a browser, one line each."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width, height in SIZES:
            for mode in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=mode)
                for name in OPENED:
                    page, where = context.new_page(), f"{name} at {width} pixels, {mode}"
                    said: list[str] = []
                    page.on("request", lambda asked, said=said: said.append(asked.url) if outside(asked.url) else None)
                    page.on("console", lambda line, said=said: said.append(line.text) if line.type == "error" else None)
                    page.goto((root / f"{name}.html").as_uri())
                    page.wait_for_timeout(500)
                    root_element = "document.documentElement"
                    if page.evaluate(f"{root_element}.scrollWidth > {root_element}.clientWidth"):
                        said.append("is wider than its window")
                    yield from (f"{where}: {each}" for each in said)  # what it asked for, or complains of
                    page.close()
                context.close()
        browser.close()


def outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    found = list(problems(root))
    try:
        import playwright  # noqa: F401

        found += opened(root) if shutil.which("chromium") else []
    except ModuleNotFoundError:
        print("Playwright is not installed: pages were not opened in a browser")
    for each in found:
        print(each)
    print(f"{sum(1 for _ in root.rglob('*.html'))} pages, {len(found)} problems")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
