"""Whether every row can be read with the schema that a consumer declared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeevolve.avro.arrow import arrow_schema, execute
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import ValueMismatch
from lakeevolve.model.find import find_field
from lakeevolve.model.schema import Schema
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.rules.contract import Contract, load_contract
from lakeevolve.tables.base import Version


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer with how rows of the table reach its reader schema.

    ``resolution`` is None where its contract names fields and no reader schema. ``checks_values`` says that the
    schemas resolve for some values only, so that every row has to be run; ``missing`` is a field that the contract
    names and the table has not.
    """

    name: str
    resolution: Resolution | None
    names: tuple[str, ...] = ()
    direction: str = "backward"
    missing: str | None = None

    @property
    def checks_values(self) -> bool:
        found = self.resolution
        return found is not None and bool(found.incompatibilities) and not self.refused

    @property
    def refused(self) -> tuple[Mismatch, ...]:
        """Why the consumer can read no row at all."""
        if self.missing is not None:
            reason = f"{self.name} cannot read the table: the contract names a field that it has not"
            return (Mismatch(None, None, self.missing, "", "", reason, self.name, "type"),)
        if self.resolution is None:
            return ()
        return tuple(
            Mismatch(None, None, i.path, "", "", f"{self.name} cannot read the table: {i.message}", self.name, "type")
            for i in self.resolution.incompatibilities
            if not i.value_level
        )

    def run(self, batch: pa.RecordBatch, file: str, offset: int) -> Mismatch | None:
        """Read rows as the consumer does; the first that it cannot read."""
        assert self.resolution is not None
        try:
            execute(self.resolution, batch.select(list(self.names)), partial=True, row_offset=offset)
        except ValueMismatch as error:
            reason = f"{self.name} cannot read the row: {error.what}"
            return Mismatch(file, error.row, error.path, "", "", reason, self.name, "value")
        return None

    def verdict(self, broken: Collection[str]) -> dict[str, Any]:
        """The consumer as evidence holds it."""
        verdict = (
            "not-replayed"
            if self.resolution is None and self.missing is None
            else "cannot-read"
            if self.name in broken
            else "reads"
        )
        return {"name": self.name, "direction": self.direction, "verdict": verdict}


def prepare(contracts: Iterable[Any], schema: Schema) -> tuple[Consumer, ...]:
    """The consumers of these contracts, each given as such, as its file, or as what stands in one."""
    found = []
    names = tuple(arrow_schema(schema, strict=False).names)
    for given in contracts:
        contract = load_contract(given) if isinstance(given, str | Path | Mapping) else given
        if isinstance(contract, Contract) and contract.reader is None:
            gone = next((each.path for each in contract.fields if find_field(schema.root, each.path) is None), None)
            if gone is None:
                read = resolve(schema, contract.reader_for(schema))
                found.append(Consumer(contract.name, read, names))
            else:
                found.append(Consumer(contract.name, None, names, missing=gone))
            continue
        reader = getattr(contract, "reader", None)
        resolution = resolve(schema, reader) if isinstance(reader, Schema) else None
        name = getattr(contract, "name", None) or getattr(contract, "contract", None) or str(contract)
        found.append(Consumer(str(name), resolution, names))
    return tuple(found)


def of_versions(versions: Iterable[Version], schema: Schema) -> tuple[Consumer, ...]:
    """The readers of older versions as consumers of rows of *schema*: the forward direction."""
    names = tuple(arrow_schema(schema, strict=False).names)
    return tuple(
        Consumer(f"version {version.number}", resolve(schema, version.schema), names, "forward") for version in versions
    )


def refused(found: Sequence[Consumer]) -> list[Mismatch]:
    """Why consumers can read no row at all."""
    return [mismatch for consumer in found for mismatch in consumer.refused]
