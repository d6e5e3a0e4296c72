"""The page in a browser with software rendering and no network: one file from disk, a replay, and the live server."""

import contextlib
import io
import shutil
import threading
import time

import numpy as np
import pytest
from PIL import Image

import tokenfield as tkf
from tokenfield.explorer.export import export_page, one_file
from tokenfield.explorer.replay import replay_data
from tokenfield.explorer.widget import Page

playwright = pytest.importorskip("playwright.sync_api", reason='playwright is not installed: pip install -e ".[test]"')
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox", "--disable-background-networking"]
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="chromium is not installed (make test installs it when run by root)"
)
SECONDS = 60


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def replay():
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
    return replay_data(tkf.simulate(model, tkf.uniform_sphere(24, 3, seed=3), 20.0, save_at=201))


@pytest.fixture
def opened(browser):
    """Return a function that opens an address with everything else blocked, and gives the page and what went wrong."""
    contexts = []

    def go(address, allowed, script=None, **options):
        context = browser.new_context(**{"viewport": {"width": 640, "height": 480}} | options)
        contexts.append(context)
        if script is not None:
            context.add_init_script(script)
        page, wrong = context.new_page(), []
        page.on("console", lambda line: wrong.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(allowed) else None)
        context.route(lambda url: not url.startswith(allowed), lambda route: route.abort())
        page.goto(address)
        return page, wrong

    yield go
    for context in contexts:
        context.close()


def drawn_frames(page, least):
    """Wait until the page has drawn so many frames, and return how many. Polled from here: the page's policy forbids eval."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = page.evaluate("Number(document.querySelector('[data-frames]')?.dataset.frames ?? 0)")
        if found >= least:
            return found
        time.sleep(0.05)
    raise AssertionError(f"the page drew {found} frames in {SECONDS} s")


def check(page, wrong):
    """The scene is not blank, it changes, and nothing was complained about or asked of the network."""
    count = drawn_frames(page, 2)
    pictures = [page.locator("canvas").first.screenshot()]
    drawn_frames(page, count + 4)
    pictures.append(page.locator("canvas").first.screenshot())
    first, second = (np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), int) for each in pictures)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 50
    assert (np.abs(first - second).max(axis=2) > 30).sum() > 20  # more than a shimmer
    assert wrong == []


def test_one_file_computes_from_disk(opened, tmp_path):
    path = export_page(tmp_path / "page.html")
    page, wrong = opened(path.as_uri(), ("file:", "blob:", "data:"))
    check(page, wrong)


def test_one_file_replays_a_run(opened, replay, tmp_path):
    path = export_page(tmp_path / "page.html", replay)
    page, wrong = opened(path.as_uri(), ("file:", "blob:", "data:"))
    check(page, wrong)


def test_a_notebook_shows_a_run_in_a_frame(opened, replay, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body>{Page(replay, one_file(replay), 440)._repr_html_()}")
    page, wrong = opened(path.as_uri(), ("file:", "blob:", "data:", "about:"))
    check(page.frame_locator("iframe").owner.element_handle().content_frame(), wrong)


GAUSSIAN = {
    "t1": 100.0,
    "attention": {"kind": "softmax", "A": [[0.0, 1.0], [-2.0, -1.0]]},
    "norm": {"kind": "none"},
    "state": {"kind": "gaussian", "mean": [0.5, 0.2], "cov": [[0.7, 0.1], [0.1, 0.3]]},
}


@contextlib.contextmanager
def served(config, replay=None):
    """The address of a server that begins with a config or replays a run, and what a page there may ask for."""
    uvicorn = pytest.importorskip("uvicorn", reason='needs pip install -e ".[explore]"')
    from tokenfield.explorer.serve import free_port, settings
    from tokenfield.explorer.server import application

    with free_port(0) as listening:
        port, token = listening.getsockname()[1], "token-of-a-test"
        server = uvicorn.Server(settings(application(port, token, config=config, replay=replay)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            origin = f"http://127.0.0.1:{port}"
            yield f"{origin}/?token={token}", (origin, f"ws://127.0.0.1:{port}", "blob:", "data:")
        finally:
            server.should_exit = True
            thread.join(15)
        assert not thread.is_alive()


@pytest.mark.parametrize(("config", "names"), [(None, []), (GAUSSIAN, ["standard deviations", "cone of covariances"])])
def test_the_server_runs_the_page_live(opened, config, names):
    with served(config) as (address, allowed):
        page, wrong = opened(address, allowed)
        check(page, wrong)
        shown = page.locator(".names span").all_inner_texts()
        assert len(shown) == len(names)
        assert all(name in text for name, text in zip(names, shown, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "clock", "plots"),
    [
        ("circle_density", "density on the circle", ["energy", "order", "density", "modes"]),
        ("sphere_density", "density on the sphere", ["energy", "order", "modes"]),
        ("gaussian", "Gaussian", ["deviations", "mean"]),
    ],
)
def test_a_state_that_is_no_tokens_is_shown_as_what_it_is(opened, state, clock, plots):
    config = (
        GAUSSIAN
        if state == "gaussian"
        else {"t1": 0.3, "attention": {"beta": 4.0}, "state": {"kind": state, "modes": 8, "size": 0.3, "seed": 1}}
    )
    with served(config) as (address, allowed):
        page, wrong = opened(address, allowed)
        drawn_frames(page, 5)
        assert clock in page.locator(".clock").inner_text()
        found = page.locator(".panel").evaluate_all("all => all.map((panel) => panel.dataset.panel)")
        assert found == plots
        assert page.get_by_label("n", exact=True).is_hidden()  # no tokens to edit
        assert page.locator(".tools").is_hidden()
        assert wrong == []


@pytest.mark.slow
def test_tokens_of_many_dimensions_are_seen_along_three(opened):
    config = {"attention": {"kind": "relu"}, "tokens": {"n": 40, "d": 8}}
    with served(config) as (address, allowed):
        page, wrong = opened(address, allowed)
        check(page, wrong)
        assert "d = 8: three principal axes" in page.locator(".clock").inner_text()
        assert page.locator("[data-panel=attention]").is_visible()


def test_a_browser_without_websockets_is_told_so(opened):
    with served(None) as (address, allowed):
        page, _ = opened(address, allowed, script="delete globalThis.WebSocket;")
        page.locator(".notice.bad").wait_for(timeout=1000 * SECONDS)
        assert "This browser has no websockets" in page.locator(".notices").inner_text()
