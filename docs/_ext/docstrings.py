"""Docstrings as pages: text in backquotes is code, a public name links to its page, "FORMULAS §7" to the theory."""

import re

import api_pages
from docutils import nodes
from sphinx import addnodes
from typeset import is_formula, typeset

SECTION = re.compile(r"FORMULAS §(\d+)(?:–§(\d+))?")
CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
OWN_MARKUP = re.compile(r"^(\s*)([-*] |\d+\. |>>> |\.\.\. |\.\. )")
SPECIAL = re.compile(r"[*|]|(?<=\w)_(?!\w)")


def escaped(text: str) -> str:
    r"""Escape what would be markup in reStructuredText; backslashes in formulas stay.

    Example:
        >>> escaped("|x| of `a|b`")
        '\\|x\\| of `a|b`'
    """
    lead = OWN_MARKUP.match(text)
    if lead and lead[2] in (">>> ", "... ", ".. "):
        return text
    start = lead.end() if lead else 0
    parts = CODE.split(text[start:])
    return text[:start] + "".join(
        part if number % 2 else SPECIAL.sub(lambda found: "\\" + found[0], part) for number, part in enumerate(parts)
    )


def linked(text: str) -> str:
    """Replace "FORMULAS §7" by a link to that section of the theory."""

    def link(found: re.Match) -> str:
        last = f"–:ref:`§{found[2]} <formulas-{found[2]}>`" if found[2] else ""
        return f":ref:`theory §{found[1]} <formulas-{found[1]}>`{last}"

    return SECTION.sub(link, text)


def process(app, what, name, obj, options, lines):
    """Rewrite the lines of a docstring, before napoleon reads its sections."""
    text = "\n".join(lines)
    parts = CODE.split(text)  # code may go over the end of a line
    joined = "".join(re.sub(r"\s*\n\s*", " ", part) if number % 2 else part for number, part in enumerate(parts))
    lines[:] = [linked(escaped(line)) for line in joined.splitlines()]


def skip(app, what, name, obj, would_skip, options):
    """Leave out fields of named tuples, which the docstring of the class lists, and members of other packages."""
    home = getattr(obj, "__module__", None) or ""
    return True if type(obj).__name__ == "_tuplegetter" or (home and not home.startswith("tokenfield")) else None


def without_links_back(app, pagename, templatename, context, doctree):
    """Remove the links from code to its documentation, which miss names that two packages export."""
    if pagename.startswith("_modules/"):
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def name_or_code(role, rawtext, text, lineno, inliner, options=None, content=None):
    """Show text as code, as a link if it is a public name, typeset if it is a formula: what single backquotes mean."""
    literal = rawtext.strip("`")
    name = literal.removesuffix("()").removeprefix("tkf.").removeprefix("tokenfield.")
    code = nodes.literal(rawtext, literal, classes=["code"])
    if is_formula(literal):
        return [nodes.raw("", typeset(literal), format="html")], []
    if name not in public():
        return [code], []
    target = f"{api_pages.EXPORTED}.{name}"
    link = addnodes.pending_xref(
        rawtext, code, refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=False
    )
    link["refdoc"] = inliner.document.settings.env.docname
    return [link], []


def public() -> set[str]:
    """Public names, as users write them after `tkf.`."""
    if not _public:
        full = (name for page in api_pages.PAGES.values() for name in api_pages.names(page))
        _public.update(name.removeprefix("tokenfield.") for name in full)
    return _public


_public: set[str] = set()


def setup(app):
    app.connect("autodoc-process-docstring", process, priority=100)
    app.connect("autodoc-skip-member", skip)
    app.connect("html-page-context", without_links_back)
    app.add_role("name_or_code", name_or_code)
    return {"parallel_read_safe": True}
