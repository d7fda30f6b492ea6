"""The commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeevolve.cli import apply, check, demo, describe, diff, history, plan, rules, show, verify

app = typer.Typer(
    name="lakeevolve",
    help="Evolve Iceberg and Delta tables the way Avro says a schema may evolve, and prove it value by value.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from lakeevolve.cli.versions import versions

        typer.echo(versions())
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the versions and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Findings and results go to stdout, progress and messages to stderr. --debug shows tracebacks."""


for module in (diff, check, plan, show, apply, verify, history, describe, rules, demo):
    module.add_to(app)
