"""The rows of a file as they are to be: what every engine runs for each file that is written anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeevolve.errors import PlanBlocked, ValueMismatch
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.fold import fold
from lakeevolve.tables.base import DataFile, Table, Version

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Conversion:
    """Folds a file's rows to the newest of *versions*. Plain data, as far as the table is: it may go to another
    process."""

    table: Table
    versions: tuple[Version, ...]
    hint: Schema | None

    def __call__(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        run, row = fold(self.versions, file.version, self.versions[-1].number), 0
        for batch in self.table.raw(file, hint=self.hint):
            try:
                yield run(batch, row_offset=row)
            except ValueMismatch as error:
                raise PlanBlocked(
                    f"the data does not allow the plan: {error.what}",
                    where=f"{file.path}, row {error.row}, {error.path or 'the root'}",
                    hint="mend the row, or keep the type; the table is as it was",
                ) from error
            row += batch.num_rows
