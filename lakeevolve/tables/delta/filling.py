"""Defaults that reach old rows in two commits: the columns first, then their values.

What an UPDATE can write, and where NULL tells which rows it has to write, an UPDATE fills. Everything else the files
tell: those that were live when the columns came are written anew, and what others appended since stays as it is, NULLs
that they meant included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakeevolve.errors import PlanBlocked
from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField, Change
from lakeevolve.model.types import Field
from lakeevolve.tables.base import Capability, Fill, Route, Version
from lakeevolve.tables.delta.log import Commit, Snapshot
from lakeevolve.tables.delta.scan import literal_of
from lakeevolve.tables.delta.schema import nullable

if TYPE_CHECKING:
    import pyarrow as pa


def defaulted(changes: Sequence[tuple[Change, Route]], fills: Mapping[str, Fill]) -> tuple[AddField, ...]:
    """The fields whose default reaches old rows after the column was added: those with a default that take the route
    of metadata although it is asked for."""
    return tuple(
        change
        for change, route in changes
        if isinstance(change, AddField)
        and route == "metadata"
        and change.field.has_default
        and change.field.default is not None
        and fills.get(change.path) == "default"
    )


def by_update(path: str, field: Field) -> bool:
    """Whether an UPDATE can fill a column: NULL tells which rows it has to fill, and SQL says with what."""
    return len(paths.parts(path)) == 1 and not nullable(field.type) and literal_of(field) is not None


def by_files(fields: Sequence[AddField]) -> bool:
    """Whether the files of before are written anew instead."""
    return not all(by_update(change.path, change.field) for change in fields)


def asked_for(change: AddField, *, held: bool, vectors: bool, readers: tuple[str, ...]) -> Capability:
    """How a default reaches old rows where the owner asks for the route of metadata.

    ``held`` says whether files hold the values of an earlier column of that name, ``vectors`` whether files have
    deletion vectors, ``readers`` what readers notice of files that are written anew.
    """
    optional = "the column is optional whatever its Avro type says"
    if paths.VALUES in paths.parts(change.path):
        return _refuse(
            "until the map's values are filled DataFusion could not read the table (apache/datafusion#23914)"
        )
    if held:
        return _refuse("files still hold the values of an earlier column of that name, which would come back")
    if by_update(change.path, change.field):
        return Capability(
            "metadata",
            "add_columns, then UPDATE",
            "as asked (route: metadata): the column is added, and an UPDATE in a commit of its own gives old rows the "
            "default; between the two they read NULL",
            permit="backfill",
            readers=(
                optional,
                "files that the UPDATE writes name Arrow's view types, which some readers (daft 0.7) refuse",
            ),
        )
    if vectors:
        return _refuse("delta-rs cannot take single files out of a table whose files have deletion vectors")
    return Capability(
        "metadata",
        "add_columns, then the files of before written anew",
        "as asked (route: metadata): the column is added, and in a commit of its own the files of before are written "
        "anew with the default; between the two they read NULL, and rows that others append meanwhile stay as they are",
        permit="backfill",
        readers=(optional, *readers),
    )


def _refuse(why: str) -> Capability:
    return Capability(
        "refuse",
        "none",
        f"the route metadata was asked for, and {why}; leave the route out: a rewrite in one commit can",
    )


def filled_by_update(coming: Version) -> tuple[Field, ...]:
    """The fields of a version that is yet to be filled whose NULLs an UPDATE will fill."""
    paths_ = [
        path for path, fill in coming.fills.items() if fill == "default" and coming.routes.get(path) == "metadata"
    ]
    fields = [coming.schema.record.field(path) for path in paths_]
    found = [f for f in fields if f is not None and f.has_default and f.default is not None]
    plain = len(found) == len(paths_) and all(by_update(paths.child("", f.name), f) for f in found)
    return tuple(found) if plain else ()


def as_filled(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """Rows with the default wherever these columns hold NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from lakeevolve.avro.arrow import arrow_type
    from lakeevolve.avro.defaults import default_value

    for field in fields:
        at = batch.schema.get_field_index(field.name)
        held = batch.column(at)
        value = pa.scalar(default_value(field.type, field.default), arrow_type(field.type, strict=False))
        batch = batch.set_column(at, batch.schema.field(at), pc.if_else(pc.is_valid(held), held, value.cast(held.type)))
    return batch


def refuse_mixed(snapshot: Snapshot, begun: int, at: Callable[[int], Snapshot], where: str) -> None:
    """Raise ``PlanBlocked`` where files from before a commit went into others since: which of their rows are old, and
    have yet to be filled, nobody can tell."""
    then = at(begun)
    if any(file.added is None and path not in then.files for path, file in snapshot.files.items()):
        raise _mixed(None, snapshot.version, where)
    if all(path in snapshot.files for path in then.files):
        return
    operations = {commit.version: commit for commit in snapshot.commits}
    before = then
    for version in range(begun + 1, snapshot.version + 1):
        after = at(version)
        gone = before.files.keys() - after.files.keys()
        if gone & then.files.keys() and after.files.keys() - before.files.keys():
            raise _mixed(operations.get(version), version, where)
        before = after


def _mixed(commit: Commit | None, version: int, where: str) -> PlanBlocked:
    operation = commit.operation if commit is not None and commit.operation else "a commit"
    return PlanBlocked(
        f"{operation} of version {version} wrote rows from before the new columns anew, so that nobody can tell which "
        "rows have yet to be given the default",
        where=where,
        hint="give it to them with an UPDATE of your own, or restore the table to the version before the columns came",
    )
