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


def test_every_page_outside_the_reference_is_opened_once_or_more(tmp_path):
    for name in ("index", "theory/a", "theory/b", "gallery/1/plot_x", "api/names/x", "_modules/y", "search", "live"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.html").touch()
    *fixed, light, dark = check_site.visits(tmp_path)
    assert {(size, mode) for size, mode, _ in fixed} == {
        (size, m) for size in check_site.SIZES for m in check_site.MODES
    }
    assert all(names == check_site.OPENED for _, _, names in fixed)
    assert light == ((390, 844), "light", ["gallery/1/plot_x", "theory/b"])
    assert dark == ((390, 844), "dark", ["theory/a"])


def test_an_example_without_a_picture_is_found(tmp_path):
    folder = tmp_path / "gallery" / "9_real_models"
    folder.mkdir(parents=True)
    (folder / "plot_drawn.html").write_text('<img src="../../_images/sphx_glr_plot_drawn_001.png">')
    (folder / "plot_silent.html").write_text('<a href="plot_drawn.html"><img src="sphx_glr_plot_silent_thumb.png"></a>')
    (folder / "plot_skipped.html").write_text("<pre>skipped: x is not installed: make models\n</pre>")
    assert list(check_site.without_picture(tmp_path)) == [
        "gallery/9_real_models/plot_silent.html: has no picture",
        "gallery/9_real_models/plot_skipped.html: has no picture (skipped: x is not installed: make models)",
    ]
    (folder / "plot_drawn.html").unlink()  # no example has been run
    assert list(check_site.without_picture(tmp_path)) == []
