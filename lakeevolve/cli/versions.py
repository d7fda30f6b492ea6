"""``--version``: ours and the libraries', read from their metadata without importing them."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from lakeevolve._version import __version__

LIBRARIES = ("pyiceberg", "deltalake", "pyarrow", "fastavro", "typer")
#: What extras bring; told where it is installed.
EXTRAS = ("duckdb", "polars", "polars-avro", "obstore", "confluent-kafka")


def versions() -> str:
    found = [f"lakeevolve {__version__}", f"python {platform.python_version()}"]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    for name in EXTRAS:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return "\n".join(found)
