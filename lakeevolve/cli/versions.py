"""``--version``: ours and the libraries', read from their metadata without importing them."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from lakeevolve._version import __version__

LIBRARIES = ("pyiceberg", "deltalake", "pyarrow", "fastavro", "typer")


def versions() -> str:
    found = [f"lakeevolve {__version__}", f"python {platform.python_version()}"]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return "\n".join(found)
