"""``lakeevolve verify TABLE``: does every row read what the resolutions say?"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from lakeevolve.cli.console import note, progress_bars
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    EngineOption,
    FindingsFormat,
    FindingsOutput,
    TableOption,
    choice,
    count_of,
)
from lakeevolve.cli.project import ConfigOption, SubjectOption


def verify(
    table: Annotated[
        str | None,
        typer.Argument(
            help="iceberg:CATALOG/ns.table or delta:PATH; none: every table of the project", metavar="[TABLE]"
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="The schema that the table is meant to have; its columns take their Avro types from it where the "
            "table carries none. Or the file of an earlier replay's evidence: what changed since.",
            metavar="SCHEMA|EVIDENCE",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Repeat the proof of each rewrite while the state before it exists.")
    ] = False,
    columns: Annotated[
        str,
        choice(
            "--columns",
            ("changed", "all"),
            "Which columns are asked for under filters; whole rows are compared always.",
        ),
    ] = "changed",
    sample: Annotated[
        str | None,
        typer.Option("--sample", help="Look at this many files at most, at least one of each version.", metavar="N"),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option("--reader", help="Ask a second reader too: duckdb, polars. Repeatable.", metavar="NAME"),
    ] = None,
    readers: Annotated[
        str | None, typer.Option("--readers", help="The same, as a list: duckdb,polars.", metavar="NAME,NAME")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", help="Replay the readers that the mode promises forward too.", metavar="MODE"),
    ] = None,
    contract: Annotated[
        list[str] | None,
        typer.Option("--contract", help="Read every row as this contract's consumer does. Repeatable.", metavar="FILE"),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option("--evidence", help="Save the sealed evidence here; --against takes it later.", metavar="FILE"),
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show the values of mismatches; on a terminal only.")
    ] = False,
    engine: EngineOption = None,
    subject: SubjectOption = None,
    config: ConfigOption = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Replay a table: compare every value with what Avro resolution says."""
    from lakeevolve.applying.proofs import proofs_of
    from lakeevolve.cli.project import no_project_options, only_project_options, opened, verify_all
    from lakeevolve.errors import ReplayMismatch
    from lakeevolve.replaying.verify import verify as replay
    from lakeevolve.report.outcome import of_verify

    if show_values and not (sys.stdout.isatty() and format == "text"):
        raise typer.BadParameter("values are shown on a terminal only", param_hint="--show-values")
    files = count_of(sample, "--sample")
    asked = [*(reader or ()), *(name.strip() for name in (readers or "").split(",") if name.strip())]
    if table is None:
        only_project_options(
            against=against, option=option, show_values=show_values, mode=mode, contract=contract, evidence=evidence
        )
        names = tuple(dict.fromkeys(asked))
        return verify_all(config, subject, full, columns, files, names, engine, format, output)
    no_project_options(subject)
    live = opened(table, option)
    filtered: Any = columns
    with progress_bars() as progress:
        result = replay(
            live,
            against,
            full=full,
            columns=filtered,
            sample=files,
            readers=tuple(dict.fromkeys(asked)),
            contracts=tuple(contract or ()),
            engine=engine,
            mode=mode,
            progress=lambda done, of: progress("verify", done, of),
            evidence=proofs_of(live) if full else (),
        )
    if evidence is not None:
        result.evidence.save(evidence)
    emit(of_verify(result, live.uri, show_values=show_values), format, output)
    if evidence is not None:
        note(f"evidence saved to {evidence}")
    return 0 if result.ok else ReplayMismatch.exit_code
