"""The live page in chromium with software rendering: time from opening it to the first motion, and frames a second.

The page is the one file that `tokenfield explore --export` writes, opened from disk. Limits: 1.5 s, and 30 frames a second for 500
tokens.
"""

import os
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
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
            rate, refreshes, work = frame_rate(browser, f"{page}#{case}")
            print(f"  live page, {case}: {rate:.1f} frames a second of {refreshes:.1f} that the browser offers")
            parts = ", ".join(f"{name} {each:.1f}" for name, each in work.most_common(5))
            print(f"  live page, {case}: {work.total():.1f} ms of processor time a frame ({parts})")
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


def frame_rate(browser: Any, address: str) -> tuple[float, float, Counter[str]]:
    """Frames a second that are drawn while tokens move, animation frames a second, and processor time a frame in ms by thread."""
    page = opened(browser, address)
    page.evaluate(
        "const count = () => { window.refreshes = (window.refreshes ?? 0) + 1; requestAnimationFrame(count); }; count()"
    )
    time.sleep(WARM_UP)
    counts = "[document.querySelector('.tkf').dataset.frames, window.refreshes].map(Number)"
    (drawn, refreshes), work, begun = page.evaluate(counts), processor_time(), time.perf_counter()
    time.sleep(SECONDS)
    (drawn_after, refreshes_after), spent = page.evaluate(counts), processor_time()
    seconds, frames = time.perf_counter() - begun, max(1, drawn_after - drawn)
    page.context.close()
    per_frame = Counter({name: (each - work[name]) / frames for name, each in spent.items()})
    return frames / seconds, (refreshes_after - refreshes) / seconds, per_frame


def processor_time() -> Counter[str]:
    """Milliseconds of processor time of the browser's processes so far, by process and thread; empty where there is no /proc."""
    found: Counter[str] = Counter()
    for pid in descendants():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"chrom" not in command:
                continue
            kind = re.search(rb"--type=([\w-]+)", command)
            name = kind[1].decode() if kind else "browser"
            for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
                before, _, after = stat.read_text().rpartition(") ")
                thread = "SwiftShader" if "(Thread<" in before else before.partition(" (")[2]
                user, system = after.split()[11:13]
                found[f"{name}/{thread}"] += 1000 * (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except OSError:  # the process has ended
            continue
    return found


def descendants() -> list[int]:
    """The processes that this one has started, and those that these have started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]
