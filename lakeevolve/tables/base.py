"""What every table format offers, as a protocol and the values that pass through it.

``iceberg`` and ``delta`` share this protocol and deliberately no base class: each has to stay comparable with its own
specification.

Rows travel in the *canonical Arrow layout* of an Avro schema (:func:`lakeevolve.avro.arrow.arrow_schema`), followed
by the table's foreign columns in the table's own Arrow types. Nullability is not part of the comparison: a column
that the owner chose to leave NULL for old rows holds nulls although its Avro type is not nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lakeevolve.engines.protocol import Engine
from lakeevolve.model.change import Change
from lakeevolve.model.schema import Schema
from lakeevolve.rules.findings import Finding

if TYPE_CHECKING:
    import pyarrow as pa

Route = Literal["metadata", "backfill", "rewrite", "external", "refuse"]
#: What rows older than a version read in a column: a field's default or null; or a wider number as a narrower one.
Fill = Literal["default", "null", "narrow"]
Permit = Literal["rewrite", "backfill", "drop", "protocol-upgrade"]

#: What has to be true of the live rows before a step may run, checked by lakeevolve against the raw files.
Precondition = Literal["no-nulls", "symbol-unused", "branch-unused", "resolves", "symbols-known", "values-valid"]


@dataclass(frozen=True, slots=True)
class Capability:
    """How one change reaches one table.

    ``via`` names the mechanism (``add_column``, ``rewrite files``), ``reason`` says in a sentence why this route (for
    ``refuse``: why not, and the ways out), ``readers`` what readers will notice. ``permit`` is what the change needs;
    the routes ``rewrite`` and ``backfill`` need the permit of their own name besides. ``instead`` holds other ways, by
    the route that an owner insists on to have them.
    """

    route: Route
    via: str
    reason: str
    permit: Permit | None = None
    irreversible: bool = False
    readers: tuple[str, ...] = ()
    precondition: Precondition | None = None
    instead: Mapping[str, Capability] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class State:
    """What the table is at this moment.

    ``id`` is the table's own identity (Iceberg table-uuid, Delta metaData id). ``pin`` holds, as JSON, everything
    whose change makes a plan stale: schema id or metaData digest, protocol, specs. ``position`` is the data's
    version (Iceberg snapshot id, Delta version), which appends move and plans survive; None for no snapshot.
    """

    id: str
    pin: Mapping[str, Any]
    position: int | None


def pinned(state: State, *, data: bool = False) -> dict[str, Any]:
    """What makes a plan stale once it changes: the schema's pin, and with *data* the data's version, too."""
    return {**state.pin, "data": state.position} if data else dict(state.pin)


@dataclass(frozen=True, slots=True)
class Version:
    """One schema that the table has had.

    Versions count from 1 without gaps. ``renames`` (new path -> old path) and ``fresh`` (paths that hold new columns
    although the previous version has a field of that name) say how the fields follow from the previous version where
    the names alone do not. ``fills`` says per path what rows older than this version read in a column that it added.
    A ``derived`` version was made by another tool and is read off the table's own metadata; ``recorded`` says whether
    the marker holds it. One that ``restores`` an earlier version is that one again: the table went back. ``commit`` is
    the snapshot id or Delta version from which it is in force (None: since the table began), ``schema_id`` Iceberg's.
    """

    number: int
    schema: Schema
    plan: str | None = None
    fills: Mapping[str, Fill] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    routes: Mapping[str, Route] = field(default_factory=dict)
    derived: bool = False
    commit: int | None = None
    schema_id: int | None = None
    at: datetime | None = None
    recorded: bool = False
    restores: int | None = None

    @property
    def digest(self) -> str:
        return self.schema.digest


@dataclass(frozen=True, slots=True)
class Write:
    """One write that others made: when, which operation, and who by the table's own word (an engine's name)."""

    at: datetime | None
    operation: str
    by: str

    def to_json(self) -> dict[str, str | None]:
        at = None if self.at is None else self.at.isoformat(timespec="seconds")
        return {"at": at, "operation": self.operation, "by": self.by}


@dataclass(frozen=True, slots=True)
class DataFile:
    """One live data file.

    ``rows`` counts the rows in the file before deletes. ``version`` is the number of the table version it was written
    for, ``inferred`` whether that had to be read off its footer. ``added`` is the snapshot id or Delta version that
    added it. ``misread`` holds top-level columns of which some readers give another value than the metadata says, each
    with that value; ``defaulted`` the leaves, by path, that the file lacks and that read a default in the metadata, as
    the table's own library holds it; ``appended`` whether the table says that its rows came with it, and from no older
    file. ``handle`` is the format module's own.
    """

    path: str
    rows: int
    bytes: int
    version: int
    inferred: bool = False
    added: int | None = None
    handle: Any = field(default=None, compare=False, repr=False)
    misread: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    defaulted: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    appended: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """What lies in the store where the table's metadata lists a data file.

    ``bytes`` is None where nothing does, ``rows`` what the file's own footer counts, None where it cannot be read.
    """

    bytes: int | None
    rows: int | None


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that is written and not yet part of the table; ``sources`` are the files it was made from."""

    path: str
    rows: int
    bytes: int
    sources: tuple[str, ...]
    handle: Any = field(default=None, compare=False, repr=False)


def _unheard(_told: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """What is to be done to a table: the argument of ``stage``.

    ``base`` and ``target`` are the Avro schemas before and after. ``renames`` maps new paths to old ones, ``fills``
    says per added path what old rows read. ``changes`` carries each change with its route. ``rewrite`` lists the live
    files that must be written anew; ``convert`` yields a file's rows as they must read afterwards, in the canonical
    layout of ``target`` followed by the foreign columns.
    """

    base: Schema
    target: Schema
    changes: Sequence[tuple[Change, Route]]
    renames: Mapping[str, str]
    fills: Mapping[str, Fill]
    rewrite: Sequence[DataFile]
    convert: Callable[[DataFile], Iterator[pa.RecordBatch]]
    progress: Callable[[DataFile], None] = _unheard
    #: Told of each file before it is written.
    writing: Callable[[str], None] = _unheard
    #: Who writes the files (:class:`lakeevolve.engines.Engine`); None: the table's own threads.
    engine: Engine | None = None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A filter on one leaf column of the current schema. ``value`` is a Python value of the column's type."""

    path: str
    op: Literal["=", "<", "is null", "in"]
    value: Any = None


@dataclass(frozen=True, slots=True)
class MarkerEntry:
    """What the table carries about one version: the JSON of ``lakeevolve.v.<n>``.

    ``origin`` is the record's ``from``: the snapshot (``snapshot``) or Delta version (``version``) that was current
    when the version came into force, and Iceberg's ``schema_id`` of the version itself. For the newest entry handed
    to ``commit`` it is empty and the table fills it in.
    """

    number: int
    schema: Any
    digest: str
    plan: str | None
    origin: Mapping[str, int | None]
    fills: Mapping[str, Fill]
    renames: Mapping[str, str]
    routes: Mapping[str, Route]
    fresh: frozenset[str] = frozenset()


class Staged(Protocol):
    """An evolution that is prepared down to the last byte and not committed."""

    @property
    def files(self) -> Sequence[StagedFile]: ...

    def raw(self, file: StagedFile) -> Iterator[pa.RecordBatch]:
        """The rows of a staged file as pyarrow alone reads them, in the canonical layout of the target."""
        ...

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """What the table's own reader would give after the commit: the whole table, or one file that stays; of all
        columns, or of these top-level ones, of which the predicate's is one."""
        ...

    def abandon(self) -> tuple[str, ...]:
        """Delete what was written; return the paths that could not be deleted."""
        ...


class Table(Protocol):
    """A live table. Reading methods never change it."""

    @property
    def uri(self) -> str: ...

    @property
    def format(self) -> Literal["iceberg", "delta", "parquet"]: ...

    #: Whether ``read`` of one file gives its rows in file order.
    @property
    def ordered(self) -> bool: ...

    @property
    def schema(self) -> Schema:
        """The Avro schema of the newest version; derived where there is no marker."""
        ...

    @property
    def state(self) -> State: ...

    @property
    def foreign(self) -> tuple[str, ...]:
        """Top-level columns that the newest version's schema does not own."""
        ...

    def refresh(self) -> None:
        """Read the table's metadata anew."""
        ...

    def leave_out(self, patterns: Sequence[str]) -> None:
        """From now on, take top-level columns of these names (``*`` and ``?``) for foreign, unless a recorded version
        owns them."""
        ...

    def derived(self, hint: Schema | None = None, renames: Mapping[str, str] | None = None) -> Schema:
        """The schema read off the table alone.

        With a *hint* (the target), names of types come from it by path, and a column whose table type is exactly what
        the hint's type maps to takes the hint's type, default, doc and aliases: an enum is not a change from string.
        An alias that names another column which is there is not taken: that rename is yet to happen.
        Nullability: a required column is never widened; a column that is optional while the hint's type is not
        nullable keeps the hint's type (sinks write everything optional). Columns that the hint lacks and whose name
        begins with ``_``, or is one that :meth:`leave_out` was told, are foreign and left out.
        """
        ...

    def history(self, hint: Schema | None = None) -> tuple[Version, ...]:
        """Every version, oldest first, derived ones included; a table never seen before has one. For such a table
        *hint* is passed on to :meth:`derived`."""
        ...

    def files(self, position: int | None = None, hint: Schema | None = None) -> tuple[DataFile, ...]:
        """The live data files, now or at an earlier position."""
        ...

    def landed(self, version: Version) -> tuple[int | None, int] | None:
        """The positions right before and right after the commit that wrote data for a version: the two states that a
        rewrite leads between. None where that commit wrote none, or is no longer known."""
        ...

    def live(self, file: DataFile) -> int | None:
        """How many rows of a file the metadata says that readers see; None where deletes leave that open."""
        ...

    def stored(self, file: DataFile) -> Stored:
        """What the store has of a file, without reading its rows."""
        ...

    def raw(self, file: DataFile, hint: Schema | None = None) -> Iterator[pa.RecordBatch]:
        """The file's live rows as pyarrow alone reads them, in file order: the canonical layout of the file's
        version, then the foreign columns. A column that the version has and the footer lacks is null."""
        ...

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """What the table's own reader gives, whole or for one file, in the canonical layout of the newest version,
        then the foreign columns; all of them, or these top-level ones, of which the predicate's is one."""
        ...

    def capability(
        self,
        change: Change,
        base: Schema,
        target: Schema,
        fills: Mapping[str, Fill],
        renames: Mapping[str, str] | None = None,
    ) -> Capability:
        """The route of one change for this table, as it is now.

        *renames* (new path -> old path) are all of the evolution's, those that its aliases declare included: rows are
        looked at under the names that they have.
        """
        ...

    def combine(self, changes: Sequence[tuple[Change, Capability]]) -> Sequence[tuple[Change, Capability]]:
        """The routes of changes that land together: where one forces a rewrite, others may become part of it."""
        ...

    def must_rewrite(
        self,
        evolution_routes: Sequence[tuple[Change, Route]],
        files: Iterable[DataFile],
        fills: Mapping[str, Fill] | None = None,
    ) -> tuple[DataFile, ...]:
        """Of the live files, those that must be written anew for these changes."""
        ...

    def stage(self, evolution: Evolution) -> Staged:
        """Prepare everything; the table is untouched."""
        ...

    def commit(self, staged: Staged, entries: Sequence[MarkerEntry]) -> State:
        """Commit what was staged together with the marker. Raises ``CommitConflict`` if the table moved."""
        ...

    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the table as it stands, whatever is planned: what other tools left behind."""
        ...

    def around(self, version: Version) -> tuple[int | None, int | None]:
        """The positions right before and right after the commit that brought a version into force."""
        ...

    def restore(self, position: int | None, entries: Sequence[MarkerEntry]) -> State:
        """Put rows and schema back to what they were at an earlier position, as one new commit that carries the
        marker. The newest entry's ``origin`` says under ``restores`` which version was in force there. Raises
        ``CommitConflict`` if the table moved, ``TableError`` where what that position needs is gone."""
        ...

    @property
    def retention(self) -> timedelta:
        """How long, at the least, what an earlier position needs is kept after it was replaced."""
        ...

    def discard(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Delete files that an evolution wrote and that never became part of the table; return those that are still
        there."""
        ...

    def writes(self, limit: int = 5) -> tuple[Write, ...]:
        """The last writes that others made, the newest first."""
        ...

    def resume(self, plan_digest: str | None) -> None:
        """Go on with a plan of which commits have landed: from now on, files that came after them are of the version
        that the plan makes; until None is given."""
        ...

    def progress_of(self, plan_digest: str) -> Literal["none", "partly", "done"]:
        """How far the table itself says that this plan has got."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """The table as JSON: uri, format, id, pin, schema, versions, columns, partitioning, features, counts."""
        ...
