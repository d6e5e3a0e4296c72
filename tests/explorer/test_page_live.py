"""The page with the server behind it: run files that the page knows only in part, many tokens, saved runs."""

import base64

import numpy as np
import pytest
from test_page_controls import link, until
from test_page_in_browser import browser, check, drawn_frames, opened, pytestmark, replay, served  # noqa: F401

from tokenfield.config import build
from tokenfield.config.run import read
from tokenfield.explorer.frames import decode

DENSITY = {"attention": {"beta": 4.0}, "state": {"kind": "circle_density", "modes": 8, "size": 0.3, "seed": 1}}
COPY = ["clipboard-read", "clipboard-write"]
WIDE = {"viewport": {"width": 1280, "height": 800}}


def copied(page, what):
    """What a button puts on the clipboard."""
    page.get_by_role("button", name=what).click()
    page.get_by_text("is on the clipboard", exact=False).first.wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def set_beta(page, beta):
    place = (beta / 200) ** (1 / 3)  # of the slider, whose steps are 0.002
    page.get_by_label("β", exact=True).fill(str(2 * round(500 * place) / 1000))


def config_of(toml, tmp_path):
    path = tmp_path / "copied.toml"
    path.write_text(toml)
    return read(path, {})


def test_a_run_file_is_still_there_after_a_reload(opened, tmp_path):  # noqa: F811
    with served(DENSITY) as (address, allowed):
        page, wrong = opened(address, allowed, permissions=COPY, **WIDE)
        drawn_frames(page, 3)
        page.get_by_label("trails").uncheck()
        assert set(link(page)) <= {"trails", "yaw", "pitch"}  # the model is that of the run file
        set_beta(page, 2.0)
        assert link(page)["changes"] == '{"beta":2}'
        page.reload()
        drawn_frames(page, 2)
        assert "density on the circle" in page.locator(".clock").inner_text()
        assert page.locator(".slider", has_text="β").locator("output").inner_text() == "2"
        assert page.get_by_role("button", name="Copy as Python").is_disabled()
        config = config_of(copied(page, "Copy as TOML"), tmp_path)
        assert config.state.kind == "circle_density"
        assert config.attention.get("beta") == 2.0
        assert config.t1 >= 1
        assert wrong == []


@pytest.mark.slow
def test_a_slider_changes_only_what_it_names(opened, tmp_path):  # noqa: F811
    heads = [{"kind": "relu", "beta": 2.0}, {"kind": "softmax", "beta": 3.0}]
    for attention in (
        {"kind": "relu", "beta": 1.0},
        {"kind": "sinkhorn", "beta": 1.0},
        {"kind": "multihead", "heads": heads},
    ):
        config = {"attention": attention, "rtol": 1e-7, "tokens": {"n": 30, "d": 3}}
        with served(config) as (address, allowed):
            page, wrong = opened(address, allowed, permissions=COPY, **WIDE)
            drawn_frames(page, 2)
            if "heads" not in attention:
                assert page.get_by_label("Kernel", exact=True).input_value() == attention["kind"]
                set_beta(page, 2.0)
            page.get_by_label("noise", exact=True).check()
            assert page.locator("[data-panel=cosines] .markchip").count() == 0  # no theory of another model
            page.wait_for_timeout(500)
            found = config_of(copied(page, "Copy as TOML"), tmp_path)
            assert found.attention.kind == attention["kind"]
            assert found.attention.get("beta") == (None if "heads" in attention else 2.0)
            assert found.attention.get("heads") == attention.get("heads")
            assert found.rtol == 1e-7
            assert found.noise.get("kappa") == 4.0
            assert build.tokens(found.tokens).n == 30
            assert page.locator(".notice.bad").count() == 0
            assert wrong == []


@pytest.mark.slow
def test_kernels_and_norms_of_the_server_are_in_the_menus(opened, tmp_path):  # noqa: F811
    with served(None) as (address, allowed):
        page, wrong = opened(address, allowed, permissions=COPY, **WIDE)
        drawn_frames(page, 2)
        page.get_by_label("Kernel", exact=True).select_option("relu")
        page.get_by_label("Norm", exact=True).select_option("none")
        page.wait_for_timeout(500)
        assert '"kind":"relu"' in link(page)["run"]
        page.reload()
        drawn_frames(page, 2)
        assert page.get_by_label("Kernel", exact=True).input_value() == "relu"
        found = config_of(copied(page, "Copy as TOML"), tmp_path)
        assert (found.attention.kind, found.norm.kind, found.tokens.n) == ("relu", "none", 256)
        page.get_by_label("Kernel", exact=True).select_option("softmax")
        page.get_by_label("Norm", exact=True).select_option("post")
        page.wait_for_timeout(500)
        assert link(page)["kernel"] == "softmax"
        assert page.get_by_role("button", name="Copy as Python").is_enabled()
        page.wait_for_timeout(4000)  # for predictions of the server
        page.get_by_role("button", name="Help").click()
        page.get_by_role("button", name="Where formulas come from").click()
        assert "Predictions of tokenfield for this model" in page.locator("#theory-run").inner_text()
        assert page.locator("#theory-run dt").count() >= 3
        page.keyboard.press("Escape")
        assert page.locator(".notice.bad").count() == 0
        assert wrong == []


@pytest.mark.slow
def test_files_and_classes_of_the_run_file_are_those_of_the_user(opened, tmp_path):  # noqa: F811
    matrix, tokens = tmp_path / "a.npy", tmp_path / "tokens.npy"
    np.save(matrix, [[1.0, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    np.save(tokens, np.eye(3))
    config = {
        "attention": {"kind": "tokenfield:ReLU", "A": str(matrix)},
        "tokens": {"kind": "file", "file": str(tokens)},
    }
    with served(config) as (address, allowed):
        page, wrong = opened(address, allowed, **WIDE)
        drawn_frames(page, 4)
        assert "3 single tokens" in page.locator(".clock").inner_text()
        page.get_by_role("button", name="Rewind").click()
        page.get_by_label("causal", exact=True).check()
        page.get_by_role("button", name="Rewind").click()
        page.wait_for_timeout(500)
        assert page.locator(".notice.bad").count() == 0
        assert wrong == []


@pytest.mark.slow
def test_a_hundred_thousand_tokens_move(opened):  # noqa: F811
    with served({"attention": {"beta": 4.0}, "tokens": {"n": 100_000, "d": 2}}) as (address, allowed):
        page, wrong = opened(address, allowed)
        drawn_frames(page, 5)
        first = until(page, lambda data: float(data.get("time", 0)) > 0, "motion")
        until(page, lambda data: float(data["time"]) > float(first["time"]), "more motion")
        assert "100000 tokens" in page.locator(".clock").inner_text()
        assert wrong == []


@pytest.mark.slow
def test_the_server_replays_a_saved_run(opened, replay):  # noqa: F811
    with served(None, replay) as (address, allowed):
        page, wrong = opened(address, allowed)
        check(page, wrong)
        end = until(page, lambda data: data.get("time") == "20", "the end")
        assert end["clusters"] == str(decode(base64.b64decode(replay["frames"]))[-1].clusters)
        assert page.get_by_role("button", name="Copy as Python").count() == 0  # a replay without its start
        assert wrong == []
