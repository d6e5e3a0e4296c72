"""How a formula is checked: a `checked` block below it names the functions, the tests and the claims of the atlas.

    ```{checked}
    :functions: theory.time_to_cosine, Equiangular
    :tests: theory/test_pairs.py::test_the_published_value
    :claims: equiangular_times
    ```

Where no claim of the atlas measures a formula, `:no-claim:` says why, in place of `:claims:`.

The roles `name`, `test` and `claim` make each of these links in running text. A name that does not exist is a warning, which
`make docs` takes for an error.
"""

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole, SphinxDirective, SphinxRole

from tokenfield.atlas.runner import all_claims

PARTS = {"functions": ("Computed by", "name"), "tests": ("Tested in", "test"), "claims": ("Atlas", "claim")}
logger = logging.getLogger(__name__)


class Checked(SphinxDirective):
    """One paragraph that says what computes a formula and what checks it."""

    option_spec = dict.fromkeys((*PARTS, "no-claim"), directives.unchanged)

    def run(self):
        paragraph = nodes.paragraph(classes=["checked"])
        for option, (title, role) in PARTS.items():
            if found := [word.strip() for word in self.options.get(option, "").split(",") if word.strip()]:
                paragraph += self.part(title, ", ".join(f"{{{role}}}`{word}`" for word in found))
        if reason := self.options.get("no-claim"):
            paragraph += self.part("Atlas", f"no claim: {reason}")
        return [paragraph]

    def part(self, title: str, text: str) -> list[nodes.Node]:
        """A line of the paragraph."""
        part = nodes.inline(classes=["checked-part"])
        part += nodes.inline(text=title, classes=["checked-title"])
        part += [nodes.Text(" "), *self.parse_inline(text, lineno=self.lineno)[0]]
        return [part, nodes.Text(" ")]


class NameRole(ReferenceRole):
    """A link to a public name, written without `tokenfield.`."""

    def run(self):
        return [link(self, "py", "obj", f"tokenfield.{self.target}", self.title)], []


class ClaimRole(SphinxRole):
    """A link to a claim of the atlas, by its id."""

    def run(self):
        if self.text not in {claim.id for claim in all_claims()}:
            logger.warning("no such claim: %s", self.text, location=self.get_location())
            return [nodes.literal(text=self.text)], []
        return [link(self, "std", "ref", anchor(self.text), self.text)], []


def anchor(claim: str) -> str:
    """The label of a claim on the page of claims."""
    return f"claim-{claim.replace('_', '-')}"


def link(role: SphinxRole, domain: str, kind: str, target: str, text: str) -> nodes.Node:
    """A reference with a text as code."""
    reference = addnodes.pending_xref(
        "",
        nodes.literal(text=text),
        refdomain=domain,
        reftype=kind,
        reftarget=target,
        refdoc=role.env.docname,
        refexplicit=True,
        refwarn=True,
    )
    role.set_source_info(reference)
    return reference


def setup(app):
    app.add_directive("checked", Checked)
    app.add_role("name", NameRole())
    app.add_role("claim", ClaimRole())
    return {"parallel_read_safe": True}
