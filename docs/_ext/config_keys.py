"""The directive `config-keys`: every key that a TOML file can have, read from the classes and functions that it names.

The meaning of a key is what the docstring of its class says under Args; the default is that of the signature.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from docstrings import linked, public
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from typeset import is_formula, typeset

import tokenfield as tkf
from tokenfield._kinds import found, functions, parameters
from tokenfield.attention.positions import AbstractPositions
from tokenfield.config.build import RULES
from tokenfield.config.observed import numbers_by_name, options_of
from tokenfield.config.parts import AttentionPart, MLPPart, NoisePart, NormPart, SpacePart, StatePart
from tokenfield.config.run import SECTIONS, RunConfig
from tokenfield.config.start import StartPart
from tokenfield.normalization import AbstractTokenMap
from tokenfield.sweep.plan import Plan, Recorded, Spaced

TABLES = {
    "attention, cross": AttentionPart.family,
    "attention: positions": AbstractPositions,
    "norm, mlp_norm, cross_norm": NormPart.family,
    "norm: map": AbstractTokenMap,
    "space": SpacePart.family,
    "mlp": MLPPart.family,
    "noise": NoisePart.family,
    "state": StatePart.family,
}
CODE = re.compile(r"`([^`]+)`")
NUMBER = re.compile(r"[-\d.e]+")
logger = logging.getLogger(__name__)


class ConfigKeys(SphinxDirective):
    """Tables of keys: of a run, of each table that names a class, and of a plan."""

    def run(self):
        text = "\n".join([*run_keys(), *tables(), *starts(), *observables(), *plan_keys()])
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def run_keys() -> list[str]:
    """The keys at the top of a file."""
    said = {**described(tkf.Transformer), **described(tkf.layers), **described(tkf.simulate)}
    said["stop_when"] = f"a rule that ends the run: {RULES.replace('<', '&lt;')}"
    rows = [
        (key, shown(field.default), meaning(said, key))
        for key, field in RunConfig.model_fields.items()
        if key not in SECTIONS and key not in ("encoder", "observe")
    ]
    return ["## A run", "", *table(("key", "default", "what it is"), rows)]


def tables() -> list[str]:
    """For each table of a file its kinds, and the keys of these."""
    lines = []
    for name, family in TABLES.items():
        makers = {kind: each.maker() for kind, each in found(family).items()}
        classes = found(family)
        rows = [(kind, link(classes[kind]), classes[kind].title, keys(maker)) for kind, maker in makers.items()]
        lines += [heading(name), "", *table(("kind", "class", "what", "keys"), rows), *meanings(makers, classes)]
    return lines


def starts() -> list[str]:
    """Functions that make tokens to start from."""
    makers = functions("start")
    rows = [(kind, link(each), first_line(each), keys(each)) for kind, each in sorted(makers.items())]
    rest = ["Every start also takes `weights` and `positions`: lists of numbers, or files.", ""]
    return [
        heading("tokens, context"),
        "",
        *table(("kind", "function", "what", "keys"), rows),
        *meanings(makers, makers, StartPart.usual),
        *rest,
    ]


def observables() -> list[str]:
    """Numbers of a state that can be asked for."""
    rows = [
        (name, link(each), first_line(each), ", ".join(f"`{key}`" for key in options_of(each)))
        for name, each in sorted(numbers_by_name().items())
    ]
    return [heading("observe, record"), "", *table(("name", "function", "what", "keys"), rows)]


def plan_keys() -> list[str]:
    """The keys of a sweep."""
    said = described(Plan)
    rows = [(key, shown(field.default), meaning(said, key)) for key, field in Plan.model_fields.items()]
    axis = ", ".join(f"`{key}`" for key in Spaced.model_fields if key != "values")
    fields = ", ".join(f"`{key}`" for key in Recorded.model_fields)
    return [
        "## A sweep",
        "",
        *table(("key", "default", "what it is"), rows),
        f"An axis is a list, or a table with one of {axis}.",
        f"A recorded quantity is the name of an observable, or a table with {fields} and the keys of the observable.",
        "",
    ]


def meanings(
    makers: Mapping[str, Callable[..., Any]],
    sources: Mapping[str, Any],
    usual: Mapping[str, Any] = MappingProxyType({}),
) -> list[str]:
    """The keys that a family of classes takes: each with its default, what it is, and which kinds take it."""
    said: dict[str, str] = {}
    for kind in sorted(sources, key=lambda kind: kind != "softmax"):  # that of softmax first, as others refer to it
        for key, text in {**described(sources[kind]), **described(makers[kind])}.items():
            said.setdefault(key, text)
    taken: dict[str, list[str]] = {}
    defaults: dict[str, Any] = {}
    for kind, maker in makers.items():
        for key, parameter in parameters(maker).items():
            taken.setdefault(key, []).append(kind)
            defaults.setdefault(key, parameter.default)
    if not taken:
        return []
    rows = [(key, shown({**defaults, **usual}[key]), meaning(said, key)) for key in taken]
    return table(("key", "default", "what it is"), rows)


def meaning(said: Mapping[str, str], key: str) -> str:
    """What a docstring says of a key; a warning if it says nothing."""
    if not said.get(key):
        logger.warning("no docstring says what the key %s is", key)
    return said.get(key, "")


def described(each: Any) -> dict[str, str]:
    """What a docstring says of each parameter, under Args or Attributes."""
    text = inspect.getdoc(each) or ""
    block = re.search(r"^(?:Args|Attributes):\n((?:[ ]+.*\n?|\n)+)", text, re.MULTILINE)
    said: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", textwrap.dedent(block[1])) if block else ():
        names, _, meaning = entry.partition(":")
        for name in names.split(","):
            said[name.strip().lstrip("*")] = " ".join(meaning.split())
    return said


def heading(name: str) -> str:
    tables, _, key = name.partition(": ")
    return f"## {', '.join(f'`[{each}]`' for each in tables.split(', '))}" + (f": `{key}`" if key else "")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table in Markdown, the first column as code."""
    head = list(head)
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for first, *rest in rows:
        lines.append("| " + " | ".join([f"`{first}`", *(marked(each) for each in rest)]) + " |")
    return [*lines, ""]


def marked(text: str) -> str:
    """Text of a docstring for a cell: formulas typeset, names linked, no cell cut."""
    parts = CODE.split(text)
    for number, part in enumerate(parts):
        if number % 2 and is_formula(part) and not NUMBER.fullmatch(part):
            parts[number] = typeset(part).replace("|", "&#124;")
        elif number % 2:
            parts[number] = f"{{name}}`{part}`" if part in public() else f"`{part}`".replace("|", "\\|")
        else:
            parts[number] = re.sub(r"[*_$^]", lambda each: "\\" + each[0], part).replace("|", "\\|")
    text = "".join(parts)
    return re.sub(r":ref:`theory §(\d+) <formulas-\d+>`(–:ref:`[^`]*`)?", r"[theory §\1](#formulas-\1)", linked(text))


def keys(maker: Callable[..., Any]) -> str:
    return ", ".join(f"`{key}`" for key in parameters(maker)) or "none"


def link(each: Any) -> str:
    name = each.__name__
    return f"`{name}`" if name in public() else f"`{each.__module__}.{name}`"


def first_line(each: Any) -> str:
    """The first paragraph of a docstring, without "Return" at its beginning."""
    text = (inspect.getdoc(each) or "").split("\n\n")[0].replace("\n", " ").removeprefix("Return ")
    return text[:1].upper() + text[1:] if not text.startswith("`") else text


def shown(value: Any) -> str:
    """A default as TOML writes it."""
    if value is inspect.Parameter.empty or type(value).__name__ == "PydanticUndefinedType":
        return "must be given"
    if value is None or value in ([], {}, ""):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value).replace(chr(39), chr(34))}`"


def setup(app):
    app.add_directive("config-keys", ConfigKeys)
    return {"parallel_read_safe": True}
