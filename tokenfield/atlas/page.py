"""HTML page of the atlas, with its figures in a folder next to it."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import replacing, write_text
from ..report.mathml import typeset
from ..report.page import Markup, badge, code, heading, image, link, page, paragraph, stacked_table
from ..results.provenance import provenance
from .claim import OPEN, Check
from .papers import linked

if TYPE_CHECKING:
    from .runner import Result

WORDS = {
    "holds": "holds",
    "corrected": "fails as printed; holds corrected",
    "skipped": "skipped",
    "fails": "FAILS",
    "error": "ERROR",
}
KINDS = {"holds": "good", "corrected": "fixed", "skipped": "open"}
GOOD = ("holds", "corrected")
OPPOSITES = {"≤": ">", "≥": "<", "<": "≥", ">": "≤"}
STYLE = """<style>
.where { display: flex; justify-content: space-between; align-items: baseline; gap: 0 1rem; flex-wrap: wrap; }
article { margin: 2.2rem 0; scroll-margin-top: 1rem; } article tbody th { width: 38%; }
.contents td { white-space: nowrap; } .contents td:first-child { white-space: normal; min-width: 13rem; }
.filter { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; margin: 1.2rem 0 .6rem; align-items: baseline; }
.filter[hidden], article[hidden], tr[hidden], section[hidden] { display: none; }
article p, article h3, article th, article td { overflow-x: auto; overflow-y: hidden; }
select { font: inherit; color: inherit; background: var(--wash); border: 1px solid var(--line); border-radius: 6px;
  padding: .2rem .4rem; max-width: 100%; }
.formula { overflow-x: auto; overflow-y: hidden; padding: .1rem 0 .4rem 1.2rem; }
</style>"""
SCRIPT = """<script>
(() => {
  const form = document.querySelector(".filter"), chosen = [...form.querySelectorAll("select")];
  const show = () => {
    const [section, verdict] = chosen.map(each => each.value);
    let count = 0;
    for (const each of document.querySelectorAll("[data-verdict]")) {
      each.hidden = (section && each.dataset.section !== section) || (verdict && each.dataset.verdict !== verdict);
      count += !each.hidden && each.tagName === "ARTICLE";
    }
    for (const part of document.querySelectorAll("section")) part.hidden = !part.querySelector("article:not([hidden])");
    form.querySelector("output").textContent = count + (count === 1 ? " claim shown" : " claims shown");
  };
  form.addEventListener("change", show);
  form.hidden = false;
  show();
})();
</script>"""
EQUATIONS = (
    ("SA", "self-attention", "x_i' = P_{x_i} (1/Z_i) Σ_j e^{β<x_i, x_j>} x_j, Z_i = Σ_j e^{β<x_i, x_j>}"),
    ("USA", "unnormalized self-attention", "x_i' = P_{x_i} (1/n) Σ_j e^{β<x_i, x_j>} x_j"),
)
MODELS = (
    "Most claims are about two models. Tokens x_i are unit vectors in R^d, and P_x projects onto the vectors orthogonal to x. "
    "SA is self-attention, with the softmax of a Transformer; USA is unnormalized self-attention, without its denominator."
)


def write_page(results: Sequence["Result"], total: int, quick: bool, path: Path, format: str = "png") -> None:
    """Write the page of the claims run so far, and their figures, in a format, to the folder `figures` next to it."""
    _write_figures(results, path.parent / "figures", format)
    good = sum(result.verdict in GOOD for result in results)
    wrong = sum(result.verdict == "corrected" for result in results)
    skipped = sum(result.verdict == "skipped" for result in results)
    unfinished = f" {skipped} {'was' if skipped == 1 else 'were'} skipped." if skipped else ""
    unfinished += f" Still running: {len(results)} of {total} claims so far." if len(results) < total else ""
    fail = len(results) - skipped - good
    failing = f" {fail} do{'es' * (fail == 1)} not." if fail else ""
    corrected = (
        f" For {wrong} of them the statement as printed in the literature fails and a corrected one holds."
        if wrong
        else ""
    )
    answer = f"{good} of {len(results) - skipped} claims hold as stated here.{failing}{corrected}{unfinished}"
    body = [
        STYLE,
        heading("Atlas of token dynamics", 1),
        paragraph("Which statements from the literature on tokens in deep Transformers hold in experiments?", "asked"),
        paragraph(answer, "answer"),
        paragraph(
            "Each claim is a statement from the literature, in our words, tested by an experiment. The tables show the predicted "
            "value, the measured value and the tolerance. Tests of a statement exactly as it was printed are marked.",
        ),
        f"<p>{typeset(MODELS)}</p>",
        *(
            f'<p><strong>{name}</strong>, {words}:</p><div class="formula">{typeset(law)}</div>'
            for name, words, law in EQUATIONS
        ),
        _filter(results),
        _contents(results),
    ]
    for section in dict.fromkeys(result.claim.section for result in results):
        articles = [_article(result, format) for result in results if result.claim.section == section]
        body.append("\n".join(["<section>", heading(section), *articles, "</section>"]))
    facts = provenance()
    made = ", ".join(f"{name.removesuffix('_version')} {value}" for name, value in facts.items())
    kind = "quick" if quick else "full"
    body.append(f"<footer>{kind} experiments · {link('atlas.json', 'all numbers as JSON')} · {escape(made)}</footer>")
    body.append(SCRIPT)
    write_text(path, page("tokenfield atlas", "\n".join(body)))


def _write_figures(results: Sequence["Result"], folder: Path, format: str) -> None:
    for result in results:
        path = folder / f"{result.claim.id}.{format}"
        if result.file and not (path.exists() and path.read_bytes() == result.file):
            folder.mkdir(exist_ok=True)
            with replacing(path) as part:
                part.write_bytes(result.file)


def _badge(verdict: str) -> str:
    return badge(WORDS[verdict], KINDS.get(verdict, "bad"))


def _marks(result: "Result") -> str:
    """Return the HTML attributes by which the script filters."""
    return f'data-section="{escape(result.claim.section)}" data-verdict="{escape(result.verdict)}"'


def _filter(results: Sequence["Result"]) -> str:
    """Return the two menus of the filter. Without JavaScript they stay hidden and all claims are shown."""
    sections = dict.fromkeys(result.claim.section for result in results)
    verdicts = dict.fromkeys(result.verdict for result in results)
    option = lambda value, label: f'<option value="{escape(value)}">{escape(label)}</option>'  # noqa: E731
    first = option("", "all sections") + "".join(option(each, each) for each in sections)
    second = option("", "all verdicts") + "".join(option(each, WORDS[each]) for each in verdicts)
    return (
        f'<form class="filter screen" hidden><label>Section <select>{first}</select></label>'
        f"<label>Verdict <select>{second}</select></label><output></output></form>"
    )


def _contents(results: Sequence["Result"]) -> str:
    rows = "\n".join(
        f'<tr {_marks(r)}><td><a href="#{escape(r.claim.id)}">{typeset(r.claim.title)}</a></td>'
        f"<td>{typeset(r.claim.section)}</td><td>{_badge(r.verdict)}</td><td>{r.seconds:.1f} s</td></tr>"
        for r in results
    )
    head = "<thead><tr><th>claim</th><th>section</th><th>verdict</th><th>time</th></tr></thead>"
    return f'<div class="scroll contents"><table>{head}<tbody>{rows}</tbody></table></div>'


def _article(result: "Result", format: str) -> str:
    claim, evidence = result.claim, result.evidence
    parts = [
        f'<article id="{escape(claim.id)}" {_marks(result)}>',
        f'<div class="where"><h3>{typeset(claim.title)}</h3>{_badge(result.verdict)}</div>',
        f"<p>{typeset(claim.statement)}</p>",
        f'<p class="note">Source: {linked(claim.source)}. Run it alone: '
        f"<code>tokenfield atlas --only {escape(claim.id)}</code></p>",
    ]
    if evidence is None:
        parts.append(code(result.error))
    elif evidence.skipped:
        parts.append(paragraph(f"Skipped: {evidence.skipped}.", "note"))
    else:
        parts.append(_checks(evidence.checks))
        if result.picture:
            parts.append(image(result.picture, f"{claim.title}. {evidence.caption}", Markup(typeset(evidence.caption))))
            file = escape(f"figures/{claim.id}.{format}")
            parts.append(f'<p class="note screen"><a href="{file}" download>Download the figure</a></p>')
    return "\n".join([*parts, "</article>"])


def _checks(checks: Sequence[Check]) -> str:
    rows = []
    for check in checks:
        verdict, kind = ("holds", "good") if check.holds else ("fails", "bad")
        if check.predicted == OPEN and check.holds:
            verdict, kind = "measured", "open"  # nothing was predicted, so nothing can hold or fail
        if check.printed:
            verdict, kind = ("holds as printed", "bad") if check.holds else ("fails as printed", "fixed")
        cells = (check.what, check.predicted, compared(check), "–" if check.tolerance == "none" else check.tolerance)
        rows.append((*map(typeset, cells), badge(verdict, kind)))
    return stacked_table(rows, ("what", "predicted", "measured", "tolerance", "verdict"))


def compared(check: Check) -> str:
    """Return the measured value, or for a bound the inequality that was found.

    Example:
        >>> from tokenfield.atlas.claim import at_most
        >>> compared(at_most("bound", 1.0, 0.5)), compared(at_most("bound", 1.0, 1.5))
        ('0.5 ≤ 1', '1.5 > 1')
    """
    sign, _, bound = check.predicted.partition(" ")
    if sign not in OPPOSITES or not bound:
        return check.measured
    found = sign if check.holds else OPPOSITES[sign]
    return f"{check.measured} {found} {bound}"
