"""A folder whose files are the versions of one schema, in the natural order of their names."""

from __future__ import annotations

from pathlib import Path

from lakeevolve.errors import SourceNotFound
from lakeevolve.sources.names import in_order, is_schema_file


def files_of(folder: Path) -> list[Path]:
    """The schema files of a folder, oldest version first. Raises ``SourceNotFound`` where there is none."""
    names = in_order(each.name for each in folder.iterdir() if each.is_file() and is_schema_file(each.name))
    if not names:
        raise SourceNotFound("the folder holds no schema", where=str(folder), hint="schemas are *.avsc files")
    return [folder / name for name in names]
