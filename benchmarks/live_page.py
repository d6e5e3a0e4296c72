"""The live page in chromium with software rendering: time from opening it to the first motion, and frames a second.

The page is the one file that `tokenfield explore --export` writes, opened from disk. Limits: 1.5 s, and 30 frames a second for 500
tokens.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPENED, SECONDS, WARM_UP = 5, 5.0, 3.0
FIRST_MOTION, RATE = 1.5, 30.0
FLAGS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox", "--disable-background-networking"]
CASES = ("n=500", "n=500&d=2", "n=2000&trails=0")


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, how many times better than the limit)."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        chromium = None
    if chromium is None:
        print("  live page: not measured, chromium or playwright is not installed")
        return
    from tokenfield.explorer import export_page

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        page = export_page(Path(folder, "page.html")).as_uri()
        browser = tool.chromium.launch(executable_path=chromium, args=FLAGS)
        first = statistics.median(first_motion(browser, page) for _ in range(OPENED))
        print(f"  live page, first motion after opening: {first:.2f} s")
        yield "live page, first motion", {f"limit {FIRST_MOTION} s": FIRST_MOTION / first}
        for case in CASES:
            rate = frame_rate(browser, f"{page}#{case}")
            print(f"  live page, {case}: {rate:.0f} frames a second")
            if case.startswith("n=500"):
                yield f"live page, frame rate, {case}", {f"limit {RATE:.0f} a second": rate / RATE}
        browser.close()


def opened(browser: Any, address: str) -> Any:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(address)
    return page


def shown(page: Any, name: str) -> float:
    """A number that the page says about itself, 0 if it does not yet."""
    return float(page.evaluate(f"document.querySelector('.tkf')?.dataset.{name} ?? 0"))


def first_motion(browser: Any, address: str) -> float:
    """Seconds from the start of loading until tokens have moved on the screen."""
    page = opened(browser, address)
    while not (moved := shown(page, "firstMotion")):
        time.sleep(0.02)
    page.context.close()
    return moved / 1000


def frame_rate(browser: Any, address: str) -> float:
    """Frames a second that are drawn while tokens move."""
    page = opened(browser, address)
    time.sleep(WARM_UP)
    before, begun = shown(page, "frames"), time.perf_counter()
    time.sleep(SECONDS)
    rate = (shown(page, "frames") - before) / (time.perf_counter() - begun)
    page.context.close()
    return rate
