"""A table described as data: what it is, without its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lakeevolve.errors import ConfigError
from lakeevolve.tables.base import Table


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
    """Describe an open table."""
    return Description({"format_version": "1.0", **table.describe()})
