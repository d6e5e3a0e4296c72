"""What a reader does on the page, in a browser: tools, matrices, sliders, links, stories, a phone, no WebGL2."""

import base64
import io
import time
from urllib.parse import parse_qs

import numpy as np
import pytest
from PIL import Image
from test_page_in_browser import SECONDS, browser, drawn_frames, opened, pytestmark  # noqa: F401

from tokenfield.explorer.export import export_page

LOCAL = ("file:", "blob:", "data:")
STILL = {"reduced_motion": "reduce"}  # the page then waits for Play


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return export_page(tmp_path_factory.mktemp("page") / "page.html").as_uri()


def until(page, condition, what):
    """Wait for a condition on the attributes that the page sets on its root."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        data = page.evaluate("({...document.querySelector('.tkf').dataset})")
        if condition(data):
            return data
        time.sleep(0.03)
    raise AssertionError(f"{what} did not happen in {SECONDS} s: {data}")


def link(page):
    """The keys of the link, once the page has written it."""
    time.sleep(0.4)
    return {key: value[0] for key, value in parse_qs(page.evaluate("location.hash.slice(1)")).items()}


def angles(page):
    """The tokens on the circle that were placed by hand, as angles."""
    text = link(page)["x"]
    x = np.frombuffer(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), np.int16).reshape(-1, 2)
    return np.arctan2(x[:, 1], x[:, 0])


def test_tokens_are_added_moved_painted_and_removed(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=5&d=2&beta=1&seed=1", LOCAL, **STILL)
    drawn_frames(page, 1)
    box = page.locator("canvas.scene").bounding_box()
    radius = 0.44 * min(box["width"], box["height"])

    def place(angle):
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        return middle[0] + radius * np.cos(angle), middle[1] - radius * np.sin(angle)

    def use(tool, *path):
        page.locator(f"[data-tool={tool}]").and_(page.get_by_role("radio")).click()
        page.mouse.move(*place(path[0]))
        page.mouse.down()
        for angle in path[1:]:
            page.mouse.move(*place(angle), steps=4)
        page.mouse.up()
        return angles(page)

    page.evaluate("document.querySelector('.notices').replaceChildren()")  # a notice may lie over a token
    added = use("add", -2.0)
    assert len(added) == 6
    assert added[-1] == pytest.approx(-2.0, abs=0.02)
    moved = use("move", -2.0, -1.8, -1.5)
    np.testing.assert_allclose(moved[:-1], added[:-1], atol=1e-4)
    assert moved[-1] == pytest.approx(-1.5, abs=0.02)
    removed = use("remove", -1.5)
    np.testing.assert_allclose(removed, added[:-1], atol=1e-4)
    painted = use("paint", 2.8, 2.9, 3.0)
    assert len(painted) >= 8
    assert np.all(np.abs(np.angle(np.exp(1j * (painted[5:] - 2.9)))) < 0.4)
    assert page.evaluate("document.querySelector('.tkf').dataset.playing") == "false"
    assert wrong == []


def test_tools_are_chosen_by_the_arrow_keys(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=5&d=2&beta=1", LOCAL, **STILL)
    drawn_frames(page, 1)
    page.get_by_role("radio", name="Turn").focus()
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("radio", checked=True).get_attribute("aria-label") == "Add"
    assert page.evaluate("document.activeElement.dataset.tool") == "add"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.get_by_role("radio", checked=True).get_attribute("aria-label") == "Remove"
    assert wrong == []


def test_plots_show_the_last_numbers_and_the_formulas_behind_labels(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=60&d=2&beta=100&seed=1", LOCAL, viewport={"width": 1280, "height": 800})
    drawn_frames(page, 12)
    page.get_by_role("button", name="Pause").click()
    order = page.locator("[data-panel=order] .readout")
    assert 0 <= float(order.inner_text()) <= 1
    label = page.locator("[data-panel=clusters] .markchip")
    assert label.inner_text() == "kmax = 14"
    assert page.locator("[data-panel=modes] .markchip").inner_text().startswith("k = 14: rate 0.7")
    label.hover()
    tip = page.get_by_role("tooltip")
    assert tip.locator("sup").first.inner_text() == "d/2−1"
    assert "Holds for: number of first clusters" in tip.inner_text()
    assert wrong == []


@pytest.mark.slow
def test_matrices_move_tokens_as_they_say(opened, address):  # noqa: F811
    """Under V = -I tokens repel, and under a stretched A and V = I they meet; entries can be typed."""
    page, wrong = opened(f"{address}#n=12&d=2&beta=1&seed=1&speed=20", LOCAL, **STILL)
    page.get_by_label("V", exact=True).select_option("minus")
    page.get_by_role("button", name="Play").click()
    apart = until(page, lambda data: float(data.get("time", 0)) > 20, "time 20")
    assert int(apart["clusters"]) == 12
    assert link(page)["V"] == "-1"
    page.get_by_label("V", exact=True).select_option("")
    page.get_by_label("A", exact=True).select_option("stretch")
    entry = page.get_by_label("A row 2 column 1")
    entry.fill("0.5")
    entry.press("Enter")
    together = until(page, lambda data: data.get("clusters") == "1", "one cluster")
    assert float(together["time"]) > 20
    assert link(page)["A"] == "1,0,0.5,0.4"
    assert wrong == []


def test_beta_decides_how_many_clusters_there_are_at_time_14(opened, address):  # noqa: F811
    page, wrong = opened(f"{address}#n=64&beta=9&speed=8", LOCAL)
    many = until(page, lambda data: float(data.get("time", 0)) > 14, "time 14")
    assert 2 <= int(many["clusters"]) <= 14
    page.get_by_label("β", exact=True).fill(str(round((1 / 200) ** (1 / 3), 3)))
    page.get_by_role("button", name="Rewind").click()
    until(page, lambda data: float(data.get("time", 99)) < 14, "the start")
    one = until(page, lambda data: float(data.get("time", 0)) > 14, "time 14")
    assert one["clusters"] == "1"
    assert link(page)["beta"] == "1"
    assert wrong == []


def test_a_link_restores_the_page(opened, address):  # noqa: F811
    model, start = "kernel=unnormalized&beta=2.5&norm=ngpt&alpha=0.7", "start=clusters&n=30&d=2&seed=7&k=3&spread=0.2"
    fragment = f"{model}&{start}&speed=0.25&field=1&vs=pre"
    page, wrong = opened(f"{address}#{fragment}", LOCAL, **STILL)
    drawn_frames(page, 1)
    page.get_by_label("vector field").uncheck()
    page.get_by_label("vector field").check()
    assert link(page) == {key: value[0] for key, value in parse_qs(fragment).items()}
    shown = {name: page.get_by_label(name, exact=True).input_value() for name in ("Kernel", "Norm", "Space", "Start")}
    assert shown == {"Kernel": "unnormalized", "Norm": "ngpt", "Space": "2", "Start": "clusters"}
    page.goto(f"{address}#kernel=none&beta=x")
    page.reload()
    assert "The link was not understood in full" in page.locator(".notices").inner_text()
    assert wrong == []


def test_stories_run_to_their_end(opened, address):  # noqa: F811
    page, wrong = opened(address, LOCAL, viewport={"width": 420, "height": 360})
    for name in page.get_by_label("Stories").locator("option").evaluate_all("all => all.map((o) => o.value)")[1:]:
        page.get_by_label("Stories").select_option(name)
        steps = page.locator(".dot").count()
        for step in range(steps):
            before = int(page.evaluate("document.querySelector('.tkf').dataset.frames"))
            drawn_frames(page, before + 2)
            assert page.locator(".dot.on").get_attribute("aria-label") == f"Step {step + 1}"
            if step < steps - 1:
                page.locator("[data-next]").click()
        assert page.locator(".story .primary").inner_text().startswith("Next story")
    assert wrong == []


def test_a_phone(opened, address):  # noqa: F811
    page, wrong = opened(address, LOCAL, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    drawn_frames(page, 2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    beta = page.get_by_label("β", exact=True).bounding_box()
    assert beta["y"] + beta["height"] < 844  # the sphere and the slider are on one screen
    assert wrong == []


def test_without_webgl_the_scene_is_drawn_with_canvas2d(opened, address):  # noqa: F811
    none = (
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest); };"
    )
    page, wrong = opened(address, LOCAL, script=none)
    drawn_frames(page, 3)
    assert page.evaluate("document.querySelector('.tkf').dataset.renderer") == "Canvas2D"
    assert "no WebGL2" in page.locator(".notices").inner_text()
    picture = np.asarray(Image.open(io.BytesIO(page.locator("canvas.scene").screenshot())).convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    assert wrong == []


@pytest.mark.slow
def test_a_film_is_saved_as_gif(opened, address, tmp_path):  # noqa: F811
    page, wrong = opened(f"{address}#n=40&beta=9", LOCAL)
    drawn_frames(page, 2)
    page.get_by_role("button", name="Record a film (GIF)").click()
    drawn_frames(page, 12)
    with page.expect_download() as download:
        page.get_by_role("button", name="Record a film (GIF)").click()
    download.value.save_as(tmp_path / "a.gif")
    film = Image.open(tmp_path / "a.gif")
    assert film.size == (640, 400)
    frames = []
    for k in (0, film.n_frames - 1):
        film.seek(k)
        frames.append(np.asarray(film.convert("RGB"), int))
    assert film.n_frames > 2
    assert (np.abs(frames[0] - frames[1]).max(axis=2) > 30).sum() > 20
    assert wrong == []
