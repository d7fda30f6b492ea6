"""``lakeevolve replay SOURCE --consumer NAME --out OUT``: rows as one consumer reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    FailOnOption,
    FindingsFormat,
    FindingsOutput,
    TableOption,
    count_of,
    open_with,
    options_for,
)
from lakeevolve.cli.project import ConfigOption

if TYPE_CHECKING:
    from lakeevolve.rules.contract import Contract


def replay(
    source: Annotated[
        list[str],
        typer.Argument(
            help="A table (iceberg:CATALOG/ns.table, delta:PATH), or Avro container files and folders of them.",
            metavar="SOURCE...",
        ),
    ],
    consumer: Annotated[
        str,
        typer.Option(
            "--consumer",
            help="Who reads: the name of a contract of the project, or a contract's file.",
            metavar="NAME|FILE",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            help="Where the results go: a folder, a file.parquet, or a table's URI, which is made where there is none.",
            metavar="FILE|TABLE",
        ),
    ],
    since: Annotated[
        str | None, typer.Option("--since", help="Leave out rows of schema versions before this.", metavar="VERSION")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            "--history",
            help="For Avro files: the schema versions, oldest first, or a folder of them; by default the source of the "
            "contract's subject. Repeatable.",
            metavar="SCHEMA",
        ),
    ] = None,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            help="The folder for rows that are held back; by default beside the results. A table needs one.",
            metavar="DIR",
        ),
    ] = None,
    keep_days: Annotated[
        str | None,
        typer.Option(
            "--keep-days",
            help="Delete rows that were held back for more than so many days; by default they stay until the consumer "
            "may have them.",
            metavar="N",
        ),
    ] = None,
    config: ConfigOption = None,
    option: TableOption = None,
    fail_on: FailOnOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Write the rows of a table or of Avro files as one consumer reads them, and hold back what it has not accepted."""
    from lakeevolve.cli.exits import failing
    from lakeevolve.replaying.project import project
    from lakeevolve.report.replayed import of_replay_output
    from lakeevolve.tables import is_table

    first, days = count_of(since, "--since"), count_of(keep_days, "--keep-days")
    given: Any = source
    tables = [each for each in source if is_table(each)]
    if tables:
        if len(source) > 1:
            raise typer.BadParameter("a table is replayed by itself", param_hint="SOURCE")
        given = open_with(tables[0], option)
    contract, versions = _contract(consumer, config)
    done = project(
        given,
        contract,
        out,
        history=tuple(history or (() if tables else versions)),
        since=first,
        quarantine=quarantine,
        keep_days=days,
        options=options_for(out, option),
    )
    emit(of_replay_output(done), format, output)
    return 1 if failing(done.findings, fail_on or "error") else 0


def _contract(consumer: str, config: str | None) -> tuple[Contract, Sequence[str]]:
    """The contract of a name among the project's, or of a file, and where its subject's schema versions are."""
    from lakeevolve.config.find import find
    from lakeevolve.config.load import load_project
    from lakeevolve.errors import ConfigError
    from lakeevolve.rules.contract import load_contract

    named = None if config is None and find() is None else load_project(config)
    known = []
    if named is not None:
        for subject in named.entry.subjects.values():
            for file in map(named.located, subject.contracts):
                contract = load_contract(file)
                if contract.name == consumer or os.path.normpath(file) == os.path.normpath(consumer):
                    return contract, (named.located(subject.source),)
                known.append(contract.name)
    if os.path.isfile(consumer):
        return load_contract(consumer), ()
    raise ConfigError(
        f"no consumer is called {consumer!r}",
        where=consumer if named is None else named.shown,
        hint="known consumers: " + ", ".join(known) if known else "name the contract's file: --consumer billing.yaml",
    )
