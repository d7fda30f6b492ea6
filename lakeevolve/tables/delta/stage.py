"""An evolution that is written and not committed, and how its new files are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.errors import LakeEvolveError, TableError, UnsupportedTable
from lakeevolve.tables.base import DataFile, Evolution, Predicate, StagedFile
from lakeevolve.tables.delta import features
from lakeevolve.tables.delta.evolve import Alteration, Wanted
from lakeevolve.tables.delta.log import Add, Metadata, Protocol, Snapshot
from lakeevolve.tables.delta.raw import Layout, read_file, relative
from lakeevolve.tables.delta.rewriting import delete, write_anew
from lakeevolve.tables.delta.scan import Scratch, identifier, read_table, scratch, sql
from lakeevolve.tables.delta.store import Address, guard
from lakeevolve.tables.delta.types import Struct
from lakeevolve.tables.delta.write import INDEXED_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pa_fs
    from deltalake import DeltaTable

_TABLE: Final = "evolved"


@dataclass(slots=True)
class DeltaStaged:
    """What :meth:`stage` prepared.

    ``position`` is the version that it builds on, ``before`` its schema, ``metadata`` the metadata after the commit.
    ``alteration`` says how metadata alone gets there; None stands for a rewrite, whose new files are ``adds``. With
    ``filling`` the metadata comes first, and in a second commit ``adds`` take the place of ``replaced``.
    """

    address: Address
    fs: pa_fs.FileSystem
    position: int
    before: Struct
    protocol: Protocol
    metadata: Metadata
    evolution: Evolution
    alteration: Alteration | None
    adds: Sequence[Add] = ()
    files: Sequence[StagedFile] = ()
    live: Sequence[Add] = ()
    #: Top-level columns that an UPDATE fills once they are there, with the SQL of what it fills them with.
    updates: Mapping[str, str] = field(default_factory=dict)
    filling: bool = False
    replaced: Sequence[Add] = ()
    whole: Scratch | None = None
    #: Whether a commit of the new files is on its way that may yet land: they are not deleted then.
    sent: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # To other processes goes what it takes to read.
        of = self.evolution
        alone = Evolution(of.base, of.target, of.changes, of.renames, of.fills, (), nothing)
        kept = {"evolution": alone, "whole": None, "fs": None}
        return _arrived, tuple(kept[f.name] if f.name in kept else getattr(self, f.name) for f in fields(self))

    def raw(self, file: StagedFile) -> Iterator[pa.RecordBatch]:
        """See :meth:`lakeevolve.tables.base.Staged.raw`."""
        add = next((a for a in self.adds if relative(a.path, self.address.uri) == file.path), None)
        if add is None:
            raise TableError("the file is not part of what was staged", where=file.path)
        yield from read_file(self.fs, file.path, self.layout(), add.partition)

    def read(
        self,
        file: DataFile | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """See :meth:`lakeevolve.tables.base.Staged.read`."""
        condition = None if predicate is None else sql(predicate, self.evolution.target, self.address.uri)
        if file is None:
            yield from read_table(self.table(), self.layout(), condition, columns, self.updates)
            return
        if self.alteration is None:
            raise TableError(
                "no file stays as it is when a Delta table is rewritten", where=file.path, hint="read the whole table"
            )
        adds = [add for add in self.live if relative(add.path, self.address.uri) == file.path]
        alone = scratch(self.address, self.fs, self.protocol, self.metadata, adds)
        try:
            yield from read_table(alone.open(), self.layout(), condition, columns, self.updates)
        finally:
            alone.close()

    def layout(self) -> Layout:
        owned = {f.name for f in self.evolution.target.fields}
        mapped = features.mapped(self.metadata)
        return Layout(
            self.evolution.target.record,
            self.metadata.struct,
            tuple(c for c in self.metadata.struct.columns if c.name not in owned),
            self.metadata.partition_physical,
            "physical" if mapped else "name",
            self.address.uri,
        )

    def table(self) -> DeltaTable:
        """The whole table as it would be after the commit."""
        if self.whole is None:
            gone = {add.path for add in self.replaced}
            stay = [] if self.alteration is None else [add for add in self.live if add.path not in gone]
            adds = [*stay, *self.adds]
            self.whole = scratch(self.address, self.fs, self.protocol, self.metadata, adds)
        return self.whole.open()

    def abandon(self) -> tuple[str, ...]:
        """See :meth:`lakeevolve.tables.base.Staged.abandon`."""
        paths = [file.path for file in self.files]
        return (*self.close(), *(paths if self.sent else delete(self.fs, paths)))

    def close(self) -> tuple[str, ...]:
        """Take away what was only there for reading; what could not be is returned."""
        left = self.whole.close() if self.whole is not None else ()
        self.whole = None
        return left


def _arrived(address: Address, _fs: None, position: int, *rest: Any) -> DeltaStaged:
    """What was staged, in another process: its store is opened there."""
    return DeltaStaged(address, address.files(address.open(position)), position, *rest)


def nothing(_file: DataFile) -> Iterator[pa.RecordBatch]:
    """No rows: what is staged is written already."""
    return iter(())


def rewrite(
    address: Address,
    fs: pa_fs.FileSystem,
    snapshot: Snapshot,
    evolution: Evolution,
    wanted: Wanted,
    sources: Mapping[str, Add],
    filling: tuple[Alteration, Protocol] | None = None,
) -> DeltaStaged:
    """Write files anew under the wanted schema, one at a time: all of them, or where columns are added first and filled
    then (``filling``), those of before.

    ``sources`` are the live files by path. On any error everything that was written is deleted again.

    Raises
    ------
    PlanBlocked
        A value has no place in the new schema.
    TableError
        A row breaks a rule of the table.
    """
    how, protocol = filling or (None, snapshot.protocol)
    metadata = replace(snapshot.metadata, struct=wanted.struct if how is None else how.result)
    columns = [c for c in metadata.struct.columns if c.name not in metadata.partition_columns]
    if not columns:
        raise UnsupportedTable(
            "no column is left that is not a partition column", where=address.uri, hint="keep at least one column"
        )
    indexed = features.indexed_columns(metadata, INDEXED_COLUMNS)
    begun: list[str] = []

    def writing(path: str) -> None:
        begun.append(path)
        evolution.writing(path)

    try:
        made = write_anew(address, fs, evolution, columns, indexed, sources, writing)
        before = snapshot.metadata.struct
        staged = DeltaStaged(
            address,
            fs,
            snapshot.version,
            before,
            protocol,
            metadata,
            evolution,
            how,
            tuple(made.adds),
            tuple(made.files),
        )
        if how is not None:
            staged.filling = True
            staged.live = tuple(sources.values())
            staged.replaced = tuple(sources[file.path] for file in evolution.rewrite)
        _check_conditions(staged, snapshot)
        return staged
    except BaseException as error:
        left = delete(fs, begun)
        if left and isinstance(error, LakeEvolveError):
            # The table does not list them, so that VACUUM takes them; until then somebody should know.
            orphans = f"no table lists these files, and VACUUM takes them: {', '.join(left)}"
            error.hint = orphans if error.hint is None else f"{error.hint}; {orphans}"
        raise


def _check_conditions(staged: DeltaStaged, snapshot: Snapshot) -> None:
    """delta-rs checks no constraint when files are handed to it, so the new rows are checked here."""
    rules = tuple(features.conditions(staged.metadata))
    if not rules or not staged.adds:
        return
    try:
        after = staged.table()
        live = [found.add for found in snapshot.files.values()]
        before = scratch(staged.address, staged.fs, snapshot.protocol, snapshot.metadata, live)
        try:
            old = before.open()
            for name, expression in rules:
                was, now = (evaluate(table, expression, name, staged.address.uri) for table in (old, after))
                if now[0] or now[1] > was[1]:
                    raise TableError(
                        f"{now[0] + now[1]} of the new rows break the table's {name}",
                        where=staged.address.uri,
                        hint="mend the rows or the rule; nothing was committed",
                    )
        finally:
            before.close()
    except BaseException:
        staged.close()
        raise


def evaluate(table: DeltaTable, expression: str, name: str, where: str, *, rows: int | None = None) -> tuple[int, int]:
    """Count the rows for which a rule of the table is false, and those for which it is null.

    ``rows`` limits how many are looked at. Raises ``UnsupportedTable`` where DataFusion cannot evaluate the
    expression, with the rule's name.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder

    counted = ", ".join(f"count(*) FILTER (WHERE ({expression}) {test})" for test in ("IS FALSE", "IS NULL"))
    source = identifier(_TABLE) if rows is None else f"(SELECT * FROM {identifier(_TABLE)} LIMIT {rows})"
    try:
        with guard(where, "a rule cannot be evaluated"):
            found = QueryBuilder().register(_TABLE, table).execute(f"SELECT {counted} FROM {source}")
            batch = pa.table(found.read_all())
    except TableError as error:
        raise UnsupportedTable(
            f"the table's {name} cannot be checked on rewritten rows: DataFusion does not understand its expression",
            where=where,
            hint="drop the rule, change the table, and add the rule again; or use Spark",
        ) from error
    return int(batch.column(0)[0].as_py()), int(batch.column(1)[0].as_py())
