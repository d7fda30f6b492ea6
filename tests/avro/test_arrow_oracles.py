"""Execution over Arrow against others that know the Avro rule: Avro Java (its answers recorded) and fastavro."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.container import read_avro
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import LakeEvolveError, SchemaError, SourceError
from lakeevolve.model.types import Array, AvroType, Fixed, Map, Primitive, Record, Union, branch_names, kind

ROOT = Path(__file__).resolve().parents[2]
PROPERTY = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

#: Pairs that Avro Java calls compatible and that read differently here, with the reason.
DEPARTURES: dict[str, str] = {
    # Records of other names are never matched by their shape.
    "c0529": "a record of another name in a union is not matched by its shape",
    "c0538": "two branches of one short name: the full name decides",
    "c0539": "two branches of one short name: the full name decides",
    # Java's decoder compares full names where its checker compares short ones.
    "c0542": "an enum of another namespace is read",
    "c0544": "a fixed of another namespace is read",
    # Java wraps, pads or invents.
    "c0814": "the default 1.5 is no long",
    "c0818": "the default 1e300 is no float",
    "c0819": "a default that is text is no double",
    "c0820": "the default null is no array",
    "c0822": "the default [] is no map",
    "c0825": "a default of two bytes is no fixed(4)",
    "c0826": "a default with a code point above 255 is no bytes",
    "c0848": "two fields claim one: the first that is declared gets it",
    # Values without a counterpart in the column's type.
    "c0991": "bytes that are not UTF-8 are no string",
    "c0992": "no bytes are no decimal",
    "c0994": "no bytes are no decimal",
    "c1018": "more digits than the decimal's precision",
    "c1040": "a negative number is no time of a day",
    "c1173": "bytes that are not UTF-8 are no string",
    "c1176": "bytes that are not UTF-8 are no string",
}

#: The same, where logical types are checked: a value keeps its meaning, or the pair is refused.
MEANING_REFUSED = frozenset(
    {
        "c0977",
        "c0978",
        "c0979",
        "c0981",
        "c0982",
        "c0983",
        "c0984",
        "c0991",
        "c0992",
        "c0994",
        "c1027",
        "c1029",
        "c1031",
        "c1034",
        "c1046",
        "c1054",
        "c1055",
        "c1056",
        "c1057",
        "c1058",
        "c1063",
        "c1065",
        "c1075",
        "c1077",
        "c1078",
        "c1109",
        "c1112",
        "c1119",
        "c1120",
    }
)
MEANING_RESCALED = frozenset({"c1035", "c1037", "c1043", "c1045", "c1051", "c1053", "c1111", "c1128"})

#: Data that is not valid for its own writer: decimals of more digits than their precision, negative times of a day.
INVALID_DATA = frozenset(
    {
        "c1000",
        "c1002",
        "c1003",
        "c1004",
        "c1005",
        "c1006",
        "c1007",
        "c1008",
        "c1011",
        "c1013",
        "c1014",
        "c1015",
        "c1017",
        "c1036",
        "c1038",
    }
)


def pairs() -> list[dict[str, Any]]:
    for folder in (ROOT / "tests" / "conformance", ROOT.parent / "shared" / "conformance"):
        file = folder / "avro_pairs.jsonl"
        if file.exists():
            return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    pytest.skip("the conformance pairs are not here")


def wrapped(schema: Any) -> dict[str, Any]:
    """A record with one field of the schema: it adds no byte to the encoding."""
    return {"type": "record", "name": "Probe", "fields": [{"name": "value", "type": schema}]}


def number(value: int) -> bytes:
    """A count or a length as Avro encodes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def container(schema: Any, encoded: list[bytes]) -> bytes:
    """An object container file with one block of records that are encoded already."""
    sync, text, data = bytes(range(16)), json.dumps(schema).encode(), b"".join(encoded)
    header = b"Obj\x01" + number(1) + number(11) + b"avro.schema" + number(len(text)) + text + b"\0" + sync
    return header + number(len(encoded)) + number(len(data)) + data + sync


def plain(scalar: pa.Scalar, type_: AvroType) -> Any:
    """A value in the terms of Avro's JSON encoding: numbers for logical types, the branch of a union by its name."""
    if isinstance(type_, Union):
        if not scalar.is_valid:
            return None
        names = branch_names(type_)
        if type_.optional:
            return {names[0]: plain(scalar, type_.values[0])}
        branches = zip(names, type_.values, strict=True)
        there = {name: plain(scalar[name], branch) for name, branch in branches if scalar[name].is_valid}
        assert len(there) == 1
        return there
    assert scalar.is_valid, "a null where Avro has none"
    match type_:
        case Record():
            return {field.name: plain(scalar[field.name], field.type) for field in type_.fields}
        case Array():
            return [plain(item, type_.items) for item in scalar.values or []]
        case Map():
            return {pair["key"].as_py(): plain(pair["value"], type_.values) for pair in scalar.values or []}
    logical = getattr(type_, "logical", None)
    if logical is None:
        return scalar.as_py()
    if logical.name == "decimal":
        unscaled = int(scalar.as_py().scaleb(logical.scale))
        least = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        return unscaled.to_bytes(type_.size if isinstance(type_, Fixed) else least, "big", signed=True)
    if logical.name.endswith("-millis"):
        assert scalar.value % 1000 == 0
        return scalar.value // 1000
    return scalar.value if hasattr(scalar, "value") else scalar.as_py()


def java_value(value: Any, type_: AvroType) -> Any:
    """What Avro Java's JSON encoding says, in the terms of :func:`plain`."""
    match type_:
        case Union():
            if value is None:
                return None
            ((label, inner),) = value.items()
            names = zip(branch_names(type_), type_.values, strict=True)
            name, branch = next((n, b) for n, b in names if label in (kind(b), getattr(b, "name", None)))
            return {name: java_value(inner, branch)}
        case Record():
            return {field.name: java_value(value[field.name], field.type) for field in type_.fields}
        case Array():
            return [java_value(item, type_.items) for item in value]
        case Map():
            return {key: java_value(item, type_.values) for key, item in value.items()}
        case Fixed() | Primitive(name="bytes"):
            return value.encode("latin-1")
        case Primitive(name="float"):
            return struct.unpack("<f", struct.pack("<f", float(value)))[0]
        case Primitive(name="double"):
            return float(value)
    return value


def same(got: Any, wanted: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, and -0.0 from 0.0; a map has no order."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in got)
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    return type(got) is type(wanted) and repr(got) == repr(wanted)


def outcomes(pair: dict[str, Any], logical: Any, folder: Path) -> Iterator[str]:
    """How each sample of a pair fares: equal, departs, refused with Java, or not to be had in a table."""
    writer, reader = (parse(wrapped(pair[side]), lenient=True) for side in ("writer", "reader"))
    found = resolve(writer, reader, logical)
    file = folder / "sample.avro"
    file.write_bytes(container(wrapped(pair["writer"]), [bytes.fromhex(s["hex"]) for s in pair["samples"]]))
    try:
        data = read_avro(file).read_all()
        arrow_schema(reader)
    except SchemaError:
        yield "no table form"
        return
    except SourceError:
        yield "invalid data"
        return
    assert data.num_rows == len(pair["samples"])
    rejected = not pair["java_compatible"] and not all(fault.value_level for fault in found.incompatibilities)
    for at, sample in enumerate(pair["samples"]):
        try:
            read = found.to_arrow(data.slice(at, 1), partial=True)
        except LakeEvolveError:
            yield "equal" if "java_error" in sample else "rejected" if rejected else "departs"
            continue
        read.validate(full=True)
        assert read.schema == arrow_schema(reader)
        if "java_error" in sample:
            yield "departs"
            continue
        type_ = reader.fields[0].type
        wanted = java_value(json.loads(sample["java_avro_json"] or "{}"), type_)
        yield "equal" if same(plain(read["value"][0], type_), wanted) else "departs"


@pytest.mark.parametrize("logical", ["ignore", "check"])
def test_every_recorded_sample_reads_as_avro_java_reads_it_apart_from_listed_departures(
    logical: str, tmp_path: Path
) -> None:
    departs, invalid, counts = set(), set(), dict.fromkeys(("equal", "departs", "rejected", "no table form"), 0)
    for pair in pairs():
        for outcome in outcomes(pair, logical, tmp_path):
            if outcome == "invalid data":
                invalid.add(pair["id"])
                continue
            counts[outcome] += 1
            if outcome == "departs":
                departs.add(pair["id"])
    listed = set(DEPARTURES) | (MEANING_REFUSED | MEANING_RESCALED if logical == "check" else set())
    assert departs - listed == set()
    # A departure that is no longer one would hide a new one.
    assert listed - departs == set()
    assert invalid == INVALID_DATA
    assert counts["equal"] > 1500


# fastavro, where it is right: one numeric branch per union, no bytes or fixed defaults, numbers that floats hold


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    names = iter(range(1000))

    def record(depth: int) -> Any:
        fields = [{"name": f"f{at}", "type": field(depth - 1)} for at in range(draw(st.integers(1, 4)))]
        return {"type": "record", "name": f"R{next(names)}", "fields": fields}

    def field(depth: int) -> Any:
        kinds = ["int", "long", "float", "double", "string", "bytes", "boolean", "enum", "fixed"]
        if depth > 0:
            kinds += ["nullable", "array", "map", "record", "union"] * 2
        match draw(st.sampled_from(kinds)):
            case "enum":
                return {"type": "enum", "name": f"E{next(names)}", "symbols": ["A", "B", "C"], "default": "A"}
            case "fixed":
                return {"type": "fixed", "name": f"F{next(names)}", "size": 3}
            case "nullable":
                inner = field(0) if draw(st.booleans()) else record(depth - 1)
                return draw(st.permutations(["null", inner]))
            case "array":
                return {"type": "array", "items": field(depth - 1)}
            case "map":
                return {"type": "map", "values": field(depth - 1)}
            case "record":
                return record(depth)
            case "union":
                number = draw(st.sampled_from(["int", "long", "double"]))
                branches = ["null", number, "string", "boolean", {"type": "array", "items": "int"}, record(depth - 1)]
                chosen = draw(st.lists(st.sampled_from(range(6)), min_size=3, max_size=5, unique=True))
                return [branches[at] for at in chosen]
            case simple:
                return simple

    return record(depth)


@st.composite
def evolved(draw: st.DrawFn, schema: Any, age: str = "a") -> Any:
    """A reader that can read what was written with the schema; new names end in *age*."""
    names = (f"{at}{age}" for at in range(1000))
    promoted = {
        "int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"],
        "string": ["bytes"], "bytes": ["string"],
    }  # fmt: skip

    def change(node: Any, *, in_union: bool = False) -> Any:
        if isinstance(node, list):
            branches = [change(branch, in_union=True) for branch in node]
            return draw(st.permutations(branches))
        if isinstance(node, str):
            choices = [to for to in promoted.get(node, []) if not in_union or to not in ("bytes", "string")]
            node = draw(st.sampled_from([node, *choices]))
            return nullable(node, in_union)
        match node["type"]:
            case "record":
                kept = [f for f in node["fields"] if draw(st.integers(0, 9))]
                fields = []
                for field in kept:
                    new = {"name": field["name"], "type": change(field["type"])}
                    if not draw(st.integers(0, 3)):
                        new |= {"name": f"new{next(names)}", "aliases": [field["name"]]}
                    fields.append(new)
                defaults = [
                    ("int", 7),
                    (["null", "string"], None),
                    ({"type": "array", "items": "int"}, [1]),
                    ("double", 1.5),
                ]
                for type_, default in draw(st.lists(st.sampled_from(defaults), max_size=2)):
                    fields.append({"name": f"added{next(names)}", "type": type_, "default": default})
                return nullable({**node, "fields": draw(st.permutations(fields))}, in_union)
            case "array":
                return nullable({"type": "array", "items": change(node["items"])}, in_union)
            case "map":
                return nullable({"type": "map", "values": change(node["values"])}, in_union)
            case "enum":
                symbols = draw(st.sampled_from([["A", "B", "C"], ["C", "A"], ["Z", "B", "A"]]))
                return nullable({**node, "symbols": symbols}, in_union)
        return nullable(node, in_union)

    def nullable(node: Any, in_union: bool) -> Any:
        if in_union or draw(st.integers(0, 3)):
            return node
        return draw(st.permutations(["null", node]))

    root = change(schema, in_union=True)
    assert isinstance(root, dict)
    return root


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of([values(branch) for branch in schema])
    if isinstance(schema, dict):
        match schema["type"]:
            case "record":
                return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
            case "array":
                return st.lists(values(schema["items"]), max_size=3)
            case "map":
                return st.dictionaries(st.text("ab", max_size=2), values(schema["values"]), max_size=3)
            case "enum":
                return st.sampled_from(schema["symbols"])
            case "fixed":
                return st.binary(min_size=3, max_size=3)
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**24), 2**24),
        "long": st.integers(-(2**24), 2**24),
        "float": st.floats(width=32),
        "double": st.floats(),
        "string": st.text(max_size=3),
        "bytes": st.text(max_size=3).map(str.encode),
    }[schema]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    writer = draw(schemas())
    return writer, draw(evolved(writer)), draw(st.lists(values(writer), min_size=1, max_size=6))


def fastavro_value(value: Any, type_: AvroType) -> Any:
    """What fastavro gives, with its shortcuts mended: it keeps ints where floats are asked for."""
    match type_:
        case Union():
            return None if value is None else value if not type_.optional else fastavro_value(value, type_.values[0])
        case Record():
            return {field.name: fastavro_value(value[field.name], field.type) for field in type_.fields}
        case Array():
            return [fastavro_value(item, type_.items) for item in value]
        case Map():
            return {key: fastavro_value(item, type_.values) for key, item in value.items()}
        case Primitive(name="float" | "double"):
            return float(value)
    return value


def loose(value: Any, type_: AvroType) -> Any:
    """A value of :func:`plain` without the names of branches, which fastavro does not give."""
    match type_:
        case Union():
            if value is None:
                return None
            ((name, inner),) = value.items()
            return loose(inner, dict(zip(branch_names(type_), type_.values, strict=True))[name])
        case Record():
            return {field.name: loose(value[field.name], field.type) for field in type_.fields}
        case Array():
            return [loose(item, type_.items) for item in value]
        case Map():
            return {key: loose(item, type_.values) for key, item in value.items()}
    return value


def equal(got: Any, wanted: Any) -> bool:
    """As :func:`same`, save that an int equals its float: in a union, fastavro gives either."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(equal(got[key], wanted[key]) for key in got)
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(equal, got, wanted))
    return got == wanted or (got != got and wanted != wanted)


def written(schema: Any, records: list[Any], folder: Path) -> Path:
    file = folder / "records.avro"
    with file.open("wb") as out:
        fastavro.writer(out, schema, records)
    return file


@PROPERTY
@given(cases())
def test_execution_equals_fastavro_record_by_record(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Any, Any, list[Any]]
) -> None:
    writer, reader, records = case
    file = written(writer, records, tmp_path_factory.mktemp("fastavro"))
    target = parse(reader)
    got = read_avro(file, target).read_all()
    got.validate(full=True)
    assert got.schema == arrow_schema(target)
    with file.open("rb") as source:
        wanted = [fastavro_value(record, target.root) for record in fastavro.reader(source, reader)]
    rows = pa.Table.to_struct_array(got).combine_chunks() if got.num_columns else [None] * len(records)
    if got.num_columns:
        assert equal([loose(plain(row, target.root), target.root) for row in rows], wanted)
    assert got.num_rows == len(wanted)


@PROPERTY
@given(cases(), st.integers(0, 6), st.integers(1, 3))
def test_batches_slices_and_readers_give_what_the_whole_table_gives(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Any, Any, list[Any]], start: int, size: int
) -> None:
    writer, reader, records = case
    file = written(writer, records * 3, tmp_path_factory.mktemp("slices"))
    found = resolve(parse(writer), parse(reader))
    table = read_avro(file).read_all()
    whole = found.to_arrow(table)
    if whole.num_columns:  # pyarrow slices no table without columns
        assert found.to_arrow(table.slice(start)).to_pylist() == whole.slice(start).to_pylist() or "nan" in str(records)
    batches = table.to_batches(max_chunksize=size)
    chunked = found.to_arrow(pa.Table.from_batches(batches, table.schema))
    assert chunked.schema == whole.schema
    assert chunked.to_pylist() == whole.to_pylist() or "nan" in str(records)
    stream = found.to_arrow(pa.RecordBatchReader.from_batches(table.schema, batches))
    assert isinstance(stream, pa.RecordBatchReader)
    assert stream.read_all().equals(chunked) or "nan" in str(records)
    for batch in batches:
        assert found.to_arrow(batch).num_rows == batch.num_rows


@PROPERTY
@given(st.data())
def test_composed_resolutions_give_what_one_after_the_other_gives(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    first, second, records = data.draw(cases())
    third = data.draw(evolved(second, "b"))
    file = written(first, records, tmp_path_factory.mktemp("then"))
    one, two = resolve(parse(first), parse(second)), resolve(parse(second), parse(third))
    table = read_avro(file).read_all()
    try:
        wanted = two.to_arrow(one.to_arrow(table))
    except LakeEvolveError:
        with pytest.raises(LakeEvolveError):
            one.then(two).to_arrow(table)
        return
    got = one.then(two).to_arrow(table)
    got.validate(full=True)
    assert got.schema == wanted.schema
    assert repr(got.to_pylist()) == repr(wanted.to_pylist())
