"""Where the project's file is, without reading it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "lakeevolve.yaml"


def find(start: str | Path | None = None) -> Path | None:
    """The nearest ``lakeevolve.yaml``: in a folder (None for the working directory) or in one above it."""
    folder = Path(start or Path.cwd()).absolute()
    for each in (folder, *folder.parents):
        if (each / NAME).is_file():
            return each / NAME
    return None


def shown(path: str | Path) -> str:
    """A path as it is shown: from the working directory, where it lies beneath that; else as it is."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)
