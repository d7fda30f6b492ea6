"""``lakeevolve plan TABLE TARGET``: what apply would do, exactly; nothing is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeevolve.cli.console import note, write
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    EmitOption,
    FailOnOption,
    FindingsFormat,
    FindingsOutput,
    ModeOption,
    NotRenameOption,
    RenameOption,
    TableOption,
    old_rows_of,
    open_with,
    pairs,
    routes_of,
)
from lakeevolve.cli.project import ChangedOption, ConfigOption, NoRegistryOption, SubjectOption

if TYPE_CHECKING:
    from lakeevolve.model.schema import Schema
    from lakeevolve.planning.plan import Plan
    from lakeevolve.tables.base import Table
    from lakeevolve.tables.description import Description

CLEAN_WITH_CHANGES = 3


def plan(
    table: Annotated[
        str | None,
        typer.Argument(
            help="iceberg:CATALOG/ns.table or delta:PATH; or the file of a saved description, where nobody may reach "
            "the table.",
            metavar="TABLE",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Argument(help="The schema that the table is to have.", metavar="TARGET", show_default=False),
    ] = None,
    mode: ModeOption = "BACKWARD",
    old_rows: Annotated[
        list[str] | None,
        typer.Option(
            "--old-rows",
            help="What old rows read in added fields: default, null or PATH=null. Repeatable.",
            metavar="default|null|PATH=null",
        ),
    ] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(
            "--route",
            help="A route to insist on: PATH=ROUTE. A change that would take another one is refused. Repeatable.",
            metavar="PATH=ROUTE",
        ),
    ] = None,
    rename: RenameOption = None,
    not_rename: NotRenameOption = None,
    rebase: Annotated[
        str | None,
        typer.Option(
            "--rebase",
            help="In place of TABLE and TARGET: a plan whose table others changed since, to be made anew.",
            metavar="PLAN",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Save the plan here, for apply; of a project, each in this folder.",
            metavar="FILE|FOLDER",
        ),
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 3 when the plan is clean and holds changes.")
    ] = False,
    emit_as: EmitOption = None,
    changed: ChangedOption = None,
    no_registry: NoRegistryOption = False,
    subject: SubjectOption = None,
    config: ConfigOption = None,
    fail_on: FailOnOption = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Plan how a table gets to a target schema. Touches nothing."""
    from lakeevolve import sources
    from lakeevolve.cli.project import no_project_options, only_project_options, plan_all
    from lakeevolve.planning.make import plan as make

    if rebase is not None:
        given = [old_rows, route, rename, not_rename, changed]
        if any(each is not None for each in (table, target)) or any(given) or mode != "BACKWARD":
            raise typer.BadParameter("a plan brings all of this along; leave it out", param_hint="--rebase")
        return _rebased(rebase, out, emit_as, detailed_exitcode, fail_on, option, format, output)
    if table is None and target is None:
        of_file = {"old_rows": old_rows, "route": route, "rename": rename, "not_rename": not_rename, "option": option}
        only_project_options(**of_file, emit=emit_as, mode=mode != "BACKWARD")
        return plan_all(config, subject, changed, no_registry, out, detailed_exitcode, fail_on, format, output)
    if table is None or target is None:
        raise typer.BadParameter("give TABLE and TARGET, --rebase PLAN, or nothing for the whole project")
    no_project_options(subject, changed)
    renames = pairs(rename, "--rename")
    wanted_rows, wanted_routes = old_rows_of(old_rows), routes_of(route)
    not_renames = pairs(not_rename, "--not-rename")
    wanted = sources.load(target)
    made = make(
        _opened(table, option),
        wanted,
        mode,
        wanted_rows,
        routes=wanted_routes,
        renames=renames,
        not_renames=not_renames,
    )
    for was, now in renames:
        if now not in made.renames:
            note(f"note: --rename {was}={now} renames nothing: the table has {now} already")
    if not no_registry and target.startswith("registry:"):
        from lakeevolve.cli.registering import heard

        # Beside the plan, whose digest depends on no registry.
        for each in heard([target], mode, wanted, made):
            note(f"{each.severity}: {each.message} ({each.rule})")
    return _done(made, wanted, out, emit_as, detailed_exitcode, fail_on, format, output)


def _opened(table: str, option: list[str] | None) -> Table | Description:
    """The table, or where a file is named, its saved description."""
    from lakeevolve.tables.description import is_description, load_description

    if is_description(table):
        if option:
            raise typer.BadParameter("a description needs none", param_hint="--option")
        return load_description(table)
    live: Table = open_with(table, option)
    return live


def _rebased(
    file: str,
    out: str | None,
    emit_as: str | None,
    detailed_exitcode: bool,
    fail_on: str | None,
    option: list[str] | None,
    format: str,
    output: list[str] | None,
) -> int:
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.planning.rebase import rebase

    before = load_plan(file)
    made = rebase(before, open_with(before.table["uri"], option))
    code = _done(made, made.target, out, emit_as, detailed_exitcode, fail_on, format, output)
    if made.digest == before.digest:
        note("the intent digest stands: what was approved is what the plan holds")
    else:
        note(f"the intent digest is another one ({made.digest[:12]}): whoever approved the plan has to approve it anew")
    return code


def _done(
    made: Plan,
    wanted: Schema,
    out: str | None,
    emit_as: str | None,
    detailed_exitcode: bool,
    fail_on: str | None,
    format: str,
    output: list[str] | None,
) -> int:
    from lakeevolve.cli.exits import failing
    from lakeevolve.report.outcome import of_plan

    if out is not None:
        made.save(out)
    if emit_as is not None:
        from lakeevolve.report.sparksql import spark_sql

        write(spark_sql(made), coloured=False)
    else:
        emit(of_plan(made, wanted), format, output)
    if out is not None:
        note(f"saved to {out}")
    if made.refused or failing(made.findings, fail_on or made.fail_on):
        return 1
    return CLEAN_WITH_CHANGES if detailed_exitcode and not made.empty else 0
