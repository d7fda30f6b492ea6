"""Schemas of Arrow and Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import lakeevolve as le
from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.errors import SourceError, SourceNotFound
from lakeevolve.sources.arrow import schema_of_arrow

ROWS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("small", pa.int8()),
        pa.field("unsigned", pa.uint32()),
        pa.field("amount", pa.float32()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
        pa.field("big", pa.large_string()),
        pa.field("raw", pa.binary()),
        pa.field("hash", pa.binary(16)),
        pa.field("key", pa.uuid()),
        pa.field("day", pa.date32()),
        pa.field("clock", pa.time64("us")),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("ms")),
        pa.field("nanos", pa.timestamp("ns", "Europe/Berlin")),
        pa.field("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("attrs", pa.map_(pa.string(), pa.int32())),
        pa.field("address", pa.struct([pa.field("zip", pa.string(), nullable=False)]), nullable=False),
        pa.field("lines", pa.large_list(pa.struct([pa.field("sku", pa.string())]))),
    ]
)


def types(schema: le.Schema) -> dict[str, object]:
    record = schema.to_json()
    assert isinstance(record, dict)
    return {field["name"]: field["type"] for field in record["fields"]}


def test_each_arrow_type_has_its_counterpart() -> None:
    found = types(schema_of_arrow(ROWS, "Order"))
    assert found["id"] == "long"
    assert found["small"] == ["null", "int"]
    assert found["unsigned"] == ["null", "long"]
    assert found["amount"] == ["null", "float"]
    assert found["price"] == ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]
    assert found["kind"] == found["big"] == ["null", "string"]
    assert found["key"] == ["null", {"type": "string", "logicalType": "uuid"}]
    assert found["at"] == ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    assert found["local"] == ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]
    assert found["nanos"] == ["null", {"type": "long", "logicalType": "timestamp-nanos"}]
    assert found["tags"] == ["null", {"type": "array", "items": "string"}]
    assert found["attrs"] == ["null", {"type": "map", "values": ["null", "int"]}]


def test_what_goes_to_arrow_comes_back() -> None:
    schema = le.load(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": "long"},
                {"name": "b", "type": ["null", {"type": "array", "items": "double"}], "default": None},
                {"name": "c", "type": {"type": "record", "name": "R_c", "fields": [{"name": "d", "type": "string"}]}},
            ],
        }
    )
    assert schema_of_arrow(arrow_schema(schema), "R") == schema


def test_files_of_every_kind_are_read(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "name": ["x"]})
    feather.write_feather(table, tmp_path / "orders.feather", compression="uncompressed")
    pq.write_table(table, tmp_path / "orders.parquet")
    with pa.ipc.new_stream(str(tmp_path / "orders.arrows"), table.schema) as out:
        out.write_table(table)
    wanted = le.load(f"parquet:{tmp_path / 'orders.parquet'}")
    assert [field.name for field in wanted.fields] == ["id", "name"]
    for name in ("orders.feather", "orders.parquet", "orders.arrows"):
        assert le.load(f"arrow:{tmp_path / name}") == wanted
    assert le.load(f"parquet:{tmp_path}") == wanted
    pq.write_table(table.append_column("x", [[1]]), tmp_path / "other.parquet")
    with pytest.raises(SourceError, match="2 schemas"):
        le.load(f"parquet:{tmp_path}")


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not arrow")
    (tmp_path / "empty").mkdir()
    for source in ("arrow", "parquet"):
        with pytest.raises(SourceNotFound):
            le.load(f"{source}:{tmp_path / 'nowhere'}")
        with pytest.raises(SourceError, match="damaged"):
            le.load(f"{source}:{tmp_path / 'text'}")
    with pytest.raises(SourceNotFound, match="no Parquet"):
        le.load(f"parquet:{tmp_path / 'empty'}")


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (pa.field("a", pa.uint64()), "uint64"),
        (pa.field("a", pa.null()), "null"),
        (pa.field("a", pa.duration("us")), "duration"),
        (pa.field("a", pa.time64("ns")), "time64"),
        (pa.field("a", pa.map_(pa.int32(), pa.string())), "keys"),
        (pa.field("a b", pa.int32()), "a b"),
    ],
)
def test_a_type_without_counterpart_is_refused_with_its_path(field: pa.Field, said: str) -> None:
    with pytest.raises(SourceError) as caught:
        schema_of_arrow(pa.schema([pa.field("outer", pa.struct([field]))]))
    assert said in str(caught.value)
    if field.name == "a":
        assert "outer.a" in str(caught.value)
