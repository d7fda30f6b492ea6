"""``lakeevolve apply PLAN``: run exactly the plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer

from lakeevolve.cli.console import progress_bars
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import EngineOption, FindingsFormat, FindingsOutput, TableOption, open_with
from lakeevolve.cli.project import ConfigOption, SubjectOption
from lakeevolve.cli.signals import stoppable

PERMITS = ("rewrite", "backfill", "drop", "protocol-upgrade")


def _permits(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        if value not in PERMITS:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(PERMITS)}", param_hint="--allow")
    return values


def apply(
    plan: Annotated[
        str | None,
        typer.Argument(
            help="A plan file, or a folder of plans; none: the whole project is planned and applied.", metavar="[PLAN]"
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            help="Permit a kind of step: " + ", ".join(PERMITS) + ". Repeatable.",
            metavar="|".join(PERMITS),
            callback=_permits,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an apply that stopped part-way.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, write nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Apply without being asked; needed where there is no terminal.")
    ] = False,
    approved: Annotated[
        bool, typer.Option("--approved", help="Apply a plan only if an approval covers it that has not run out.")
    ] = False,
    approvals: Annotated[
        str | None,
        typer.Option(
            "--approvals",
            help="The folder of approvals; by default approvals, beside lakeevolve.yaml, and the folder of PLAN.",
            metavar="FOLDER",
        ),
    ] = None,
    require_idle: Annotated[
        str | None,
        typer.Option(
            "--require-idle", help="Do nothing where others wrote to the table less long ago than this.", metavar="15m"
        ),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option("--max-bytes", help="Of a folder: how much may be written anew in all.", metavar="500GiB"),
    ] = None,
    within: Annotated[
        str | None, typer.Option("--within", help="Of a folder: how long plans are begun.", metavar="2h")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="Of a folder: when plans are begun, in local time.", metavar="22:00-05:00"),
    ] = None,
    register: Annotated[
        str | None,
        typer.Option(
            "--register",
            help="Of a plan: register its schema under this subject of the schema registry once it is applied.",
            metavar="SUBJECT",
        ),
    ] = None,
    jobs: Annotated[str, typer.Option("--jobs", help="Of a folder: how many plans run at once.", metavar="N")] = "1",
    subject: SubjectOption = None,
    config: ConfigOption = None,
    engine: EngineOption = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Run a saved plan: proof, one commit, replay."""
    from lakeevolve.cli.batch import apply_folder, duration
    from lakeevolve.cli.project import (
        apply_all,
        for_folders,
        for_plans,
        in_project,
        no_project_options,
        only_project_options,
    )

    told: dict[str, Any] = {
        "yes": yes,
        "approved": approved or approvals is not None,
        "resume": resume,
        "dry_run": dry_run,
        "require_idle": duration(require_idle, "--require-idle"),
        "engine": engine,
    }
    where: dict[str, Any] = {"approvals": approvals, "format": format, "output": output}
    if plan is None:
        only_project_options(option=option, register=register)
        for_folders(max_bytes=max_bytes, within=within, window=window, jobs=jobs != "1")
        return apply_all(config, subject, allow or (), **told, **where)
    no_project_options(subject)
    if os.path.isdir(plan):
        for_plans(register=register)
        room: dict[str, Any] = {"max_bytes": max_bytes, "within": within, "window": window, "jobs": jobs}
        with in_project(config):
            return apply_folder(plan, allow or (), **room, option=option, **told, **where)
    return _apply_one(plan, allow or (), config=config, register=register, option=option, **told, **where)


def _apply_one(
    plan: str,
    allow: Sequence[str],
    *,
    yes: bool,
    approved: bool,
    resume: bool,
    dry_run: bool,
    require_idle: timedelta | None,
    engine: str | None,
    approvals: str | None,
    config: str | None,
    register: str | None,
    option: list[str] | None,
    format: str,
    output: list[str] | None,
) -> int:
    from lakeevolve.applying.apply import apply as run
    from lakeevolve.applying.apply import refuse_plan
    from lakeevolve.cli.asking import Word
    from lakeevolve.cli.project import approval_of, in_project
    from lakeevolve.cli.registering import refuse_unregistrable, register_applied
    from lakeevolve.errors import ReplayMismatch
    from lakeevolve.planning.plan import load_plan
    from lakeevolve.report.outcome import of_application, of_plan

    saved = load_plan(plan)
    with in_project(config) as project:
        approval = approval_of(saved, plan, approvals, project) if approved else None
        nothing = dry_run or saved.empty
        if not (yes or approved or nothing):
            # What the plan itself rules out, nobody needs to be asked about.
            refuse_plan(saved, allow)
        word = Word.of(plan, yes=yes, approved=approved, dry_run=nothing)
        if not word.or_ask(lambda: of_plan(saved).text(), f"apply this plan to {saved.table['uri']}?"):
            return 0
        if register is not None:
            # Said now, and not after the table was changed.
            refuse_unregistrable(register, saved.target)
        with stoppable(), progress_bars() as progress:
            done = run(
                saved,
                frozenset(allow),
                table=open_with(saved.table["uri"], option),
                engine=engine,
                resume=resume,
                dry_run=dry_run,
                progress=progress,
                approval=approval,
                require_idle=require_idle,
            )
    emit(of_application(done, saved), format, output)
    if register is not None and done.ok and not dry_run:
        with in_project(config):
            register_applied(register, saved.target)
    return 0 if done.ok else ReplayMismatch.exit_code
