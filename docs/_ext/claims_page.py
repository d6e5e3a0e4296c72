"""The directive `claims`: all claims of the atlas by section, each with the command that checks it."""

from checked import anchor
from sphinx.util.docutils import SphinxDirective

from tokenfield.atlas.runner import all_claims
from tokenfield.report.page import paragraph


class Claims(SphinxDirective):
    """All claims, in the order of the atlas."""

    def run(self):
        lines, section = [], ""
        for claim in all_claims():
            if claim.section != section:
                section = claim.section
                lines += [f"## {section}", ""]
            lines += [f"({anchor(claim.id)})=", f"### {plain(claim.title)}", ""]
            lines += ["```{raw} html", paragraph(claim.statement), paragraph(claim.source, "claim-source"), "```", ""]
            lines += [f"Check it: `tokenfield atlas --only {claim.id}`", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def plain(text: str) -> str:
    """Text in which nothing is markup of Markdown."""
    return "".join(f"\\{character}" if character in r"\`*_{}[]<>$|~^" else character for character in text)


def setup(app):
    app.add_directive("claims", Claims)
    return {"parallel_read_safe": True}
