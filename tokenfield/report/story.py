"""The structure of all reports: question, answer, prediction and measurement, evidence, data, and how it was made."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .._files import write_text
from .page import Markup, badge, code, folded, heading, link, page, paragraph, prose, stacked_table, table

VERDICTS = {True: ("agrees", "good"), False: ("differs", "bad"), None: ("undecided", "open")}


class Comparison(NamedTuple):
    """A prediction and a measurement of one quantity.

    Attributes:
        what: the quantity, as text.
        predicted, measured: the two values, as text.
        agrees: None if the run does not decide it.
        remark: how close they are, or why it is not decided.
    """

    what: str
    predicted: str
    measured: str
    agrees: bool | None
    remark: str = ""


@dataclass(frozen=True)
class Story:
    """The contents of a report, from the question to the provenance.

    Attributes:
        title: heading of the page.
        question: the question, one sentence.
        answer: the answer, one sentence.
        comparisons: predictions and measurements.
        about_comparisons: where the predictions come from, or why there are none.
        evidence: further parts, each a heading and HTML.
        files: files beside the page, with a description of each.
        snippet: Python code that reads the data, to be run in the folder of the page.
        command: the command that made it, if it is known.
        details: parts that are folded at first, each a heading and HTML.
        more: further sentences about the answer, shown below it.
    """

    title: str
    question: str
    answer: str
    comparisons: Sequence[Comparison] = ()
    about_comparisons: str = ""
    evidence: Sequence[tuple[str, str]] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    snippet: str = ""
    command: str | None = None
    details: Sequence[tuple[str, str]] = ()
    more: str = ""

    def html(self) -> str:
        """Return the whole page.

        Example:
            >>> from tokenfield.report.story import Comparison, Story
            >>> agreed = Comparison("order", "0.51", "0.50", True, "within 2 %")
            >>> "A question?" in Story("A title", "A question?", "An answer.", [agreed]).html()
            True
        """
        parts = [heading(self.title, 1), paragraph(self.question, "asked"), paragraph(self.answer, "answer")]
        parts += [paragraph(self.more)] if self.more else []
        if self.comparisons or self.about_comparisons:
            parts.append(heading("Prediction and measurement"))
            parts += [paragraph(self.about_comparisons)] if self.about_comparisons else []
            parts += [comparison_table(self.comparisons)] if self.comparisons else []
        for title, html in self.evidence:
            parts += [heading(title), html]
        if self.files or self.snippet:
            parts += [heading("Data"), data_part(self.files, self.snippet)]
        if self.command or self.details:
            parts.append(heading("How it was made"))
            parts += [code(self.command)] if self.command else []
            parts += [folded(title, html) for title, html in self.details]
        return page(self.title, "\n".join(parts))


def comparison_table(rows: Sequence[Comparison]) -> str:
    """Return a table of predictions and measurements, with a verdict and a remark for each."""
    lines = []
    for row in rows:
        verdict = f"{badge(*VERDICTS[row.agrees])} {prose(row.remark)}"
        lines.append((*map(prose, row[:3]), verdict))
    return stacked_table(lines, head=("quantity", "predicted", "measured", "verdict"))


def data_part(files: Mapping[str, str], snippet: str) -> str:
    """Return links to the files, and the code that reads them."""
    rows = [(Markup(link(name)), Markup(prose(about))) for name, about in files.items()]
    shown = table(rows) if rows else ""
    return shown + (paragraph("To read it in Python, in the folder of this page:") + code(snippet) if snippet else "")


def write_story(story: Story, folder: str | os.PathLike) -> Path:
    """Write a story to `report.html` in a folder, and return its path."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    path = target / "report.html"
    write_text(path, story.html())
    return path


def dataset_rows(attributes: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the short, plain attributes of a dataset as rows of a table; settings stored as JSON are expanded."""
    rows: list[tuple[str, object]] = []
    for name, value in attributes.items():
        if name == "config":
            rows += [(key.replace("_", " "), each) for key, each in json.loads(str(value)).items()]
        elif len(str(value)) <= 200:
            rows.append((name.replace("_", " "), value.item() if hasattr(value, "item") else value))
    return rows
