"""Incompatibilities of a resolution, put in terms of the old and the new schema.

A resolution speaks of writer and reader, and which of the two is the new schema depends on the direction. A fault
says what stood at a place and what stands there now, whichever of them reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from lakeevolve.avro.nodes import Incompatibility
from lakeevolve.avro.parse import walk
from lakeevolve.avro.resolution import Resolution
from lakeevolve.model import path as paths
from lakeevolve.model.branches import branch_path, pair_branches
from lakeevolve.model.match import match_fields
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NamedRef,
    NamedType,
    Record,
    Union,
    is_null,
    without_null,
)
from lakeevolve.model.value import value

Direction = Literal["backward", "forward"]


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fault:
    """One reason why a reader cannot read what a writer wrote.

    Parameters
    ----------
    kind:
        As in :class:`~lakeevolve.avro.nodes.Incompatibility`.
    direction:
        ``backward``: the new schema cannot read old data. ``forward``: an old schema cannot read new data.
    path:
        In the new schema where the place exists there, else in the old one.
    old_path:
        The same place in the old schema, None where it is not there.
    old, new:
        The types that stand there, None where there is none.
    old_field, new_field:
        The fields that stand there, where a field does.
    branch:
        The branch of the writer's union that cannot be read, where the writer's type is a union.
    message:
        What the resolution said.
    value_level:
        Whether some values only are concerned.
    """

    kind: str
    direction: Direction
    path: str
    old_path: str | None
    old: AvroType | None
    new: AvroType | None
    old_field: Field | None
    new_field: Field | None
    branch: AvroType | None
    message: str
    value_level: bool

    @property
    def writer(self) -> AvroType | None:
        return self.old if self.direction == "backward" else self.new

    @property
    def reader(self) -> AvroType | None:
        return self.new if self.direction == "backward" else self.old


def faults(resolution: Resolution, direction: Direction, renames: dict[str, str]) -> Iterator[Fault]:
    """The faults of a resolution. *renames* are those that it was made with, reader path to writer path."""
    if resolution.compatible:
        return
    trace = _Trace(resolution, renames)
    for found in _leaves(resolution.incompatibilities):
        here = trace.follow(found.path)
        writer, reader = here.writer, here.reader
        backward = direction == "backward"
        yield Fault(
            kind=found.kind,
            direction=direction,
            path=found.path if backward or here.writer_path is None else here.writer_path,
            old_path=here.writer_path if backward else found.path,
            old=writer if backward else reader,
            new=reader if backward else writer,
            old_field=here.writer_field if backward else here.reader_field,
            new_field=here.reader_field if backward else here.writer_field,
            branch=_branch(writer, found),
            message=found.message,
            value_level=found.value_level,
        )


def _leaves(found: Iterable[Incompatibility]) -> Iterator[Incompatibility]:
    """The reasons themselves: a missing branch that is there and does not fit says less than why it does not fit."""
    for each in found:
        unlike = [cause for cause in each.causes if cause.kind == "NAME_MISMATCH" and cause.path != each.path]
        if each.causes and len(unlike) < len(each.causes):
            yield from _leaves(each.causes)
        else:
            yield each


def _branch(writer: AvroType | None, found: Incompatibility) -> AvroType | None:
    """The writer's branch: its index ends the location, as Avro Java 1.12 writes it."""
    if not isinstance(writer, Union) or found.kind not in ("TYPE_MISMATCH", "MISSING_UNION_BRANCH"):
        return None
    index = found.location.rpartition("/")[2]
    return writer.branches[int(index)] if index.isdecimal() and int(index) < len(writer.branches) else None


@dataclass(slots=True)
class _Place:
    """What stands at one place of both schemas; the writer may have nothing there."""

    writer: AvroType | None
    reader: AvroType | None
    writer_path: str | None
    writer_field: Field | None = None
    reader_field: Field | None = None


class _Trace:
    """Follows a path of the reader through both schemas."""

    def __init__(self, resolution: Resolution, renames: dict[str, str]) -> None:
        self.writer = resolution.writer.root
        self.reader = resolution.reader.root
        self.renames = renames
        self.known: dict[tuple[int, int, str], dict[str, Field]] = {}
        self.fields: dict[int, dict[str, Field]] = {}
        self.names = tuple(_definitions(root) for root in (self.writer, self.reader))

    def follow(self, path: str) -> _Place:
        here = _Place(self.writer, self.reader, paths.ROOT)
        reached: tuple[str, ...] = ()
        for segment in paths.parts(path):
            here = self.step(here, segment, paths.join(reached))
            reached = (*reached, segment)
        return here

    def step(self, here: _Place, segment: str, reader_path: str) -> _Place:
        reader = _defined(here.reader, self.names[1])
        writer, at = self.like(here, reader)
        match reader:
            case Record():
                return self.field(writer, reader, segment, reader_path, at)
            case Array() if segment == paths.ITEMS:
                below = writer.items if isinstance(writer, Array) else None
                return _Place(below, reader.items, None if at is None else paths.items(at))
            case Map() if segment == paths.VALUES:
                below = writer.values if isinstance(writer, Map) else None
                return _Place(below, reader.values, None if at is None else paths.values(at))
            case Union():
                return self.branch(writer, reader, segment, at)
        return _Place(None, None, None)

    def like(self, here: _Place, reader: AvroType | None) -> tuple[AvroType | None, str | None]:
        """The writer's type and path, or of a real union the branch that the reader's type reads."""
        writer = _defined(here.writer, self.names[0])
        if isinstance(writer, Union) and reader is not None and not isinstance(reader, Union):
            index = pair_branches(writer.branches, (reader,), {}).get(0)
            if index is None:
                return None, None
            there = None if here.writer_path is None else branch_path(here.writer_path, writer.branches, index)
            return _defined(writer.branches[index], self.names[0]), there
        return writer, here.writer_path

    def field(self, writer: AvroType | None, reader: Record, name: str, path: str, at: str | None) -> _Place:
        if id(reader) not in self.fields:
            self.fields[id(reader)] = {field.name: field for field in reader.fields}
        found = self.fields[id(reader)].get(name)
        if found is None:
            return _Place(None, None, None)
        if isinstance(writer, Record):
            source = self.matched(writer, reader, path).get(name)
            if source is not None:
                there = None if at is None else paths.child(at, source.name)
                return _Place(source.type, found.type, there, source, found)
        # The reader alone has it: it stands beneath the writer's place, under the reader's name.
        return _Place(None, found.type, None if at is None else paths.child(at, name), None, found)

    def matched(self, writer: Record, reader: Record, path: str) -> dict[str, Field]:
        """The writer's field for each of the reader's that has one, by the reader's name."""
        key = (id(writer), id(reader), path)
        if key not in self.known:
            pairs, _ = match_fields(writer, reader, path=path, renames=self.renames)
            self.known[key] = {reader.fields[j].name: writer.fields[i] for j, i in pairs if i is not None}
        return self.known[key]

    def branch(self, writer: AvroType | None, reader: Union, segment: str, at: str | None) -> _Place:
        indexes = [index for index, branch in enumerate(reader.branches) if not is_null(branch)]
        index = next((i for i in indexes if branch_path("", reader.branches, i) == segment), None)
        if index is None:
            return _Place(None, None, None)
        below = reader.branches[index]
        branches = writer.branches if isinstance(writer, Union) else () if writer is None else (writer,)
        source = pair_branches(branches, reader.branches, {}).get(index)
        if source is None:
            return _Place(None, below, None)
        there = at if at is None or not isinstance(writer, Union) else branch_path(at, branches, source)
        return _Place(branches[source], below, there)


def _definitions(root: AvroType) -> dict[str, NamedType]:
    return {t.name: t for t in walk(root) if isinstance(t, (Record, Enum, Fixed))}


def _defined(type_: AvroType | None, names: dict[str, NamedType]) -> AvroType | None:
    inner = None if type_ is None else without_null(type_)
    return names.get(inner.name, inner) if isinstance(inner, NamedRef) else inner
