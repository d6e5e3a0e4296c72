"""What `make docs` finds wrong with a site."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "tools"))
import check_site

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
STYLE = "<style>body {{ background: {}; color: {}; }} p {{ width: 9ch; white-space: nowrap; overflow: {}; }}</style>"
TEXT = "<p>a line that does not fit</p><div style='width: 1px; overflow: hidden'>for readers</div>"


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_cut_text_wrong_colors_and_wide_pages_are_found(tmp_path, monkeypatch):
    pytest.importorskip("playwright.sync_api", reason='pip install -e ".[test]"')
    monkeypatch.setattr(check_site, "SIZES", ((390, 844),))
    monkeypatch.setattr(check_site, "OPENED", ("cut", "scrolls", "wide"))
    (tmp_path / "cut.html").write_text(STYLE.format("#000", "#ddd", "hidden") + TEXT)
    (tmp_path / "scrolls.html").write_text(STYLE.format("#fff", "#222", "auto") + TEXT)
    (tmp_path / "wide.html").write_text(STYLE.format("#fff", "#eee", "auto") + "<div style='width: 500px'>wide</div>")
    assert list(check_site.opened(tmp_path, BROWSER)) == [
        "cut at 390 pixels, light: cuts off text: p : a line that does not fit",
        "cut at 390 pixels, light: has text of brightness 221 on 0",
        "wide at 390 pixels, light: is wider than its window",
        "wide at 390 pixels, light: has text of brightness 238 on 255",
        "cut at 390 pixels, dark: cuts off text: p : a line that does not fit",
        "scrolls at 390 pixels, dark: has text of brightness 34 on 255",
        "wide at 390 pixels, dark: is wider than its window",
        "wide at 390 pixels, dark: has text of brightness 238 on 255",
    ]


def test_dead_links_and_files_from_outside_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="none.html">a</a><img src="https://example.org/a.png"><a href="#b">b</a>'
    )
    assert list(check_site.problems(tmp_path)) == [
        "index.html: fetches https://example.org/a.png",
        "index.html: no such file: none.html",
        "index.html: no such place: #b",
    ]
