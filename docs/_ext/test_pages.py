"""The role `test`, a link to the code of a test, and a page with the code of each test file that is linked to."""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

TESTS = Path(__file__).parents[2] / "tests"
logger = logging.getLogger(__name__)


class TestLink(nodes.Inline, nodes.TextElement):
    """A link to the code of a test, resolved when its page is written."""


class TestRole(SphinxRole):
    """A test, as "theory/test_pairs.py::test_the_published_value", or a whole file of tests."""

    def run(self):
        file, _, function = self.text.partition("::")
        if not (TESTS / file).is_file() or (function and function not in functions(file)):
            logger.warning("no such test: %s", self.text, location=self.get_location())
            return [nodes.literal(text=self.text)], []
        shown(self.env).setdefault(self.env.docname, set()).add(file)
        text = function.removeprefix("test_").replace("_", " ") or f"tests/{file}"
        return [TestLink("", "", nodes.inline(text=text), file=file, function=function)], []


def functions(file: str) -> dict[str, int]:
    """The functions of a file of tests, each with its line."""
    body = ast.parse((TESTS / file).read_text(encoding="utf-8")).body
    return {each.name: each.lineno for each in body if isinstance(each, ast.FunctionDef)}


def shown(env) -> dict[str, set[str]]:
    """The files of tests that each page links to."""
    if not hasattr(env, "tokenfield_tests"):
        env.tokenfield_tests = {}
    return env.tokenfield_tests


def page_of(file: str) -> str:
    return f"tests/{file.removesuffix('.py')}"


def resolve(app, doctree, docname):
    """Let links to tests point to the pages of their files."""
    for link in list(doctree.findall(TestLink)):
        page = app.builder.get_relative_uri(docname, page_of(link["file"]))
        uri = f"{page}#{link['function']}" if link["function"] else page
        link.replace_self(nodes.reference("", "", *link.children, internal=True, refuri=uri, classes=["test"]))


def pages(app):
    """The code of each file of tests that some page links to."""
    for file in sorted(set().union(*shown(app.env).values())):
        code = (TESTS / file).read_text(encoding="utf-8")
        lines = app.builder.highlighter.highlight_block(code, "python").splitlines()
        before, _, first = lines[0].partition("<pre>")
        lines[0] = first
        for name, line in functions(file).items():
            lines[line - 1] = f'<span id="{name}"></span>{lines[line - 1]}'
        title = f"tests/{file}"
        yield page_of(file), {"title": title, "body": f"<h1>{title}</h1>{before}<pre>" + "\n".join(lines)}, "page.html"


def forget(app, env, docname):
    shown(env).pop(docname, None)


def merge(app, env, docnames, other):
    shown(env).update({name: files for name, files in shown(other).items() if name in docnames})


def setup(app):
    app.add_node(TestLink)
    app.add_role("test", TestRole())
    app.connect("doctree-resolved", resolve)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True}
