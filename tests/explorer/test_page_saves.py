"""What readers take from the page or see of it: pictures, films, code, dark mode, the widget, keyboard and touch."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from test_page_controls import LOCAL, STILL, address, link, until  # noqa: F401
from test_page_in_browser import browser, check, drawn_frames, opened, pytestmark, replay, served  # noqa: F401

from tokenfield.explorer.export import one_file
from tokenfield.explorer.widget import SCRIPT

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
SPY = (
    "globalThis.copied = null;"
    "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { globalThis.copied = text; }}});"
)


def test_keys_play_pause_and_step(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=20&d=3&beta=4", LOCAL, **STILL)
    drawn_frames(page, 1)
    page.locator("canvas.scene").focus()
    page.keyboard.press(" ")
    until(page, lambda data: data["playing"] == "true" and float(data.get("time", 0)) > 0.1, "motion")
    page.get_by_role("button", name="Rewind").click()  # goes on playing, also where less motion is asked for
    assert page.evaluate("document.querySelector('.tkf').dataset.playing") == "true"
    page.locator("canvas.scene").focus()
    page.keyboard.press(" ")
    page.wait_for_timeout(300)
    before = float(page.evaluate("document.querySelector('.tkf').dataset.time"))
    page.keyboard.press(".")
    until(page, lambda data: abs(float(data["time"]) - before - 0.1) < 1e-9, "a step of 0.1")
    assert wrong == []


def test_the_circle_and_the_sphere_are_turned(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=20&d=2&beta=4", LOCAL, has_touch=True, **STILL)
    drawn_frames(page, 1)
    box = page.locator("canvas.scene").bounding_box()
    cx, cy, r = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, 0.3 * box["height"]
    page.mouse.move(cx + r, cy)
    page.mouse.down()
    for angle in (0.5, 1.0, np.pi / 2):
        page.mouse.move(cx + r * np.cos(angle), cy - r * np.sin(angle))
    page.mouse.up()
    assert float(link(page)["spin"]) == pytest.approx(np.pi / 2, abs=0.03)  # counterclockwise, with the pointer
    page.goto(f"{address}#n=20&d=3&beta=4&yaw=1&pitch=0")
    page.reload()
    drawn_frames(page, 1)
    radius = 0.44 * min(box["width"], box["height"])
    touch = page.context.new_cdp_session(page)

    def at(kind, *points):
        spots = [{"x": x, "y": y} for x, y in points]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})

    at("touchStart", (cx, cy))
    for k in range(1, 6):
        at("touchMove", (cx + 10 * k, cy + 4 * k))
    at("touchEnd")
    found = link(page)
    assert float(found["yaw"]) == pytest.approx(1 - 50 / radius, abs=0.08)
    assert float(found["pitch"]) == pytest.approx(20 / radius, abs=0.05)
    assert wrong == []


@pytest.mark.slow
def test_dark_mode(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=40&beta=4", LOCAL, color_scheme="dark", **STILL, **DESKTOP)
    drawn_frames(page, 2)
    assert page.evaluate("document.querySelector('.tkf').dataset.theme") == "dark"
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"))
    assert np.median(picture) < 40
    assert (picture > 180).sum() > 500  # text that can be read
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_timeout(300)
    assert np.median(np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"))) > 215
    assert wrong == []


def test_formulas_lead_to_where_they_come_from(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=40&beta=4", LOCAL, **DESKTOP)
    drawn_frames(page, 12)
    page.get_by_role("button", name="Pause").click()
    page.locator("[data-panel=modes] .markchip").first.hover()
    page.get_by_role("button", name="Where it comes from").click()
    section = page.locator("#theory-modes")
    assert "Funk–Hecke" in section.inner_text()
    top = section.bounding_box()["y"]
    assert 0 <= top < 400  # in view
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Help").click()
    page.get_by_role("button", name="Where formulas come from").click()
    assert page.locator("dialog section").count() == 7
    assert wrong == []


@pytest.mark.slow
def test_graphics_that_are_lost_come_back(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=40&beta=4", LOCAL)
    drawn_frames(page, 2)
    page.evaluate(
        "globalThis.lose = document.querySelector('canvas.scene').getContext('webgl2')"
        ".getExtension('WEBGL_lose_context'); lose.loseContext()"
    )
    page.get_by_text("its graphics are gone").wait_for()
    page.evaluate("lose.restoreContext()")
    wrong.clear()  # the browser itself notes that a context was lost
    check(page, wrong)


@pytest.mark.slow
def test_a_widget_shows_a_run(opened, replay, tmp_path):  # noqa: F811
    """What anywidget does with the script: import it and call render with a model and an element."""
    path = tmp_path / "notebook.html"
    state = json.dumps({"page": one_file(replay), "height": 440}).replace("<", "\\u003c")
    path.write_text(
        f"<!doctype html><body><div id=cell></div><script type=module>\nconst state = {state};\n"
        f"const url = URL.createObjectURL(new Blob([{json.dumps(SCRIPT)}], {{type: 'text/javascript'}}));\n"
        "const { default: widget } = await import(url);\n"
        "globalThis.leave = widget.render({ model: { get: (name) => state[name] }, el: document.getElementById('cell') });\n"
        "</script>"
    )
    page, wrong = opened(path.as_uri(), ("file:", "blob:", "data:", "about:"))
    check(page.locator("iframe").element_handle().content_frame(), wrong)
    assert page.locator("iframe").bounding_box()["height"] == 440
    page.evaluate("leave()")
    assert page.locator("iframe").count() == 0


@pytest.mark.slow
def test_a_picture_and_a_film_are_saved(opened, address, tmp_path):  # noqa: F811
    page, wrong = opened(f"{address}#n=40&beta=9", LOCAL, **DESKTOP)
    drawn_frames(page, 10)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save a picture (PNG)").click()
    download.value.save_as(tmp_path / "a.png")
    picture = Image.open(tmp_path / "a.png")
    assert picture.size == (1280, 800)
    assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 200
    page.get_by_role("button", name="Record a film (WebM)").click()
    before = drawn_frames(page, 1)
    drawn_frames(page, before + 20)
    with page.expect_download() as download:
        page.get_by_role("button", name="Record a film (WebM)").click()
    download.value.save_as(tmp_path / "a.webm")
    data = (tmp_path / "a.webm").read_bytes()
    assert data[:4] == b"\x1a\x45\xdf\xa3"  # EBML
    assert len(data) > 5000
    assert wrong == []


@pytest.mark.slow
def test_python_of_the_button_ends_in_the_clusters_of_the_page(opened, address, capsys):  # noqa: F811
    page, wrong = opened(f"{address}#n=64&beta=9&speed=8", LOCAL, script=SPY, **DESKTOP)
    until(page, lambda data: float(data.get("time", 0)) > 14, "time 14")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(400)
    count = int(page.evaluate("document.querySelector('.tkf').dataset.clusters"))
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("The Python is on the clipboard.").wait_for()
    exec(page.evaluate("globalThis.copied"), {})
    sizes = [int(word) for word in capsys.readouterr().out.strip(" []\n").split()]
    assert len(sizes) == count
    assert sum(sizes) == 64
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_timeout(300)
    assert page.evaluate("globalThis.copied").startswith(address)
    assert "beta=9" in page.evaluate("globalThis.copied")
    assert wrong == []


@pytest.mark.slow
def test_the_sweep_over_noise_reaches_its_end(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#story=noise&step=2", LOCAL, **DESKTOP)
    drawn_frames(page, 2)
    page.get_by_text("The sweep is done.").wait_for(timeout=150_000)
    assert page.evaluate("document.querySelector('.tkf').dataset.playing") == "false"
    assert "13 of 13" in page.locator("[data-panel=sweep] .readout").text_content()
    assert wrong == []
