"""The commands under one name, each loaded when it is called or listed."""

from __future__ import annotations

import gc
import importlib
from difflib import get_close_matches
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

#: Command -> module and function (its docstring is the help) or group of commands.
COMMANDS: Final = {
    "diff": "diff:diff",
    "check": "check:check",
    "plan": "plan:plan",
    "show": "show:show",
    "apply": "apply:apply",
    "verify": "verify:verify",
    "replay": "replay:replay",
    "rollback": "undo:rollback",
    "revert": "undo:revert",
    "history": "history:history",
    "lineage": "lineage:lineage",
    "describe": "describe:describe",
    "adopt": "adopt:adopt",
    "init": "init:init",
    "registry": "registry:registry",
    "rules": "rules:rules",
    "explain": "rules:explain",
    "schema": "schema:schema",
    "demo": "demo:demo",
}
#: Commands that look at schemas alone, and so end before there is much to free.
_SHORT: Final = frozenset({"diff", "check", "rules", "explain"})
_THRESHOLDS: Final = (700, 10, 10)
SETTINGS: Final[dict[str, Any]] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["--help", "-h"]},
}


class _AsGiven:
    """What a parameter of text or a flag does to its value: nothing.

    typer 0.29 asks pydantic even for these, which takes longer to load than most commands take to run.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        return list(value) if many else value


def _take_as_given(params: list[Any]) -> list[Any]:
    for param in params:
        kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        if hasattr(param, "_runtime_param") and kind in (str, bool, list[str]):
            param._runtime_param = _AsGiven()
    return params


class Command(TyperCommand):
    """One command."""

    def invoke(self, ctx: Any) -> Any:
        if self.name not in _SHORT:
            # What holds rows is freed as soon as may be; see lakeevolve.__main__.
            gc.set_threshold(*_THRESHOLDS)
        return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        return _take_as_given(super().get_params(ctx))


class Group(TyperGroup):
    """Commands under one name."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _take_as_given(super().get_params(ctx))


class Commands(Group):
    """All of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        function = getattr(importlib.import_module(f"lakeevolve.cli.{module}"), name)
        if isinstance(function, typer.Typer):
            group = typer.main.get_command(function)
            group.name = cmd_name
            return group
        alone = typer.Typer(add_completion=False, **SETTINGS)
        alone.command(cmd_name, cls=Command)(function)
        return typer.main.get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"there is no command {args[0]!r}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)


def _version(wanted: bool) -> None:
    if wanted:
        from lakeevolve.cli.versions import versions

        typer.echo(versions())
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    name="lakeevolve",
    help="Evolve Iceberg and Delta tables the way Avro says a schema may evolve, and prove it value by value.",
    no_args_is_help=True,
    add_completion=True,
    **SETTINGS,
)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the versions and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Findings and results go to stdout, progress and messages to stderr. --debug shows tracebacks."""
