"""The directive `commands`: what `tokenfield --help` says of each command, as tables."""

import re

import typer.main
from sphinx.util.docutils import SphinxDirective

from tokenfield.cli.app import app as cli


class Commands(SphinxDirective):
    """All commands, with their arguments and options."""

    def run(self):
        lines = described("tokenfield", typer.main.get_command(cli).commands)
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def described(parent: str, commands: dict) -> list[str]:
    """Markdown for commands and their subcommands, one heading each."""
    lines = []
    for name, command in commands.items():
        lines += [f"## {parent} {name}", "", plain(command.help or ""), ""]
        inner = getattr(command, "commands", None)
        if inner:
            lines += described(f"{parent} {name}", inner)
            continue
        lines += ["| | |", "|---|---|"]
        lines += [f"| {spelled(each)} | {plain(each.help or '')} |" for each in command.params if each.name != "help"]
        lines += [""]
    return lines


def spelled(parameter) -> str:
    """An option as it is typed."""
    if parameter.param_type_name == "argument":
        return "`" + (parameter.metavar or parameter.name.upper()).replace("|", "\\|") + "`"
    return ", ".join(f"`{each}`" for each in [*parameter.opts, *parameter.secondary_opts])


CODE = re.compile(r'(pip install -e "[^"]+"|(?<![\w-])--[a-z-]+)')


def plain(text: str) -> str:
    """Text in which nothing is markup of Markdown, with flags and the command `pip` as code; "[10]" is a default."""
    return "".join(f"`{part}`" if CODE.fullmatch(part) else escaped(part) for part in CODE.split(text))


def escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in r"\`*_<>$|~" else character for character in text)


def setup(app):
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
