"""Tables that were never managed: what they are taken for, what is proposed, and what a marker may say of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeevolve as le
from lakeevolve.config.load import load_project, parse_project
from lakeevolve.errors import ConfigError, SourceNotFound, TableNotFound
from lakeevolve.model.schema import Schema
from lakeevolve.planning.adoption import Adopted, adoption
from lakeevolve.planning.project import check_project, plan_project
from lakeevolve.report.adoption import of_adoption
from lakeevolve.report.project import code_of_all
from lakeevolve.tables import open_table

Rows = Callable[[Schema, int, int], pa.Table]


def record(*fields: tuple[str, Any] | tuple[str, Any, Any], name: str = "Order") -> dict[str, Any]:
    made = [dict(zip(("name", "type", "default"), each, strict=False)) for each in fields]
    return {"type": "record", "name": name, "fields": made}


ID, AMOUNT = ("id", "long"), ("amount", "float")
V1 = record(ID, AMOUNT, ("note", "string"))
V2 = record(ID, AMOUNT, ("note", "string"), ("currency", "string", "EUR"))
V3 = record(ID, ("amount", "double"), ("note", "string"), ("currency", "string", "EUR"))


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the versions of two subjects."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas" / "orders").mkdir(parents=True)
    for number, schema in enumerate((V1, V2, V3), start=1):
        (tmp_path / "schemas" / "orders" / f"v{number}.avsc").write_text(json.dumps(schema))
    users = record(ID, ("name", "string"), ("mail", ["null", "string"], None), name="User")
    (tmp_path / "schemas" / "users.avsc").write_text(json.dumps(users))
    return tmp_path / "schemas"


def made(lake: Any, schema: dict[str, Any], name: str = "t", rows: Rows | None = None) -> str:
    uri: str = lake.create(name, le.load(schema), None if rows is None else rows(le.load(schema), 7, 1))
    return uri


def found(uri: str, schemas: Path) -> Adopted:
    (one,) = le.adopt(uri, str(schemas)).tables
    return one


NEWEST = [(field["name"], field["type"]) for field in V3["fields"]]
LOOSE = record(("id", ["null", "long"]), ("amount", ["null", "float"]), ("note", ["null", "string"]))
CLASSES = {
    "the newest version": (V3, "exact", "orders", 3),
    "an earlier version": (V1, "behind", "orders", 1),
    "the one between": (V2, "behind", "orders", 2),
    "other order of columns": (record(("note", "string"), AMOUNT, ID), "behind", "orders", 1),
    "everything optional": (LOOSE, "behind", "orders", 1),
    "a column is lacking": (record(ID, ("amount", "double"), ("currency", "string")), "behind", "orders", 3),
    "a column too many": (record(*NEWEST, ("region", "string")), "ahead", "orders", 3),
    "a column is wider": (record(ID, ("name", "string"), ("mail", "string")), "behind", "users", 1),
    "another type": (record(ID, ("amount", "string"), ("note", "string")), "conflicting", "orders", 1),
    "too few in common": (record(ID, ("x", "int"), ("y", "int"), ("z", "int")), "unmatched", None, None),
    "nothing in common": (record(("x", "int")), "unmatched", None, None),
}  # fmt: skip


def test_a_table_is_taken_for_the_version_that_fits_best(lake: Any, schemas: Path) -> None:
    uris = {made(lake, CLASSES[case][0], f"t{number}"): case for number, case in enumerate(CLASSES)}
    for one in le.adopt(list(uris), str(schemas)).tables:
        assert (one.kind, one.subject, one.version) == CLASSES[uris[one.uri]][1:], uris[one.uri]
        assert one.kind in ("exact", "behind") or one.reasons


def test_columns_of_ingest_are_nobodys_and_those_of_an_earlier_version_are_not(lake: Any, schemas: Path) -> None:
    more = [("_offset", "long"), ("kafka_topic", "string"), ("ingested_at", "long")]
    one = found(made(lake, record(*NEWEST, *more)), schemas)
    assert (one.kind, one.foreign) == ("exact", ("kafka_topic", "ingested_at"))
    # The same name, once the subject had it, is a column that was dropped.
    dropped = record(*((f["name"], f["type"]) for f in V1["fields"]), ("ingested_at", "long"))
    (schemas / "orders" / "v0.avsc").write_text(json.dumps(dropped))
    one = found(made(lake, dropped, "u"), schemas)
    assert (one.kind, one.version, one.foreign) == ("behind", 1, ())


def test_names_that_differ_in_case_and_underscores_alone_are_proposed_as_a_mapping(
    lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inner = record(("zipCode", "int"), name="Address")
    (tmp_path / "s.avsc").write_text(json.dumps(record(("orderId", "long"), ("total", "double"), ("shipTo", inner))))
    column = record(("zip_code", "int"), name="Address")
    one = found(made(lake, record(("order_id", "long"), ("total", "double"), ("ship_to", column))), Path("s.avsc"))
    assert one.kind == "exact"
    assert one.mapping == {"orderId": "order_id", "shipTo": "ship_to", "shipTo.zipCode": "ship_to.zip_code"}


def test_two_columns_that_could_be_one_field_are_mapped_to_none(
    lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.avsc").write_text(json.dumps(record(("orderId", "long"), ID, AMOUNT)))
    one = found(made(lake, record(("order_id", "long"), ("order__id", "long"), ID, AMOUNT)), Path("s.avsc"))
    assert one.mapping == {}


def test_the_record_inside_an_envelope_of_change_data_is_proposed_as_the_rows(
    lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = record(("orderId", "long"), AMOUNT)
    envelope = record(("before", ["null", row], None), ("after", ["null", "Order"], None), ("op", "string"), name="E")
    (tmp_path / "s.avsc").write_text(json.dumps(envelope))
    uri = made(lake, record(("order_id", "long"), AMOUNT))
    one = found(uri, Path("s.avsc"))
    assert (one.kind, one.mapping) == ("exact", {"after": "$", "after.orderId": "order_id"})
    project = parse_project(le.adopt(uri, "s.avsc").to_yaml(), tmp_path / "lakeevolve.yaml")
    (part,) = plan_project(project).parts
    assert part.error is None
    assert part.value.changes == ()


@pytest.mark.parametrize("schema", [V1, V3], ids=["behind", "exact"])
def test_a_marker_is_all_that_is_written(lake: Any, schemas: Path, rows: Rows, schema: dict[str, Any]) -> None:
    uri = made(lake, schema, rows=rows)
    before = open_table(uri)
    files, pin, columns = before.files(), before.state.pin, before.describe()["columns"]
    (one,) = le.adopt(uri, str(schemas), apply=True).tables
    assert one.status == "recorded"
    after = open_table(uri)
    assert after.history()[-1].recorded
    assert after.schema == le.load(schema)
    assert [(file.path, file.rows) for file in after.files()] == [(file.path, file.rows) for file in files]
    assert (after.state.pin, after.describe()["columns"]) == (pin, columns)
    assert le.verify(uri).ok
    (again,) = le.adopt(uri, str(schemas), apply=True).tables
    assert (again.kind, again.status) == ("managed", "managed")
    assert open_table(uri).state == after.state
    assert not le.plan(uri, V3).refused


def test_what_is_no_version_is_left_without_a_marker(lake: Any, schemas: Path) -> None:
    kinds = {"ahead": "a column too many", "conflicting": "another type", "unmatched": "nothing in common"}
    for kind, case in kinds.items():
        uri = made(lake, CLASSES[case][0], kind)
        before = open_table(uri).state
        (one,) = le.adopt(uri, str(schemas), apply=True).tables
        assert (one.kind, one.status) == (kind, f"left: {kind}")
        assert open_table(uri).state == before


def test_a_null_in_a_column_that_the_version_requires_keeps_the_marker_away(lake: Any, schemas: Path) -> None:
    schema = LOOSE
    data = pa.Table.from_pylist([{"id": 1, "amount": None, "note": "x"}], schema=le.arrow_schema(schema))
    uri = lake.create("t", le.load(schema), data)
    (one,) = le.adopt(uri, str(schemas), apply=True).tables
    assert one.kind == "behind"
    assert one.status.startswith("left: ")
    assert "amount" in one.status
    assert not open_table(uri).history()[-1].recorded


def test_the_baseline_lets_pass_what_there_is_and_not_what_is_new(lake: Any, schemas: Path, tmp_path: Path) -> None:
    uri = made(lake, CLASSES["another type"][0])
    day = date.today() + timedelta(days=30)
    survey = le.adopt(uri, str(schemas), until=day, approver="ann@example.com")
    assert survey.tables[0].baseline
    project = load_project(survey.save(tmp_path / "lakeevolve.yaml"))
    waivers = project.entry.policy.waivers
    assert {(each.until, each.approver) for each in waivers} == {(day, "ann@example.com")}
    for run in (check_project, plan_project):
        parts = run(project)
        assert [part.error for part in parts.parts] == [None]
        assert code_of_all(parts, "error") == 0
    # A field without a default is new.
    (schemas / "orders" / "v4.avsc").write_text(json.dumps(record(*NEWEST, ("channel", "string"))))
    for run in (check_project, plan_project):
        assert code_of_all(run(load_project(tmp_path / "lakeevolve.yaml")), "error") == 1
    # And once the day is over, what there was fails as well.
    (schemas / "orders" / "v4.avsc").unlink()
    text = (tmp_path / "lakeevolve.yaml").read_text().replace(day.isoformat(), "2020-01-31")
    assert code_of_all(check_project(parse_project(text, tmp_path / "lakeevolve.yaml")), "error") == 1


def test_the_proposal_is_a_projects_file_wherever_it_lies(
    lake: Any, schemas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = made(lake, V1)
    relative = uri.replace(f"{tmp_path}/", "")
    survey = le.adopt(relative, "schemas")
    (tmp_path / "deep").mkdir()
    text = survey.to_yaml("deep")
    assert "../schemas/orders" in text
    assert str(tmp_path) not in text
    (tmp_path / "deep" / "lakeevolve.yaml").write_text(text)
    project = load_project(tmp_path / "deep" / "lakeevolve.yaml")
    (part,) = plan_project(project).parts
    assert part.error is None
    assert {change.path for change in part.value.changes} == {"amount", "currency"}


def test_a_proposal_is_never_written_over_a_file(lake: Any, schemas: Path, tmp_path: Path) -> None:
    survey = le.adopt(made(lake, V1), str(schemas))
    (tmp_path / "mine.yaml").write_text("version: 1\n")
    with pytest.raises(ConfigError, match="there already"):
        survey.save(tmp_path / "mine.yaml")
    assert (tmp_path / "mine.yaml").read_text() == "version: 1\n"


def test_a_run_that_stopped_goes_on_where_it_was(lake: Any, schemas: Path, tmp_path: Path) -> None:
    uris = [made(lake, V1, f"t{number}") for number in range(4)]
    notes = tmp_path / "notes"
    opened: list[str] = []

    def stops(uri: str) -> Any:
        if len(opened) == 2:
            raise KeyboardInterrupt
        opened.append(uri)
        return open_table(uri)

    with pytest.raises(KeyboardInterrupt):
        adoption(uris, [str(schemas)], notes=notes, open_=stops)
    # What was being written when it was killed is no line.
    notes.write_text(notes.read_text() + '{"key": "del')
    after: list[str] = []

    def opens(uri: str) -> Any:
        after.append(uri)
        return open_table(uri)

    survey = adoption(uris, [str(schemas)], notes=notes, open_=opens)
    assert opened == uris[:2]
    assert after == uris[2:]
    assert [each.kind for each in survey.tables] == ["behind"] * 4
    assert survey.to_json() == adoption(uris, [str(schemas)]).to_json()
    assert not notes.exists()


def test_no_file_keeps_a_credential(lake: Any, schemas: Path, tmp_path: Path) -> None:
    uri = made(lake, V1)
    secret = "delta:s3://key:tOpSeCrEt@bucket/orders"
    notes = tmp_path / "notes"

    def opens(wanted: str) -> Any:
        if wanted != secret:
            raise KeyboardInterrupt
        return open_table(uri)

    with pytest.raises(KeyboardInterrupt):
        adoption([secret, uri], [str(schemas)], notes=notes, open_=opens)
    assert len(notes.read_text().splitlines()) == 2
    seen = [notes.read_text()]
    # The second run takes the first table from the notes: it opens the other alone.
    survey = adoption([secret, uri], [str(schemas)], notes=notes, open_=lambda _: open_table(uri))
    seen += [survey.to_yaml(), json.dumps(survey.to_json()), of_adoption(survey).text(), survey._repr_html_()]
    assert [each.kind for each in survey.tables] == ["behind", "behind"]
    for text in seen:
        assert "tOpSeCrEt" not in text


def test_notes_of_other_schemas_are_not_believed(lake: Any, schemas: Path, tmp_path: Path) -> None:
    uri = made(lake, V3)
    with pytest.raises(KeyboardInterrupt):
        adoption([uri, uri + "x"], [str(schemas)], notes=tmp_path / "notes", open_=_once())
    (schemas / "orders" / "v3.avsc").unlink()
    (one,) = adoption([uri], [str(schemas)], notes=tmp_path / "notes").tables
    assert one.kind != "exact"


def _once() -> Callable[[str], Any]:
    seen: list[str] = []

    def open_(uri: str) -> Any:
        seen.append(uri)
        if len(seen) > 1:
            raise KeyboardInterrupt
        return open_table(uri)

    return open_


def test_a_table_that_cannot_be_read_stops_no_other(lake: Any, schemas: Path) -> None:
    survey = le.adopt([lake.uri("gone"), made(lake, V1)], str(schemas))
    assert [each.kind for each in survey.tables] == ["unreadable", "behind"]
    assert survey.tables[0].reasons


def test_patterns_mean_the_tables_there_are(lake: Any, schemas: Path) -> None:
    uris = [made(lake, V1, name) for name in ("orders_eu", "orders_us", "users")]
    survey = le.adopt(lake.uri("orders_*"), str(schemas))
    assert [each.uri for each in survey.tables] == uris[:2]
    with pytest.raises(TableNotFound, match="means no table"):
        le.adopt(lake.uri("x*"), str(schemas))
    (schemas.parent / "empty").mkdir()
    with pytest.raises(SourceNotFound):
        le.adopt(uris[0], str(schemas.parent / "empty"))


def test_no_row_is_read(lake: Any, schemas: Path, rows: Rows) -> None:
    uri = made(lake, V1, rows=rows)
    for file in lake.folder.rglob("*.parquet"):
        if "metadata" not in file.parts and "_delta_log" not in file.parts:
            file.write_bytes(b"")
    one = found(uri, schemas)
    assert (one.kind, one.version) == ("behind", 1)


@pytest.mark.parametrize("count", [6, pytest.param(400, marks=pytest.mark.long)])
def test_what_a_table_costs_does_not_grow_with_how_many_there_are(
    lake: Any, schemas: Path, rows: Rows, count: int, tmp_path: Path
) -> None:
    # To make a table of Iceberg takes much longer than to look at one.
    count = min(count, 100) if lake.format == "iceberg" else count
    uris = [made(lake, (V1, V2, V3)[number % 3], f"t{number:03}") for number in range(count)]
    lake.append(uris[-1], rows(le.load((V1, V2, V3)[(count - 1) % 3]), 50_000, 1))

    def cost(chosen: list[str]) -> tuple[float, int]:
        began, read = time.process_time(), _read_bytes()
        survey = adoption(chosen, [str(schemas)])
        assert {each.kind for each in survey.tables} <= {"exact", "behind"}
        return time.process_time() - began, _read_bytes() - read

    cost(uris[:1])
    _, one = cost(uris[:1])
    seconds, every = cost(uris)
    # Bytes of metadata: as many for each, also for the one with all the rows.
    assert every < (one + 20_000) * 2 * count
    _, last = cost(uris[-1:])
    assert last < 3 * one + 60_000
    assert seconds < 0.25 * count


def _read_bytes() -> int:
    """How many bytes this process has read so far, whichever library did."""
    file = Path("/proc/self/io")
    if not file.is_file():
        pytest.skip("this system does not count what a process reads")
    return int(file.read_text().split("rchar:")[1].split()[0])
