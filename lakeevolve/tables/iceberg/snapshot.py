"""The one snapshot that puts rewritten files in the place of their sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as TheirFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import UpdatesAndRequirements
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.typedef import EMPTY_DICT

#: Marks, in a snapshot's summary, that the snapshot is the data of an evolution.
REWRITE: Final = "lakeevolve.rewrite"


@dataclass(frozen=True, slots=True)
class Frozen:
    """What a snapshot's producer asks of a transaction. A real one copies the table's metadata at every question."""

    table_metadata: TableMetadata
    _table: IcebergTable


class Replace(_SnapshotProducer["Replace"]):
    """An overwrite snapshot that takes out exactly the given files and adds others, each under its own spec.

    pyiceberg's own overwrite writes every added file under the table's default spec, and looks for the files to take
    out by partition values.
    """

    def __init__(self, state: Frozen, io: FileIO, taken: Iterable[str], added: Iterable[TheirFile]) -> None:
        super().__init__(Operation.OVERWRITE, cast(Transaction, state), io)
        self._taken = frozenset(taken)
        self._new = list(added)
        self._kept: list[ManifestFile] = []
        self._dead: list[ManifestEntry] = []

    def stage(self) -> UpdatesAndRequirements:
        """Write the manifests and the manifest list; nothing refers to them yet."""
        return self._commit()

    def written(self) -> list[str]:
        """What has been written for this snapshot, apart from the data files."""
        return [*self._written_manifests, *self._written_manifest_lists]

    def sort(self) -> frozenset[str]:
        """Read the parent's manifests: which stay, and which entries of the others are taken out.

        Returns the files to take out that the table does not hold (any more).
        """
        parent = self._transaction.table_metadata.snapshot_by_id(self._parent_snapshot_id or 0)
        for manifest in parent.manifests(self._io) if parent is not None else []:
            if manifest.content != ManifestContent.DATA:
                self._kept.append(manifest)
                continue
            entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            dead = [entry for entry in entries if entry.data_file.file_path in self._taken]
            if not dead:
                self._kept.append(manifest)
                continue
            self._dead += [self._as(ManifestEntryStatus.DELETED, entry) for entry in dead]
            live = [entry for entry in entries if entry.data_file.file_path not in self._taken]
            if live:
                with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
                    for entry in live:
                        writer.add_entry(self._as(ManifestEntryStatus.EXISTING, entry))
                self._kept.append(writer.to_manifest_file())
        return self._taken - {str(entry.data_file.file_path) for entry in self._dead}

    def _as(self, status: ManifestEntryStatus, entry: ManifestEntry) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self._snapshot_id if status == ManifestEntryStatus.DELETED else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _manifests(self) -> list[ManifestFile]:
        made = []
        added: dict[int, list[TheirFile]] = defaultdict(list)
        for file in self._new:
            added[file.spec_id or 0].append(file)
        for spec_id, files in sorted(added.items()):
            with self.new_manifest_writer(self.spec(spec_id)) as writer:
                for file in files:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self._snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
            made.append(writer.to_manifest_file())
        dead: dict[int, list[ManifestEntry]] = defaultdict(list)
        for entry in self._dead:
            dead[entry.data_file.spec_id or 0].append(entry)
        for spec_id, entries in sorted(dead.items()):
            with self.new_manifest_writer(self.spec(spec_id)) as writer:
                for entry in entries:
                    writer.add_entry(entry)
            made.append(writer.to_manifest_file())
        return made + self._kept

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        metadata = self._transaction.table_metadata
        schema, specs = metadata.schema(), metadata.specs()
        collector = SnapshotSummaryCollector()
        for file in self._new:
            collector.add_file(file, schema, specs[file.spec_id or 0])
        for entry in self._dead:
            collector.remove_file(entry.data_file, schema, specs[entry.data_file.spec_id or 0])
        previous = metadata.snapshot_by_id(self._parent_snapshot_id or 0)
        return update_snapshot_summaries(
            summary=Summary(operation=self._operation, **collector.build(), **snapshot_properties, **{REWRITE: "true"}),
            previous_summary=previous.summary if previous is not None else None,
        )

    def _deleted_entries(self) -> list[ManifestEntry]:
        return self._dead

    def _existing_manifests(self) -> list[ManifestFile]:
        return self._kept
