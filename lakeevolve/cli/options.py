"""Options that several commands share, and what they mean.

All of them are text or flags: see ``Command`` in :mod:`lakeevolve.cli.app`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final

import typer

#: What every result can be written as.
PLAIN: Final = ("text", "json")
#: What a result of changes can be written as, too.
CHANGES: Final = (*PLAIN, "markdown", "html")
#: What a result with findings can be written as, too.
FINDINGS: Final = (*CHANGES, "sarif", "junit", "github", "gitlab")
ROUTES: Final = ("metadata", "backfill", "rewrite")
SEVERITIES: Final = ("error", "warning", "info", "never")


def _modes() -> Iterable[str]:
    from lakeevolve.rules.modes import MODES

    return MODES


def one_of(option: str, choices: Sequence[str]) -> Callable[[str | None], str | None]:
    """A callback that lets one of the choices pass."""

    def check(value: str | None) -> str | None:
        if value is None:
            return None
        chosen = next((each for each in choices if each.lower() == value.lower()), None)
        if chosen is None:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(choices)}", param_hint=option)
        return chosen

    return check


def choice(option: str, choices: Sequence[str], text: str) -> Any:
    """An option that takes one of the choices."""
    return typer.Option(
        option,
        help=text,
        metavar="|".join(choices),
        callback=one_of(option, choices),
        autocompletion=lambda: list(choices),
    )


def _outputs(formats: Sequence[str]) -> Callable[[list[str] | None], list[str] | None]:
    def check(values: list[str] | None) -> list[str] | None:
        for value in values or ():
            format, equals, file = value.partition("=")
            if not (equals and file) or format not in formats:
                raise typer.BadParameter(
                    f"{value!r} is not FORMAT=FILE with one of {', '.join(formats)}", param_hint="--output"
                )
            # Said now, and not after a table was changed.
            if not os.path.isdir(os.path.dirname(file) or ".") or os.path.isdir(file):
                raise typer.BadParameter(f"the file {file} cannot be written there", param_hint="--output")
        return values

    return check


def _format(formats: Sequence[str]) -> Any:
    return choice("--format", formats, "How the result is written.")


def _output(formats: Sequence[str]) -> Any:
    return typer.Option(
        "--output",
        help="Write the result into a file, too: " + "|".join(formats) + ". Repeatable.",
        metavar="FORMAT=FILE",
        callback=_outputs(formats),
    )


PlainFormat = Annotated[str, _format(PLAIN)]
PlainOutput = Annotated[list[str] | None, _output(PLAIN)]
RulesFormat = Annotated[str, _format((*PLAIN, "markdown"))]
RulesOutput = Annotated[list[str] | None, _output((*PLAIN, "markdown"))]
ChangesFormat = Annotated[str, _format(CHANGES)]
ChangesOutput = Annotated[list[str] | None, _output(CHANGES)]
FindingsFormat = Annotated[str, _format(FINDINGS)]
FindingsOutput = Annotated[list[str] | None, _output(FINDINGS)]
FailOnOption = Annotated[
    str | None, choice("--fail-on", SEVERITIES, "Lowest severity that makes the exit code 1; error by default.")
]
ModeOption = Annotated[
    str,
    typer.Option(
        "--mode",
        help="NONE, BACKWARD, FORWARD, FULL or one of the _TRANSITIVE ones.",
        metavar="MODE",
        autocompletion=lambda: list(_modes()),
    ),
]
RenameOption = Annotated[
    list[str] | None,
    typer.Option("--rename", help="A rename that the owner approves: OLD=NEW (paths). Repeatable.", metavar="OLD=NEW"),
]
NotRenameOption = Annotated[
    list[str] | None,
    typer.Option("--not-rename", help="A suspected rename that is none: OLD=NEW. Repeatable.", metavar="OLD=NEW"),
]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="An option of the table's catalog or store: NAME=VALUE. Repeatable. Never saved and never shown; the "
        "environment and .pyiceberg.yaml keep credentials off the command line.",
        metavar="NAME=VALUE",
    ),
]
PlanArgument = Annotated[str, typer.Argument(help="A plan file.", metavar="PLAN")]
TableArgument = Annotated[str, typer.Argument(help="iceberg:CATALOG/ns.table or delta:PATH", metavar="TABLE")]


def pairs(given: Sequence[str] | None, option: str) -> list[tuple[str, str]]:
    """``OLD=NEW`` options as pairs."""
    found = []
    for text in given or ():
        old, equals, new = (side.strip() for side in text.partition("="))
        if not (old and equals and new) or "=" in new:
            raise typer.BadParameter(f"{text!r} is not OLD=NEW", param_hint=option)
        found.append((old, new))
    return found


def old_rows_of(given: Sequence[str] | None) -> str | dict[str, str]:
    """``--old-rows default``, ``--old-rows null`` and ``--old-rows PATH=null`` as the API takes them."""
    if not given:
        return "default"
    per_path: dict[str, str] = {}
    for text in given:
        path, equals, wanted = (side.strip() for side in text.partition("="))
        path, wanted = (path, wanted) if equals else ("*", path)
        if wanted not in ("default", "null") or not path:
            raise typer.BadParameter(
                f"{text!r} is none of default, null, PATH=default, PATH=null", param_hint="--old-rows"
            )
        per_path[path] = wanted
    return per_path["*"] if list(per_path) == ["*"] else per_path


def routes_of(given: Sequence[str] | None) -> dict[str, str] | None:
    """``PATH=ROUTE`` options as the API takes them."""
    found = {}
    for text in given or ():
        path, equals, route = (side.strip() for side in text.rpartition("="))
        if not (path and equals) or route not in ROUTES:
            raise typer.BadParameter(
                f"{text!r} is not PATH=ROUTE with one of {', '.join(ROUTES)}", param_hint="--route"
            )
        found[path] = route
    return found or None


def count_of(given: str | None, option: str) -> int | None:
    """A whole number from 1 on."""
    if given is None:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise typer.BadParameter(f"{given!r} is no number from 1 on", param_hint=option)
    return int(given)


def open_with(uri: str, given: Sequence[str] | None) -> Any:
    """Open a table with ``--option`` values."""
    from lakeevolve.tables import open_table

    return open_table(uri, **options_for(uri, given))


def options_for(uri: str, given: Sequence[str] | None) -> dict[str, Any]:
    """``--option`` values as the format of a URI takes them."""
    options: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            # Not quoted: it may be a credential.
            raise typer.BadParameter("an option is NAME=VALUE", param_hint="--option")
        options[name.strip()] = value
    return {"storage_options": options} if uri.startswith("delta:") and options else options


#: What a plan's steps that nobody can run here are written as.
EmitOption = Annotated[
    str | None,
    choice("--emit", ("spark-sql",), "Print, instead of the plan, its external steps as a file of Spark SQL."),
]

#: Who does the heavy work.
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Who reads, compares and writes files: local, local://N (threads), processes://N, dask://HOST:PORT, "
        "spark:MASTER, sc://HOST:PORT.",
        metavar="ENGINE",
    ),
]
