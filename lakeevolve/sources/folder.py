"""A folder whose files are the versions of one schema, in the natural order of their names."""

from __future__ import annotations

from pathlib import Path

from lakeevolve.errors import SourceNotFound
from lakeevolve.sources.names import in_order, is_schema_file
from lakeevolve.sources.references import versions_among


def files_of(folder: Path) -> list[Path]:
    """The versions in a folder, oldest first, without the files of types that others of them use.

    Raises ``SourceNotFound`` where there is none.
    """
    names = in_order(each.name for each in folder.iterdir() if each.is_file() and is_schema_file(each.name))
    if not names:
        raise SourceNotFound("the folder holds no schema", where=str(folder), hint="schemas are *.avsc files")
    return [folder / name for name in versions_among({name: text_of(folder / name) for name in names})]


def text_of(file: Path) -> str | None:
    """A file's text; None where there is none that can be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
