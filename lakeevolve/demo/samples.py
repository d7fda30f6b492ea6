"""The sample tables: where they lie, their schemas and their rows."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeevolve.errors import SourceNotFound

if TYPE_CHECKING:
    import pyarrow as pa

TABLES: Final = ("orders", "customers")

#: The versions that rows were written in, and those that the demo evolves the tables through.
WRITTEN: Final = (1, 2, 3)
EVOLVED: Final = (4, 5, 6)


def folder() -> Path:
    """The folder of the sample tables: inside an installed package, or at the top of a checkout.

    Raises ``SourceNotFound`` where there is neither.
    """
    packaged = Path(str(resources.files("lakeevolve"))) / "sample_tables"
    checkout = Path(__file__).resolve().parents[2] / "sample_tables"
    for found in (packaged, checkout):
        if found.is_dir():
            return found
    raise SourceNotFound("the sample tables are missing", where=str(packaged), hint="install lakeevolve again")


def schema_path(table: str, version: int | str) -> Path:
    """The schema file of one version: a number, or the rest of the name after the ``v``."""
    return folder() / table / f"v{version}.avsc"


def rows(table: str, version: int) -> pa.Table:
    """The rows that were written in one version, in the canonical layout of its schema."""
    import pyarrow.parquet as pq

    return pq.read_table(folder() / table / f"v{version}.parquet")
