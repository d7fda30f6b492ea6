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
