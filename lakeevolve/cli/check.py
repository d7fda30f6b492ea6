"""``lakeevolve check OLD... NEW``: may it change?"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    FailOnOption,
    FindingsFormat,
    FindingsOutput,
    ModeOption,
    NotRenameOption,
    RenameOption,
    pairs,
)
from lakeevolve.cli.project import ChangedOption, ConfigOption, NoRegistryOption, SubjectOption


def check(
    schemas: Annotated[
        list[str] | None,
        typer.Argument(
            help="OLD... NEW, oldest first; the last is the candidate. None: every subject of the project.",
            metavar="[OLD... NEW]",
        ),
    ] = None,
    mode: ModeOption = "BACKWARD",
    rename: RenameOption = None,
    not_rename: NotRenameOption = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Of the project: hold each source against what it was at this git revision, not against tables.",
            metavar="REF",
        ),
    ] = None,
    changed: ChangedOption = None,
    no_registry: NoRegistryOption = False,
    subject: SubjectOption = None,
    config: ConfigOption = None,
    fail_on: FailOnOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Judge a candidate schema against the versions before it, or the whole project where none is named."""
    from lakeevolve.cli.project import check_all, no_project_options, only_project_options

    if not schemas:
        only_project_options(rename=rename, not_rename=not_rename, mode=mode != "BACKWARD")
        return check_all(config, subject, against, changed, no_registry, fail_on, format, output)
    no_project_options(subject, changed)
    if against is not None:
        raise typer.BadParameter("name the schema at the revision: git:REF:path", param_hint="--against")
    from lakeevolve import sources
    from lakeevolve.cli.exits import failing
    from lakeevolve.model.declared import check_renames
    from lakeevolve.report.outcome import of_check
    from lakeevolve.rules.modes import check as judge

    renames, not_renames = pairs(rename, "--rename"), pairs(not_rename, "--not-rename")
    *history, candidate = [each for source in schemas for each in sources.expand(source)]
    if not history and schemas == [candidate]:
        raise typer.BadParameter(
            f"there is nothing to compare {candidate} with: name the old schemas before it: OLD NEW"
        )
    versions = [sources.load(version, lenient=True) for version in history]
    wanted = sources.load(candidate)
    check_renames(renames, wanted, versions, strict=True)
    check_renames(not_renames, wanted, versions, what="what is said to be no rename", strict=True, denied=True)
    report = judge(wanted, versions, mode, renames=renames, not_renames=not_renames)
    if not no_registry and any(each.startswith("registry:") for each in schemas):
        from lakeevolve.cli.registering import heard

        report = replace(report, findings=(*report.findings, *heard(schemas, mode, wanted, report)))
    emit(of_check(report, wanted), format, output)
    return 1 if failing(report.findings, fail_on or report.fail_on) else 0
