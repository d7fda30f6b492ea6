"""What commands have to do with ``lakeevolve.yaml``: its state, and the whole project where no table is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeevolve.cli.asking import Word
from lakeevolve.cli.console import note, progress_bars
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import open_with

if TYPE_CHECKING:
    from datetime import timedelta

    from lakeevolve.config.approvals import Approval
    from lakeevolve.config.project import Project
    from lakeevolve.planning.plan import Plan
    from lakeevolve.planning.project import Parts
    from lakeevolve.tables.base import Table

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="The project's file; by default the nearest lakeevolve.yaml, from the working directory upwards.",
        metavar="FILE",
    ),
]
SubjectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subject", "-s", help="Of the project, only the subjects of this name or pattern. Repeatable.", metavar="NAME"
    ),
]

ChangedOption = Annotated[
    str | None,
    typer.Option(
        "--changed",
        help="Of the project, only what was touched since it left this git revision, through whichever file.",
        metavar="BASE",
    ),
]

NoRegistryOption = Annotated[
    bool,
    typer.Option("--no-registry", help="Do not ask the schema registry, as where nobody has its credentials."),
]


@contextmanager
def in_project(config: str | None) -> Iterator[Project | None]:
    """Read the project's file that is named, if one is, and keep the state where it says."""
    from lakeevolve.config.state import using

    if config is None:
        yield None
        return
    from lakeevolve.config.load import load_project

    project = load_project(config)
    with using(project):
        yield project


@contextmanager
def the_project(config: str | None) -> Iterator[Project]:
    """Read the project's file, the nearest one where none is named, and keep the state where it says."""
    from lakeevolve.config.load import load_project
    from lakeevolve.config.state import using

    project = load_project(config)
    with using(project):
        yield project


def opened(uri: str, option: Sequence[str] | None) -> Table:
    """Open a table with ``--option`` values, its foreign columns as the project in use has them, if there is one."""
    from lakeevolve.config.state import current_project

    live: Table = open_with(uri, option)
    project = current_project()
    if project is not None:
        live.leave_out(project.options(uri).foreign)
    return live


def no_project_options(subject: Sequence[str] | None, changed: str | None = None) -> None:
    """Refuse ``-s`` and ``--changed`` beside a named table or schema."""
    if changed is not None:
        raise typer.BadParameter("this is for a whole project; leave out the arguments", param_hint="--changed")
    if subject:
        raise typer.BadParameter("subjects are chosen of a whole project; leave out the arguments", param_hint="-s")


def only_project_options(**given: Any) -> None:
    """Refuse options that the project's file has to say, where the whole project is asked for."""
    for name, value in given.items():
        if value:
            option = "--" + name.replace("_", "-")
            raise typer.BadParameter("for a whole project, lakeevolve.yaml says it", param_hint=option)


def for_folders(**given: Any) -> None:
    """Refuse options of folders of plans."""
    for name, value in given.items():
        if value:
            raise typer.BadParameter(
                "this is for a folder of plans: save them with plan --out FOLDER first",
                param_hint="--" + name.replace("_", "-"),
            )


def for_plans(**given: Any) -> None:
    """Refuse options of one plan."""
    for name, value in given.items():
        if value:
            raise typer.BadParameter("this is for one plan: name its file", param_hint="--" + name.replace("_", "-"))


def approval_of(plan: Plan, file: str, folder: str | None, project: Project | None) -> Approval:
    """The approval that covers a plan: in a folder that is named, else beside the plan or in the project's approvals.

    Raises ``PermitMissing`` where none does.
    """
    from pathlib import Path

    from lakeevolve.config.approvals import load_approvals, require
    from lakeevolve.config.find import find

    if folder is not None:
        return require(plan.digest, load_approvals(folder), where=plan.table["uri"])
    top = project.file if project is not None else find()
    folders = [Path(file).absolute().parent, *([] if top is None else [top.parent / "approvals"])]
    return require(plan.digest, load_approvals(*dict.fromkeys(folders)), where=plan.table["uri"])


def check_all(
    config: str | None,
    subject: Sequence[str] | None,
    against: str | None,
    changed: str | None,
    no_registry: bool,
    fail_on: str | None,
    format: str,
    output: Sequence[str] | None,
) -> int:
    from lakeevolve.planning.project import check_project

    with the_project(config) as project:
        parts = check_project(project, subject or (), against=against, changed=changed, registry=not no_registry)
        return _told(parts, fail_on, format, output)


def plan_all(
    config: str | None,
    subject: Sequence[str] | None,
    changed: str | None,
    no_registry: bool,
    out: str | None,
    detailed_exitcode: bool,
    fail_on: str | None,
    format: str,
    output: Sequence[str] | None,
) -> int:
    from lakeevolve.planning.project import plan_project

    with the_project(config) as project:
        parts = plan_project(project, subject or (), changed=changed, registry=not no_registry)
        code = _told(parts, fail_on, format, output, detailed=detailed_exitcode)
        if out is not None:
            for file in save_plans(parts, out):
                note(f"saved to {file}")
        return code


def save_plans(parts: Parts, folder: str) -> Iterator[str]:
    """Save each plan that holds changes, under the names of its subject and table."""
    from pathlib import Path

    from lakeevolve.errors import ConfigError

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder for the plans cannot be made: {error.strerror}", where=folder, hint="choose a writable path"
        ) from error
    used: list[str] = []
    for part in parts.parts:
        if part.value is not None and not part.value.empty:
            name = plan_name(part.subject, part.table or "")
            used.append(name)
            again = "" if used.count(name) == 1 else f"-{used.count(name)}"
            yield str(part.value.save(Path(folder) / f"{name}{again}.json"))


def plan_name(subject: str, table: str) -> str:
    """The name of a file for the plan of a table.

    >>> plan_name("orders", "delta:s3://lake/shop/orders")
    'orders.delta-s3-lake-shop-orders'
    """
    from lakeevolve.redaction import public_uri

    return ".".join(re.sub(r"[^\w-]+", "-", text).strip("-") for text in (subject, public_uri(table)))


def verify_all(
    config: str | None,
    subject: Sequence[str] | None,
    full: bool,
    columns: str,
    sample: int | None,
    readers: Sequence[str],
    engine: str | None,
    format: str,
    output: Sequence[str] | None,
) -> int:
    from lakeevolve.applying.project import verify_project

    with the_project(config) as project, progress_bars() as progress:
        parts = verify_project(
            project,
            subject or (),
            full=full,
            columns=columns,
            sample=sample,
            readers=readers,
            engine=engine,
            watch=_watching(progress),
        )
    return _told(parts, None, format, output)


def apply_all(
    config: str | None,
    subject: Sequence[str] | None,
    allow: Sequence[str],
    *,
    yes: bool,
    approved: bool,
    approvals: str | None,
    resume: bool,
    dry_run: bool,
    require_idle: timedelta | None,
    engine: str | None,
    format: str,
    output: Sequence[str] | None,
) -> int:
    """Plan every table of the project and apply the plans, once someone said yes or approved them."""
    from lakeevolve.applying.project import apply_project
    from lakeevolve.cli.signals import stoppable
    from lakeevolve.config.approvals import load_approvals
    from lakeevolve.planning.project import plan_project
    from lakeevolve.report.project import of_project

    with the_project(config) as project:
        word = Word.of(project.shown, yes=yes, approved=approved, dry_run=dry_run)
        words = load_approvals(approvals or project.root / "approvals") if approved else None
        planned = plan_project(project, subject or ())
        changed = sum(part.value is not None and not part.value.empty for part in planned.parts)
        lowest = project.entry.policy.fail_on
        if changed and not word.or_ask(lambda: of_project(planned, lowest).text(), f"apply {changed} of these plans?"):
            return 0
        with stoppable(), progress_bars() as progress:
            parts = apply_project(
                planned,
                frozenset(allow),
                approvals=words,
                dry_run=dry_run,
                resume=resume,
                require_idle=require_idle,
                engine=engine,
                watch=_watching(progress),
            )
        return _told(parts, None, format, output)


def _watching(progress: Callable[[str, int, int], None]) -> Callable[[str], Callable[[Any, int, int], None]]:
    def watch(name: str) -> Callable[[Any, int, int], None]:
        return lambda phase, done, of: progress(f"{phase} {name}", done, of)

    return watch


def _told(
    parts: Parts, fail_on: str | None, format: str, output: Sequence[str] | None, *, detailed: bool = False
) -> int:
    from lakeevolve.report.project import code_of_all, of_project

    lowest = fail_on or parts.project.entry.policy.fail_on
    emit(of_project(parts, lowest, detailed=detailed), format, output)
    return code_of_all(parts, lowest, detailed=detailed)
