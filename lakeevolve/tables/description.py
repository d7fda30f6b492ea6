"""A table described as data: what it is, without its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from lakeevolve.errors import ConfigError, SourceError
from lakeevolve.redaction import without_secrets
from lakeevolve.tables.base import Table

FORMAT_VERSION: Final = "1.0"
#: The formats of which a description holds enough to plan from.
_PLANNABLE: Final = ("iceberg", "delta")


@dataclass(frozen=True, slots=True)
class Description:
    """What a table is at one moment: identity, schema, versions, features and counts; no rows, no credentials."""

    record: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return dict(self.record)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("lakeevolve.report.notebook").shown(self))

    def save(self, path: str | Path) -> Path:
        """Write the description as JSON and return where."""
        target = Path(path)
        try:
            target.write_text(json.dumps(self.record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        except OSError as error:
            raise ConfigError(f"the description cannot be written: {error.strerror}", where=str(target)) from error
        return target


def describe(table: Table) -> Description:
    """Describe an open table. ``planning`` is what a plan can be made from without the table."""
    module = f"lakeevolve.tables.{table.format}.described" if table.format in _PLANNABLE else None
    planning = import_module(module).planning_of(table) if module else None
    return Description({"format_version": FORMAT_VERSION, **table.describe(), "planning": planning})


def is_description(place: str) -> bool:
    """Whether a text names a file that may be a saved description, and no table."""
    return place.endswith(".json") and Path(place).is_file()


def load_description(path: str | Path) -> Description:
    """Read a saved description.

    Raises ``SourceError`` where the file is none, or is of another format version.
    """
    source = Path(path)
    try:
        record = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"the file cannot be read: {error.strerror}", where=str(path)) from without_secrets(error)
    except ValueError:
        record = None
    if not isinstance(record, dict) or not {"format_version", "uri", "format", "id", "pin", "schema"} <= record.keys():
        raise SourceError(
            "the file is no description of a table",
            where=str(path),
            hint="name a table, or save one with: lakeevolve describe TABLE --save FILE",
        )
    if str(record["format_version"]).split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise SourceError(
            f"the description has format version {record['format_version']}, this lakeevolve reads {FORMAT_VERSION}",
            where=str(path),
            hint="describe the table again",
        )
    return Description(record)


def described_table(description: Description) -> Table:
    """The table that a description is of, as far as its metadata tells: fit for plans and checks, not for rows.

    Raises ``SourceError`` where the description holds too little.
    """
    record = description.record
    try:
        if record["format"] not in _PLANNABLE:
            raise ValueError(record["format"])
        module = import_module(f"lakeevolve.tables.{record['format']}.described")
        return cast("Table", module.Described(record))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(
            "the description holds too little to plan from, or was edited",
            where=str(record.get("uri")),
            hint="describe the table again with this version of lakeevolve",
        ) from error
