"""The machinery of the atlas: choosing, verdicts, pages, and claims that fail or crash."""

import json
import re

import pytest

from tokenfield.atlas import runner
from tokenfield.atlas.claim import OPEN, Check, Claim, Evidence, at_least, at_most, close, equal
from tokenfield.atlas.page import compared


def claim(measure, id="made_up"):
    return Claim(id, "Models", "A <title>", "Statement.", "Nowhere", measure)


GOOD = Evidence((close("one", 1.0, 1.0 + 1e-9, rtol=1e-8),))
CORRECTED = Evidence((at_most("bound", 1.0, 0.5), equal("as printed", 1, 2, printed=True)))
BAD = Evidence((at_least("bound", 1.0, 0.5),))


@pytest.mark.parametrize(("evidence", "verdict"), [(GOOD, "holds"), (CORRECTED, "corrected"), (BAD, "fails")])
def test_verdicts(evidence, verdict):
    assert runner.measure(claim(lambda quick: evidence), True).verdict == verdict


def test_a_crash_is_a_result_and_the_others_still_run(tmp_path, monkeypatch, capsys):
    def crash(quick):
        raise RuntimeError("<boom>")

    monkeypatch.setattr(runner, "all_claims", lambda: [claim(crash, "a"), claim(lambda quick: CORRECTED, "b")])
    assert runner.run(quick=True, only=None, folder=tmp_path / "atlas", as_json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert [entry["verdict"] for entry in data] == ["error", "corrected"]
    assert "boom" in data[0]["error"]
    assert data == json.loads((tmp_path / "atlas" / "atlas.json").read_text())
    page = (tmp_path / "atlas" / "index.html").read_text()
    assert "&lt;boom&gt;" in page
    assert "fails as printed" in page
    assert "A &lt;title&gt;" in page
    assert not re.search(r'src="(?!data:)|<link|@import|url\(', page)  # addresses are those of links to papers only


def test_exit_code_is_zero_when_all_is_as_expected(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "all_claims", lambda: [claim(lambda quick: GOOD), claim(lambda quick: CORRECTED, "b")])
    assert runner.run(quick=True, only=["b"], folder=tmp_path, as_json=False) == 0
    assert "1 hold, 1 fail as printed" in capsys.readouterr().out
    assert '<a href="atlas.json">all numbers as JSON</a>' in (tmp_path / "index.html").read_text()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "index.html").write_text("my site")
    with pytest.raises(ValueError, match=r"holds other files, such as .index\.html.: give a new folder$"):
        runner.run(quick=True, only=["boolean_matrix"], folder=tmp_path, as_json=True)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "my site"


def test_a_number_without_a_prediction_is_reported(tmp_path, monkeypatch, capsys):
    evidence = Evidence((at_most("bound", 1.0, 0.5), Check("power", OPEN, "0.3", "95 %", True)))
    monkeypatch.setattr(runner, "all_claims", lambda: [claim(lambda quick: evidence)])
    assert runner.run(quick=True, only=None, folder=tmp_path, as_json=False) == 0
    assert "1 hold, 1 reported" in capsys.readouterr().out
    page = (tmp_path / "index.html").read_text()
    assert page.count('<span class="badge good">holds</span></td></tr>') == 1
    assert '<span class="badge open">measured</span>' in page
    assert "<math><mn>0.5</mn><mspace width='0.22em'/><mo>≤</mo><mspace width='0.22em'/><mn>1</mn></math>" in page
    failed = Evidence((Check("power", OPEN, "nan", "did not converge", False),))
    assert runner.measure(claim(lambda quick: failed), True).verdict == "fails"


@pytest.mark.parametrize(("predicted", "holds", "fails"), [("> 10", "12 > 10", "12 ≤ 10"), ("≤ 1", "12 ≤ 1", "12 > 1")])
def test_inequalities_are_shown_as_found(predicted, holds, fails):
    assert compared(Check("x", predicted, "12", "none", True)) == holds
    assert compared(Check("x", predicted, "12", "none", False)) == fails


def test_figures_are_written_in_the_format_and_linked(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    monkeypatch.setattr(runner, "all_claims", lambda: [claim(lambda quick: GOOD._replace(figure=Figure()), "drawn")])
    for format, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert runner.run(quick=True, only=None, folder=tmp_path, as_json=True, format=format) == 0
        assert (tmp_path / "figures" / f"drawn.{format}").read_bytes().startswith(start)
        page = (tmp_path / "index.html").read_text()
        assert f'<a href="figures/drawn.{format}" download>' in page
        assert page.count('src="data:image/png;base64,') == 1


def test_a_claim_without_its_model_is_skipped_and_nothing_fails(tmp_path, monkeypatch, capsys):
    absent = Evidence((), skipped="no model <x>: run `make models`")
    monkeypatch.setattr(runner, "all_claims", lambda: [claim(lambda quick: absent), claim(lambda quick: GOOD, "b")])
    assert runner.run(quick=True, only=None, folder=tmp_path, as_json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert [entry["verdict"] for entry in data] == ["skipped", "holds"]
    assert data[0]["skipped"] == "no model <x>: run `make models`"
    page = (tmp_path / "index.html").read_text()
    assert "1 of 1 claims hold" in page
    assert "Skipped: no model &lt;x&gt;: run <code>make models</code>" in page
    assert runner.run(quick=True, only=["made_up"], folder=tmp_path, as_json=False) == 0
    assert "made_up: skipped: no model <x>: run `make models`" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.slow
def test_two_jobs_give_what_one_gives(tmp_path, capsys):
    only = ["boolean_matrix", "high_dimension_hemisphere"]
    data = []
    for jobs in (1, 2):
        assert runner.run(quick=True, only=only, folder=tmp_path / str(jobs), as_json=True, jobs=jobs) == 0
        data.append(json.loads(capsys.readouterr().out))
        for entry in data[-1]:
            entry.pop("seconds")
    assert data[0] == data[1]
    pages = [(tmp_path / str(jobs) / "index.html").read_text() for jobs in (1, 2)]
    assert pages[0].count("<img") == pages[1].count("<img") >= 2


def test_tolerances_can_fail():
    assert not close("x", 1.0, 1.1, rtol=0.05).holds
    assert close("x", 1.0, 1.1, atol=0.2).holds
    assert not close("x", 1.0, float("nan"), atol=1.0).holds
    assert not at_most("x", 1.0, float("nan")).holds


def test_every_claim_is_complete():
    claims = runner.all_claims()
    assert len({entry.id for entry in claims}) == len(claims) >= 20
    for entry in claims:
        assert entry.section in runner.SECTIONS
        assert entry.statement.endswith(".")
        assert entry.source
