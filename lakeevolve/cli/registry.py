"""``lakeevolve registry``: what a schema registry holds, against tables; and a small one for laptops and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeevolve.cli.app import SETTINGS, Command, Group
from lakeevolve.cli.console import note
from lakeevolve.cli.emit import emit
from lakeevolve.cli.options import (
    FailOnOption,
    FindingsFormat,
    FindingsOutput,
    PlainFormat,
    PlainOutput,
    TableArgument,
    TableOption,
    open_with,
)

if TYPE_CHECKING:
    from lakeevolve.sources.registry import Reference, Registry

registry = typer.Typer(
    cls=Group,
    help="Look at a schema registry, hold it against tables, register schemas, or serve a small registry.",
    no_args_is_help=True,
    add_completion=False,
    **SETTINGS,
)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The registry; by default LAKEEVOLVE_REGISTRY_URL, else what lakeevolve.yaml says. Credentials come from "
        "the environment.",
        metavar="URL",
    ),
]
SubjectArgument = Annotated[str, typer.Argument(help="A subject of the registry.", metavar="SUBJECT")]


@registry.command("subjects", cls=Command)
def subjects(
    prefix: Annotated[
        str, typer.Argument(help="Only subjects whose names begin so.", metavar="[PREFIX]", show_default=False)
    ] = "",
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only the subjects of this topic, by their names.", metavar="TOPIC")
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Soft-deleted ones, too.")] = False,
    url: UrlOption = None,
    format: PlainFormat = "text",
    output: PlainOutput = None,
) -> int:
    """List the subjects with their versions, level and type."""
    from lakeevolve.report.registry import of_subjects
    from lakeevolve.sources.registry import of_topic, open_registry

    with open_registry(url) as opened:
        names = opened.subjects(prefix or topic or "", deleted=deleted)
        strategies: Mapping[str, str] = {} if topic is None else of_topic(topic, names)
        kept = [name for name in names if topic is None or name in strategies]
        record = [_subject(opened, name, strategies.get(name), deleted) for name in kept]
        emit(of_subjects(record, opened.settings.shown), format, output)
    return 0


def _subject(opened: Registry, name: str, strategy: str | None, deleted: bool) -> dict[str, Any]:
    versions = opened.versions(name, deleted=True)
    live = [] if deleted and name not in opened.subjects(name) else opened.versions(name)
    level, own = opened.level(name)
    newest = opened.version(name, (live or versions)[-1], deleted=True)
    return {
        "subject": name,
        "versions": versions if deleted else live,
        "deleted": [number for number in versions if number not in live] if deleted else [],
        "level": level,
        "own_level": own,
        "type": newest.kind,
        "strategy": strategy,
    }


@registry.command("diff", cls=Command)
def diff(
    subject: Annotated[
        str, typer.Argument(help="A subject, or SUBJECT#RECORD for one record of a union.", metavar="SUBJECT")
    ],
    table: TableArgument,
    url: UrlOption = None,
    fail_on: FailOnOption = None,
    option: TableOption = None,
    format: FindingsFormat = "text",
    output: FindingsOutput = None,
) -> int:
    """Hold the versions of a subject against those that a table has had."""
    from lakeevolve.cli.exits import failing
    from lakeevolve.registry.compare import compare
    from lakeevolve.report.registry import of_comparison
    from lakeevolve.sources.registry import address, open_registry

    place = address(subject)
    if place.version != "latest":
        raise typer.BadParameter("all versions are compared; leave out the @", param_hint="SUBJECT")
    with open_registry(url) as opened:
        found = compare(opened, place.subject, open_with(table, option), event=place.event)
    emit(of_comparison(found), format, output)
    return 1 if failing(found.findings, fail_on or "error") else 0


@registry.command("register", cls=Command)
def register(
    schema: Annotated[str, typer.Argument(help="The schema: a path or any other source.", metavar="SCHEMA")],
    subject: Annotated[str | None, typer.Option("--subject", "-s", help="The subject.", metavar="SUBJECT")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="In place of a subject: the topic that it is for.", metavar="TOPIC")
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            help="How the topic's producers name subjects: TopicName, RecordName or TopicRecordName.",
            metavar="STRATEGY",
        ),
    ] = "TopicName",
    key: Annotated[bool, typer.Option("--key", help="It is the schema of the topic's keys.")] = False,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            help="A type that the schema leaves to another subject: NAME=SUBJECT@N. Repeatable. Without it, every type "
            "goes into the schema itself.",
            metavar="NAME=SUBJECT@N",
        ),
    ] = None,
    url: UrlOption = None,
    format: PlainFormat = "text",
    output: PlainOutput = None,
) -> int:
    """Register a schema as the next version of a subject; what is there already stays as it is."""
    from lakeevolve.report.registry import of_registration
    from lakeevolve.sources.registry import open_registry, subject_name

    if (subject is None) == (topic is None and strategy == "TopicName"):
        raise typer.BadParameter("give --subject, or --topic with a --strategy", param_hint="--subject")
    with open_registry(url) as opened:
        text, record, references = _candidate(opened, schema, reference or ())
        name = subject if subject is not None else subject_name(topic or "", strategy, record, key=key)
        before = opened.versions(name) if name in opened.subjects(name) else []
        id_ = opened.register(name, text, references)
        newest = next(
            each
            for each in (opened.version(name, number) for number in reversed(opened.versions(name)))
            if each.id == id_
        )
        emit(of_registration(name, newest.version, id_, newest.version not in before), format, output)
    return 0


def _candidate(opened: Registry, source: str, given: Sequence[str]) -> tuple[str, str, tuple[Reference, ...]]:
    """The text to register, the full name of its record, and what it refers to."""
    from pathlib import Path

    from lakeevolve import sources
    from lakeevolve.model.types import Record
    from lakeevolve.sources.folder import text_of as read
    from lakeevolve.sources.registry.client import references_of, text_of

    references = references_of(dict(_pairs(given)))
    if not references:
        loaded = sources.load(source)
        return text_of(loaded), loaded.root.name if isinstance(loaded.root, Record) else "", ()
    text = read(Path(source))
    if text is None:
        raise typer.BadParameter("with --reference, the schema is a file", param_hint="SCHEMA")
    # What it lacks without them is said here, and not by the registry.
    root = opened.complete(text, references, source).root
    return text, root.name if isinstance(root, Record) else "", references


def _pairs(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise typer.BadParameter(f"{text!r} is not NAME=SUBJECT@N", param_hint="--reference")
        yield name, place


@registry.command("uses", cls=Command)
def uses(
    subject: SubjectArgument,
    url: UrlOption = None,
    format: PlainFormat = "text",
    output: PlainOutput = None,
) -> int:
    """List the subjects that refer to a subject, directly or not, and the project's tables that hold their rows."""
    from lakeevolve.config.state import current_project
    from lakeevolve.redaction import public_uri
    from lakeevolve.report.registry import of_users
    from lakeevolve.sources.registry import address, open_registry

    place = address(subject)
    project = current_project()
    tables: dict[str, list[str]] = {}
    for each in () if project is None else project.entry.subjects.values():
        if each.registered_as is not None:
            tables.setdefault(each.registered_as, []).extend(public_uri(uri) for uri in each.tables)
    with open_registry(url) as opened:
        emit(of_users(subject, opened.all_users(place.subject, place.version), tables), format, output)
    return 0


@registry.command("serve", cls=Command)
def serve(
    folder: Annotated[str, typer.Argument(help="A folder with a folder for each subject.", metavar="DIR")],
    port: Annotated[str, typer.Option("--port", help="0 takes a free one.", metavar="PORT")] = "8081",
    host: Annotated[
        str,
        typer.Option("--host", help="Where to listen. There is no password: anyone there may write.", metavar="HOST"),
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Let nobody write, and write nothing.")] = False,
) -> int:
    """Serve a folder of versions as a schema registry, for laptops and tests; Ctrl-C stops it."""
    import signal

    from lakeevolve.registry.server import LOOPBACK, Server
    from lakeevolve.registry.store import Store

    if not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"{port!r} is no port", param_hint="--port")
    server = Server(Store(folder, read_only=read_only), host, int(port))

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        if host not in (LOOPBACK, "localhost"):
            note(f"warning: whoever reaches {host} may read and write: there is no password")
        note(f"serving {folder} as a schema registry on {server.url}; Ctrl-C stops it")
        server.serve_forever()
    except KeyboardInterrupt:
        note("stopped")
    finally:
        server.server_close()
        signal.signal(signal.SIGTERM, before)
    return 0
