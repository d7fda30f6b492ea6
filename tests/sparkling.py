"""Spark as a reader of tables, of either format: one session for all tests, started where its jars are."""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

#: The variable that names the folder of jars; ``.ci/spark/get`` fills one.
JARS = "LAKEEVOLVE_SPARK_JARS"


@dataclass
class Spark:
    """A running session. What it reads comes back through Parquet files that Spark writes, so that no row passes
    through Python types of Spark's own."""

    session: Any
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def iceberg(self, metadata: str) -> Any:
        """An Iceberg table by its metadata file, as a data frame."""
        return self.session.read.format("iceberg").load(metadata)

    def delta(self, folder: str) -> Any:
        """A Delta table by its folder, as a data frame."""
        return self.session.read.format("delta").load(folder)

    def catalog(self, folder: Path) -> str:
        """A catalog of Spark's, by its name in SQL, on an embedded catalog of pyiceberg's that *folder* gets."""
        from pyiceberg.catalog.sql import SqlCatalog

        # Either files its tables under its own name, so that of the new one is the name that Spark has.
        name = f"lake{next(self.numbers)}"
        folder.mkdir(parents=True)
        place = {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": folder.as_uri()}
        with closing(SqlCatalog(name, **place)) as made:
            made.create_namespace("shop")
        with closing(sqlite3.connect(folder / "catalog.db")) as opened:
            # Spark keeps a connection on which it has read, and that must not stand in the way of others' commits.
            opened.execute("PRAGMA journal_mode = WAL")
        options = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "jdbc",
            ".uri": f"jdbc:{place['uri'].replace('///', '')}",
            ".warehouse": place["warehouse"],
            ".cache-enabled": "false",
        }
        for option, value in options.items():
            self.session.conf.set(f"spark.sql.catalog.{name}{option}", value)
        return name

    def table(self, frame: Any) -> pa.Table:
        """What a data frame holds."""
        where = self.folder / f"read-{next(self.numbers)}"
        frame.coalesce(1).write.parquet(str(where))
        return pa.concat_tables(pq.read_table(part) for part in sorted(where.glob("*.parquet")))

    def rows(self, frame: Any) -> list[dict[str, Any]]:
        """The same as Python has it, in the order of ``id``."""
        return sorted(self.table(frame).to_pylist(), key=lambda row: row["id"])


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Spark in this process's JVM, with the connectors of Iceberg and Delta."""
    jars = sorted(Path(os.environ.get(JARS) or os.devnull).glob("*.jar"))
    if not jars:
        pytest.skip(f"{JARS} names no folder with the jars of Spark's connectors (.ci/spark/get)")
    sql = pytest.importorskip("pyspark.sql")
    folder = tmp_path_factory.mktemp("spark")
    # Without it the workers are whatever python3 the PATH finds.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    # Two cores, and four tries of a task: a plain local[2] tries once.
    builder = sql.SparkSession.builder.master("local[2,4]").appName("lakeevolve")
    for option, value in options.items():
        builder = builder.config(option, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield Spark(session, folder)
    finally:
        session.stop()
