"""Every kind of page on a desktop and on a phone, in light and in dark: nothing overflows, nothing is fetched."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path += [str(Path(__file__).parent.parent / "probe"), str(Path(__file__).parents[2] / "tools")]
import check_site
import made_probe

import tokenfield as tkf
from tokenfield.atlas import runner
from tokenfield.atlas.claim import Claim, Evidence, at_most, close, equal
from tokenfield.atlas.page import write_page
from tokenfield.cli.lipschitz_numbers import at_tokens
from tokenfield.lipschitz.growth import Growth, fit_power_law
from tokenfield.plotting.growth import growth_figure
from tokenfield.plotting.norms import norms_figure
from tokenfield.plotting.phase_diagram import phase_diagram_figure
from tokenfield.probe.architecture import Architecture
from tokenfield.probe.page import write_probe_report
from tokenfield.probe.powers import with_powers
from tokenfield.probe.predicted import predict
from tokenfield.report import write_report
from tokenfield.report.lipschitz import constant_story, growth_story
from tokenfield.report.norms import norms_story
from tokenfield.report.phase_diagram import phase_diagram_story
from tokenfield.report.story import Comparison, Story, write_story
from tokenfield.sweep.page import sweep_story

playwright = pytest.importorskip("playwright.sync_api", reason='playwright is not installed: pip install -e ".[test]"')
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="chromium is not installed (make test installs it when run by root)"
)
SWEEP = {
    "theory": "critical_gamma",
    "run": {"depth": 1, "attention": {"beta": 1.0}, "tokens": {"kind": "equiangular", "n": 16, "d": 16, "rho": 0.5}},
    "axes": {"gamma": [0.5, 2.0, 4.0]},
    "record": {"cosine": "mean_cosine"},
}
SIZES = {"desktop": (1100, 900), "phone": (360, 780)}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


def claim(name, section, evidence):
    statement = "As t grows, 1-ρ falls like e^{-2t}, and |V|(√n(1 + |A|R²) + |A|R²) bounds it for every n ≥ 2."
    return Claim(
        name, section, "A title with n ≥ 2", statement, "How smooth is attention?, 2024", lambda quick: evidence
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report with very long words, a study with its figure, and an atlas."""
    folder = tmp_path_factory.mktemp("pages")
    long = "x" * 300
    row = Comparison(f"a number {long}", "0.123456789012345", "≤ 1", True, long)
    many = [(f"a{k}", long) for k in range(3)]
    story = Story(
        "Title " + long, "Asked? " + long, "Answer " + long, [row], "About.", many, {long: "a file"}, long, long, many
    )
    study = tkf.studies.normalization_study(d=8, n=4, depth=2, seeds=2, rules=("post",))
    results = [
        runner.measure(
            claim("one", "Models", Evidence((at_most("bound", 1.0, 0.5),), norms_figure(study), "A caption.")), True
        ),
        runner.measure(
            claim("two", "Noise", Evidence((close("x", 1.0, 2.0, rtol=0.1, printed=True), equal("y", 1, 1)))), True
        ),
        runner.measure(claim("three", "Noise", Evidence((equal("y", 1, 1),))), True),
    ]
    (folder / "atlas").mkdir()
    run = tkf.simulate(
        tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN()), tkf.uniform_sphere(12, 3, seed=0), 3.0, save_at=5
    )
    write_page(results, 3, True, folder / "atlas" / "index.html")
    diagram = tkf.theory.phase_diagram([1.0, 4.0], [0.3, 3.0], d=2)
    lengths = np.array([10, 20, 40])
    constants = np.stack([lengths**0.25, lengths**0.3], axis=1)
    bounds = tuple(tkf.lipschitz.bounds(np.eye(2), np.eye(2), R=1.0, n=n) for n in lengths.tolist())
    found = Growth(lengths, constants, fit_power_law(lengths, constants), True, np.ones(3), bounds)
    inputs = {"attention": "softmax", "d": 2, "data": "heavy_tailed", "causal": False}
    swept = tkf.sweep(SWEEP, folder / "found", progress=False)
    numbers = at_tokens(tkf.Softmax(1.0), tkf.uniform_sphere(8, 3, seed=0), None, 1e-6, 2, 1000)
    one = {"attention": "softmax", "beta": 1.0, "n": 8, "d": 3, "R": None, "data": "sphere", "seed": 0}
    cloud = tkf.simulate(
        tkf.Transformer(tkf.Softmax(A=np.diag([1.0, -1.0]))), tkf.Gaussian([0.1, 0.2], np.eye(2) / 2), 0.3, save_at=4
    )
    bumps = tkf.CircleDensity.from_function(lambda a: np.exp(np.cos(3 * a)), modes=16)
    density = tkf.simulate(tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN()), bumps, 1.0, save_at=4)
    return {
        "story": write_story(story, folder / "story"),
        "run": write_report(run, folder / "run"),
        "norms": write_story(norms_story(study, norms_figure(study)), folder / "norms"),
        "phase-diagram": write_story(
            phase_diagram_story(diagram, None, phase_diagram_figure(diagram)), folder / "diagram"
        ),
        "lipschitz": write_story(growth_story(found, inputs, growth_figure({"x": found})), folder / "growth"),
        "constant": write_story(constant_story(numbers, one), folder / "constant"),
        "gaussian": write_report(cloud, folder / "gaussian"),
        "density": write_report(density, folder / "density"),
        "sweep": write_story(sweep_story(swept, {"cosine": swept.plot()}), folder / "found"),
        "probe": write_probe_report(probed(), folder / "probe"),
        "atlas": folder / "atlas" / "index.html",
    }


def probed():
    """A result of the probe that needs no model."""
    data = made_probe.dataset()
    data = with_powers(data.merge(predict(data, "post", causal=False), combine_attrs="no_conflicts"))
    architecture = Architecture("bert", "post", False, False, 4, 2, 2, 64, 32, False, False, 512, "Q4_1", True, "")
    return SimpleNamespace(
        dataset=data, architecture=architecture, notes=[f"text {k} has 900 tokens" for k in range(6)]
    )


@pytest.mark.slow  # one process makes the pages, for both views of a case
@pytest.mark.parametrize("views", [("desktop light", "phone dark"), ("desktop dark", "phone light")])
def test_no_page_overflows_cuts_text_or_fetches(browser, pages, views):
    for view in views:
        check_pages(browser, pages, *view.split())


def check_pages(browser, pages, size, scheme):
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    for name, path in pages.items():
        page = context.new_page()
        asked, complaints = [], []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on(
            "console",
            lambda line, complaints=complaints: complaints.append(line.text) if line.type == "error" else None,
        )
        page.on("pageerror", lambda error, complaints=complaints: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert sizes[0] <= sizes[1], (name, sizes)
        assert page.evaluate(check_site.CUT) == [], name
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert complaints == []
        paper, ink = page.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
        light, dark = (np.mean([float(part) for part in each[4:-1].split(",")]) for each in (paper, ink))
        assert (light > dark) == (scheme == "light")
        assert abs(light - dark) > 150
        pictures = page.locator("img").all()
        assert all(picture.get_attribute("alt") for picture in pictures)
        if name == "run":
            # Where the plot is higher than wide, plotly cuts a ball off at both sides.
            fits = "(plot => plot.clientHeight <= plot.clientWidth + 140)(document.getElementById('tokens'))"
            page.wait_for_function(fits, timeout=30_000)
        page.close()
    context.close()


@pytest.mark.slow
def test_the_atlas_is_filtered_and_its_figures_lie_beside_it(browser, pages):
    page = browser.new_page()
    page.goto(pages["atlas"].as_uri())
    section, verdict = page.locator("select").all()
    section.select_option("Noise")
    assert page.locator("article:visible").evaluate_all("all => all.map(each => each.id)") == ["two", "three"]
    verdict.select_option("corrected")
    assert page.locator("article:visible").evaluate_all("all => all.map(each => each.id)") == ["two"]
    assert page.locator(".contents tbody tr:visible").count() == 1
    assert page.locator("output").inner_text() == "1 claim shown"
    section.select_option("")
    verdict.select_option("")
    assert page.locator("article:visible").count() == 3
    assert page.locator("article#one math").count() >= 3
    target = page.locator("article#one a[download]").get_attribute("href")
    assert (pages["atlas"].parent / target).read_bytes().startswith(b"\x89PNG")
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(pages["atlas"].as_uri())
    assert plain.locator("article:visible").count() == 3
    assert plain.locator(".filter:visible").count() == 0
    page.close()
