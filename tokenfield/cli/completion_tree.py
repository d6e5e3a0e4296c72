"""The commands, their flags and the values of the flags, as plain data for completion scripts."""

from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin


class Flag(NamedTuple):
    """A flag or a positional argument of a command.

    Attributes:
        names: such as ("--quiet", "-q"); () for a positional argument.
        help: the help text.
        takes_value: False for a switch.
        values: values to propose; () if there are none.
        is_path: True if a value is the name of a file or folder.
    """

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]
    is_path: bool


class Command(NamedTuple):
    """A command: its name, its help in a line, its flags, its positional arguments (for a group, its subcommands)."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    arguments: tuple[Flag, ...]

    @property
    def group(self) -> str:
        """For a subcommand, the name of its group; "" for other commands."""
        return self.name.rpartition(" ")[0]

    @property
    def names(self) -> list[str]:
        """All names of all flags."""
        return [name for flag in self.flags for name in flag.names]

    @property
    def values(self) -> list[str]:
        """Values to propose for positional arguments."""
        return [value for argument in self.arguments for value in argument.values]


HELP = Flag(("--help",), "Show the help.", False, (), False)


def commands_of(group: Any) -> list[Command]:
    """Return the commands of a Typer application. A group is followed by its subcommands, named "group subcommand"."""
    found = []
    for name, command in group.commands.items():
        found.append(_command(name, command))
        found += [_command(f"{name} {each}", inner) for each, inner in getattr(command, "commands", {}).items()]
    return found


def _command(name: str, command: Any) -> Command:
    options = [_flag(each) for each in command.params if each.param_type_name == "option"]
    arguments = [_flag(each) for each in command.params if each.param_type_name == "argument"]
    if inner := getattr(command, "commands", {}):
        arguments = [Flag((), "A subcommand", True, tuple(inner), False)]
    return Command(name, _first(command.help or ""), (*options, HELP), tuple(arguments))


def _flag(parameter: Any) -> Flag:
    annotation, info = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    values = get_args(annotation) if get_origin(annotation) is Literal else ()
    if info.autocompletion is not None:
        values = tuple(info.autocompletion())
    is_option = parameter.param_type_name == "option"
    return Flag(
        (*parameter.opts, *parameter.secondary_opts) if is_option else (),
        _first(parameter.help or ""),
        not getattr(parameter, "is_flag", False),
        tuple(map(str, values)),
        annotation is Path or Path in get_args(annotation),
    )


def _first(text: str) -> str:
    """Return the first line of a help text, without its list of values."""
    return text.strip().partition("\n")[0].partition(": ")[0].rstrip(".")
