"""The reference of commands, made from the commands themselves: ``python -m lakeevolve.cli.reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from lakeevolve.cli.app import COMMANDS, app

_HEAD = """# Commands

Made by `python -m lakeevolve.cli.reference`; do not edit it by hand. `lakeevolve COMMAND --help` prints the same, and
`lakeevolve --install-completion` teaches it to the shell. Every command takes `--debug`, which shows the traceback of
an error, without credentials. What is repeatable is given once for each value."""


def reference() -> str:
    """The page as Markdown."""
    group: Any = typer.main.get_command(app)
    return "\n\n".join([_HEAD, *(part for name in COMMANDS for part in _parts(name, group.get_command(None, name)))])


def _parts(name: str, command: Any) -> Iterator[str]:
    if not hasattr(command, "commands"):
        yield _command(name, command)
        return
    yield f"## {name}\n\n{' '.join(command.help.split())}"
    for inner, below in command.commands.items():
        yield _command(f"{name} {inner}", below).replace("## ", "### ", 1)


def _command(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join(
        [f"lakeevolve {name}", *(_metavar(each) for each in arguments), *(["[OPTIONS]"] if options else [])]
    )
    parts = [f"## {name}", " ".join(command.help.split()), f"```text\n{usage}\n```"]
    rows = [*(_row(_metavar(each), each) for each in arguments), *(_row(_named(each), each) for each in options)]
    if rows:
        parts.append("\n".join(["| | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _row(name: str, param: Any) -> str:
    return f"| `{_cell(name)}` | {_cell(' '.join(_says(param)))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _named(param: Any) -> str:
    names = ", ".join(param.opts)
    return names if param.is_flag else f"{names} {_metavar(param)}"


def _says(param: Any) -> Iterator[str]:
    yield " ".join((param.help or "").split())
    default = param.default
    if isinstance(default, str) and default:
        yield f"Default: `{default}`."


if __name__ == "__main__":
    sys.stdout.write(reference() + "\n")
