"""Completion scripts. They contain all commands and flags, so that a shell completes without running Python."""

import shlex
from collections.abc import Callable, Sequence

from .completion_tree import Command, Flag
from .examples import EXAMPLES

HEAD = "# Completion of tokenfield. To load it: {}\n"

BASH = r"""_tokenfield() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command="" word words=""
    if [[ $prev == "=" ]]; then  # bash splits --flag=value into three words
        prev=${{COMP_WORDS[COMP_CWORD - 2]}}
    elif [[ $cur == "=" ]]; then
        cur=""
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $word != -* ]]; then
            command="${{command:+$command }}$word"
            case "$command" in {groups}) ;; *) break ;; esac
        fi
    done
    COMPREPLY=()
    case "$command $prev" in
{values}
    esac
    case "$command" in
        "") words="{commands} --version --help" ;;
{flags}
    esac
    if [[ -n $command && $cur != -* ]]; then
        case "$command" in
{arguments}
            *) return ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _tokenfield tokenfield
"""

ZSH = r"""_tokenfield() {{
    local command="" word
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        if [[ $word != -* ]]; then
            command="${{command:+$command }}$word"
            case "$command" in {groups}) ;; *) break ;; esac
        fi
    done
    case "$command ${{words[CURRENT-1]}}" in
{values}
    esac
    if [[ -z $command ]]; then
        local -a commands=(
{commands}
        )
        _describe command commands
        compadd -- --version --help
        return
    fi
    if [[ ${{words[CURRENT]}} == -* ]]; then
        case "$command" in
{flags}
        esac
        return
    fi
    case "$command" in
{arguments}
        *) _files ;;
    esac
}}
compdef _tokenfield tokenfield
"""


def bash(commands: Sequence[Command]) -> str:
    """Return a script to be sourced by bash (3.2 or later)."""
    text = BASH.format(
        groups=_groups(commands),
        commands=" ".join(command.name for command in commands if not command.group),
        values=_cases(commands, 8, lambda words: f'COMPREPLY=($(compgen -W "{words}" -- "$cur")); return', "return"),
        flags="\n".join(f'        "{command.name}") words="{" ".join(command.names)}" ;;' for command in commands),
        arguments="\n".join(
            f'            "{command.name}") words="{" ".join(command.values)}" ;;'
            for command in commands
            if command.values
        ),
    )
    return HEAD.format(EXAMPLES["completion"][0]) + text


def zsh(commands: Sequence[Command]) -> str:
    """Return a script to be sourced by zsh, after `compinit`."""
    text = ZSH.format(
        groups=_groups(commands),
        commands="\n".join(
            f"            {shlex.quote(_zsh_item(command))}" for command in commands if not command.group
        ),
        values=_cases(commands, 8, lambda words: f"compadd -- {_quoted(words)}; return", "_files; return"),
        flags="\n".join(
            f'            "{command.name}") compadd -- {_quoted(" ".join(command.names))} ;;' for command in commands
        ),
        arguments="\n".join(
            f'        "{command.name}") compadd -- {_quoted(" ".join(command.values))}; _files ;;'
            for command in commands
            if command.values
        ),
    )
    return HEAD.format(EXAMPLES["completion"][1]) + text


def fish(commands: Sequence[Command]) -> str:
    """Return a script to be sourced by fish."""
    none = "not __fish_seen_subcommand_from " + " ".join(command.name for command in commands if not command.group)
    lines = [f"complete -c tokenfield -n {shlex.quote(none)} -f -l version -d 'Print the version'"]
    for command in commands:
        inside = shlex.quote("; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.name.split()))
        if not command.group:
            lines.append(f"complete -c tokenfield -n {shlex.quote(none)} -f -a {command.name} -d {_fish(command.help)}")
        lines += [f"complete -c tokenfield -n {inside} {_fish_flag(flag)}" for flag in command.flags]
        if command.values:
            lines.append(f"complete -c tokenfield -n {inside} -a {_fish(' '.join(command.values))}")
    return HEAD.format(EXAMPLES["completion"][2]) + "\n".join(lines) + "\n"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def _groups(commands: Sequence[Command]) -> str:
    """Return the names of commands that have subcommands, as a pattern of a `case`."""
    return " | ".join(sorted({command.group for command in commands if command.group}))


def _cases(commands: Sequence[Command], indent: int, propose: Callable[[str], str], otherwise: str) -> str:
    """Return the branches of a `case` over "command flag", for flags that take a value."""
    lines = []
    for command in commands:
        for flag in command.flags:
            if flag.takes_value:
                patterns = " | ".join(f'"{command.name} {name}"' for name in flag.names)
                lines.append(f"{patterns}) {propose(' '.join(flag.values)) if flag.values else otherwise} ;;")
    return "\n".join(" " * indent + line for line in lines)


def _quoted(words: str) -> str:
    return " ".join(map(shlex.quote, words.split()))


def _zsh_item(command: Command) -> str:
    return f"{command.name}:{command.help.replace(':', ' ')}"


def _fish(text: str) -> str:
    """Return a text in single quotes for fish, where only \\ and ' are special between them."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _fish_flag(flag: Flag) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    value = ""
    if flag.takes_value:
        value = f" -x -a {_fish(' '.join(flag.values))}" if flag.values else " -r" if flag.is_path else " -x"
    return f"{' '.join(names)}{value} -d {_fish(flag.help)}"
