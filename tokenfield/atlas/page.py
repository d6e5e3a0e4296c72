"""The atlas as one self-contained page."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import write_text
from ..report.page import code, formula, heading, image, page, paragraph
from ..results.provenance import provenance
from .claim import OPEN, Check

if TYPE_CHECKING:
    from .runner import Result

WORDS = {
    "holds": "holds",
    "corrected": "fails as printed; holds corrected",
    "skipped": "skipped",
    "fails": "FAILS",
    "error": "ERROR",
}
GOOD = ("holds", "corrected")
STYLE = """<style>
.badge { font-size: .8rem; font-weight: 600; border-radius: 1rem; padding: .1rem .7rem; white-space: nowrap; }
.badge.good { background: #e3f3ec; } .badge.corrected { background: #fff3d6; color: #7a5200; }
.badge.bad { background: #fbe5da; } .badge.skipped { background: #eceff2; color: #59636e; }
.where { display: flex; justify-content: space-between; align-items: baseline; gap: 1rem; flex-wrap: wrap; }
td:last-child { white-space: nowrap; padding-right: 0; }
article { margin: 2.2rem 0; } tbody th { width: 42%; }
</style>"""


def write_page(results: Sequence["Result"], total: int, quick: bool, path: Path) -> None:
    """Write the page of the claims run so far."""
    good = sum(result.verdict in GOOD for result in results)
    wrong = sum(result.verdict == "corrected" for result in results)
    skipped = sum(result.verdict == "skipped" for result in results)
    unfinished = f" {skipped} were skipped." if skipped else ""
    unfinished += f" Still running: {len(results)} of {total} claims so far." if len(results) < total else ""
    body = [
        STYLE,
        heading("Atlas of token dynamics", 1),
        paragraph(
            f"{good} of {len(results) - skipped} claims hold as stated here; in {wrong} of them the statement as printed in the "
            f"literature fails and a corrected one holds.{unfinished}",
            "lead",
        ),
        paragraph(
            "Each claim is a statement of the literature, in our words, put to an experiment: what is predicted, what "
            "is measured, and how far apart they may be. Tests of a statement in its printed form are marked.",
        ),
        _contents(results),
    ]
    section = ""
    for result in results:
        if result.claim.section != section:
            section = result.claim.section
            body.append(heading(section))
        body.append(_article(result))
    facts = provenance()
    made = ", ".join(f"{name.removesuffix('_version')} {value}" for name, value in facts.items())
    body.append(f"<footer>{escape('quick' if quick else 'full')} experiments · {escape(made)}</footer>")
    write_text(path, page("tokenfield atlas", "\n".join(body)))


def _badge(verdict: str) -> str:
    kind = verdict if verdict in ("corrected", "skipped") else "good" if verdict in GOOD else "bad"
    return f'<span class="badge {kind}">{WORDS[verdict]}</span>'


def _contents(results: Sequence["Result"]) -> str:
    rows = "\n".join(
        f'<tr><td><a href="#{escape(r.claim.id)}">{formula(r.claim.title)}</a></td>'
        f"<td>{formula(r.claim.section)}</td><td>{_badge(r.verdict)}</td><td>{r.seconds:.1f} s</td></tr>"
        for r in results
    )
    head = "<thead><tr><th>claim</th><th>section</th><th>verdict</th><th>time</th></tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'


def _article(result: "Result") -> str:
    claim, evidence = result.claim, result.evidence
    parts = [
        f'<article id="{escape(claim.id)}"><div class="where"><h3>{formula(claim.title)}</h3>{_badge(result.verdict)}</div>',
        paragraph(claim.statement),
        paragraph(f"Source: {claim.source}. Run it alone: tokenfield atlas --only {claim.id}", "note"),
    ]
    if evidence is None:
        parts.append(code(result.error))
    elif evidence.skipped:
        parts.append(paragraph(f"Skipped: {evidence.skipped}.", "note"))
    else:
        parts.append(_checks(evidence.checks))
        if result.picture:
            parts.append(image(result.picture, claim.title, evidence.caption))
    return "\n".join([*parts, "</article>"])


def _checks(checks: Sequence[Check]) -> str:
    rows = []
    for check in checks:
        verdict, kind = ("holds", "good") if check.holds else ("fails", "bad")
        if check.predicted == OPEN and check.holds:
            verdict, kind = "measured", "skipped"  # nothing was foretold, so nothing holds
        if check.printed:
            verdict, kind = ("holds as printed", "bad") if check.holds else ("fails as printed", "corrected")
        cells = "".join(f"<td>{formula(cell)}</td>" for cell in (check.predicted, check.measured, check.tolerance))
        badge = f'<td><span class="badge {kind}">{verdict}</span></td>'
        rows.append(f'<tr><th scope="row">{formula(check.what)}</th>{cells}{badge}</tr>')
    names = ("what", "predicted", "measured", "tolerance", "verdict")
    head = "".join(f"<th>{name}</th>" for name in names)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
