"""A value that does not fit is named by its file, its row and its path, and never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.errors import PlanBlocked, TableError
from lakeevolve.model.schema import Schema
from lakeevolve.tables import delta

from .conftest import field, record, stage

UUID = {"type": "string", "logicalType": "uuid"}
TIME = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
GOOD, BAD = "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "hunter22hunter"

#: name -> (type before, type after, values that fit, a value that does not)
CASES: dict[str, tuple[Any, Any, list[Any], Any]] = {
    "text to UUID": ("string", UUID, [GOOD, "0" + GOOD[1:]], BAD),
    "text in capitals to UUID": ("string", UUID, [GOOD, "0" + GOOD[1:]], GOOD.upper()),
    "int to a time of day": ("int", TIME, [0, 86_399_999], 86_400_000),
    "long to a time of day": ("long", MICROS, [0, 86_399_999_999], -1),
    "int to a time of microseconds": ("int", MICROS, [0, 2**31 - 1], -1),
    "bytes to text": ("bytes", "string", [b"a", "é".encode()], b"\xff\xfe"),
    "bytes to decimal": ("bytes", PRICE, [b"\x7f", b"\xff"], b"\x7f" * 5),
    "null to a value": (["null", "int"], "int", [1, 2], None),
}
PLACES = ["on top", "in a list", "in a map", "in a branch"]


def at(place: str, type_: Any) -> Schema:
    inner = {"type": "record", "name": "Inner", "fields": [field("x", type_)]}
    wrapped = {
        "on top": type_,
        "in a list": {"type": "array", "items": type_},
        "in a map": {"type": "map", "values": type_},
        "in a branch": [inner, "boolean"],
    }[place]
    return record(field("id", "long"), field("v", wrapped))


def wrap(place: str, value: Any) -> Any:
    return {
        "on top": value,
        "in a list": [value],
        "in a map": [("k", value)],
        "in a branch": {"Inner": {"x": value}, "boolean": None},
    }[place]


PATHS = {"on top": "v", "in a list": "v[]", "in a map": "v{}", "in a branch": "v<Inner>.x"}


def made(tmp_path: Path, place: str, type_: Any, values: list[Any]) -> tuple[str, str]:
    """A table whose second file holds these values; its URI and that file."""
    schema = at(place, type_)
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, schema, mark=True)
    for part in (values[:1], values):
        rows = [{"id": n, "v": wrap(place, value)} for n, value in enumerate(part)]
        delta.append(uri, pa.Table.from_pylist(rows, schema=le.arrow_schema(schema)))
    return uri, delta.open(uri).files()[1].path


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES)
def test_a_row_that_does_not_fit_is_named_and_not_shown(
    case: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    before, after, fits, wrong = CASES[case]
    uri, file = made(tmp_path, place, before, [fits[0], fits[1], fits[0], wrong, fits[1], wrong])
    position = delta.open(uri).state.position
    files = {path.name for path in (tmp_path / "t").rglob("*.parquet")}
    plan = le.plan(uri, at(place, after), mode="NONE")
    with pytest.raises(PlanBlocked) as caught:
        le.apply(plan, allow=("rewrite", "backfill", "drop"))
    told = "\n".join([*caught.value.lines(), *(f"{found.path}: {found.message}" for found in plan.findings)])
    assert f"{file}, row 3" in told
    assert PATHS[place] in told
    assert all(secret not in told for secret in (BAD, "86400000", "fffe", "\\xff"))
    assert delta.open(uri).state.position == position
    assert {path.name for path in (tmp_path / "t").rglob("*.parquet")} == files


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES)
def test_rows_that_fit_go_through(case: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))
    before, after, fits, _ = CASES[case]
    uri, _ = made(tmp_path, place, before, fits)
    le.apply(le.plan(uri, at(place, after), mode="NONE"), allow=("rewrite", "backfill", "drop"))
    assert sum(batch.num_rows for batch in delta.open(uri).read()) == 3
    assert le.verify(uri, full=True).ok


def test_what_is_staged_names_the_row_that_its_column_does_not_take(tmp_path: Path) -> None:
    from dataclasses import replace

    uri, file = made(tmp_path, "on top", ["null", "int"], [1, 2, 3, None])
    attempt = stage(uri, at("on top", ["null", "long"]))
    attempt.staged.abandon()
    required = replace(attempt.evolution, target=at("on top", "long"))

    def convert(source: Any) -> Any:
        for batch in attempt.table.raw(source):
            wide = batch.set_column(1, "v", batch.column("v").cast(pa.int64()))
            # In small batches, so that the count goes on from one to the next.
            yield from (wide.slice(start, 1) for start in range(wide.num_rows))

    from lakeevolve.model.change import MakeRequired

    changes = [(MakeRequired("v", True), "rewrite")]
    with pytest.raises(PlanBlocked, match="must not hold nulls") as caught:
        attempt.table.stage(replace(required, changes=changes, convert=convert))  # type: ignore[arg-type]
    assert caught.value.where == f"{file}, row 3, v"


def test_a_file_that_is_not_what_the_schema_says_names_the_row(tmp_path: Path) -> None:
    code = {"type": "fixed", "name": "Code", "size": 4}
    uri = f"delta:{tmp_path / 't'}"
    schema = record(field("id", "long"), field("l", {"type": "array", "items": code}))
    delta.create_table(uri, schema, mark=True)
    data = pa.table({"id": pa.array(range(5)), "l": pa.array([[b"abcd"], [], [], [b"abcd", BAD.encode()], [b"x"]])})
    # What another tool appends: Delta knows no length.
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "t", data.cast(pa.schema([pa.field("id", pa.int64(), False), data.schema.field("l")])),
                    mode="append", schema_mode="merge")  # fmt: skip
    table = delta.open(uri)
    (file,) = table.files()
    with pytest.raises(TableError) as caught:
        list(table.raw(file))
    assert caught.value.where == f"{uri}, {file.path}, row 3, l[]"
    assert BAD not in " ".join(caught.value.lines())


def test_a_null_struct_that_delta_rs_misreads_is_said_and_can_be_cured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A struct with a required field, in a struct, in a list: where that outer struct is null, delta-rs 1.6 finds a
    null in the required field."""
    monkeypatch.setenv("LAKEEVOLVE_STATE", str(tmp_path / "state"))

    def listed(x: Any) -> Schema:
        inner = {"type": "record", "name": "Inner", "fields": [field("x", x)]}
        outer = {"type": "record", "name": "Outer", "fields": [field("inner", inner)]}
        return record(field("id", "long"), field("l", {"type": "array", "items": ["null", outer]}))

    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, listed("int"), mark=True)
    rows = [{"id": 1, "l": [{"inner": {"x": 1}}, None]}, {"id": 2, "l": []}]
    delta.append(uri, pa.Table.from_pylist(rows, schema=le.arrow_schema(listed("int"))))
    with pytest.raises(TableError, match="null struct in a list") as caught:
        list(delta.open(uri).read())
    assert "make the fields of the inner struct optional" in caught.value.lines()[-1]
    assert le.apply(le.plan(uri, listed(["null", "int"]))).ok
    assert [row for batch in delta.open(uri).read() for row in batch.to_pylist()] == rows


def test_appended_rows_that_do_not_fit_are_named(tmp_path: Path) -> None:
    uri = f"delta:{tmp_path / 't'}"
    delta.create_table(uri, record(field("id", "long"), field("n", "int")))
    rows = pa.table({"id": pa.array([1, 2, 3]), "n": pa.array([1, 2, None], pa.int32())})
    with pytest.raises(TableError) as caught:
        delta.append(uri, rows)
    assert caught.value.where == f"{uri}, row 2, n"
    assert not list((tmp_path / "t").glob("*.parquet"))
