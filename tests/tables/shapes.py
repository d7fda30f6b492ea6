"""What the tests of all formats build: schemas, the places where a record can stand, and changes of any schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import lakeevolve as le
from lakeevolve.model import path as paths

Row = dict[str, Any]


def f(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def rec(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def row(*fields: Any) -> dict[str, Any]:
    return rec("Row", f("id", "int"), *fields)


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def map_(values: Any) -> Any:
    return {"type": "map", "values": values}


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


@dataclass(frozen=True)
class Place:
    """Where the record stands: its type within the row, the value within the row, and its path."""

    wrap: Callable[[Any], Any]
    put: Callable[[Any], Any]
    path: str
    #: Rows beside the one that holds the record, the same before and after.
    others: tuple[Any, ...] = ()


PLACES: dict[str, Place] = {
    "in the row": Place(lambda r: r, lambda v: v, ""),
    "in a record": Place(lambda r: r, lambda v: v, "c"),
    "in an optional record": Place(lambda r: ["null", r], lambda v: v, "c", (None,)),
    "in a list": Place(array, lambda v: [v, v], "c[]", ([],)),
    "in a map": Place(map_, lambda v: [("k", v), ("l", v)], "c{}", ([],)),
    "in a branch": Place(
        lambda r: ["string", r], lambda v: {"string": None, "R": v}, "c<R>", ({"string": "s", "R": None},)
    ),
    "in a list in a record in a map": Place(
        lambda r: map_(rec("M", f("i", array(r)))), lambda v: [("k", {"i": [v]})], "c{}.i[]", ([("k", {"i": []})],)
    ),
}


def within(place: Place, path: str) -> str:
    return paths.child(place.path, path)


def rows_of(place: Place, value: dict[str, Any]) -> list[dict[str, Any]]:
    if not place.path:
        return [{"id": 1, **value}]
    held = [place.put(value), *place.others]
    return [{"id": at, "c": each} for at, each in enumerate(held, start=1)]


def targets(schema: le.Schema) -> Iterator[tuple[str, Any, Callable[[Row], Row]]]:
    """Each change: its name, the target that holds it, and what it makes of a row."""
    record = schema.to_json()
    fields = record["fields"]
    first, last = fields[0]["name"], fields[-1]["name"]

    def having(*made: Any) -> Any:
        return {**record, "fields": list(made)}

    note = {"name": "note", "type": ["null", "string"], "default": None}
    lot = {"name": "lot", "type": "int", "default": 7}
    yield "add nullable", having(*fields, note), lambda row: {**row, "note": None}
    yield "add with default", having(*fields, lot), lambda row: {**row, "lot": 7}
    renamed = {**fields[0], "name": "renamed", "aliases": [first]}
    yield (
        "rename",
        having(renamed, *fields[1:]),
        lambda row: {("renamed" if name == first else name): value for name, value in row.items()},
    )
    if len(fields) > 1:
        yield "drop", having(*fields[:-1]), lambda row: {name: v for name, v in row.items() if name != last}
    for at, field in enumerate(fields):
        wider = _wider(field["type"])
        if wider is not None:
            yield "promote", having(*fields[:at], {**field, "type": wider}, *fields[at + 1 :]), dict
            return


def _wider(type_: Any) -> Any:
    promoted = {"int": "long", "float": "double"}
    if isinstance(type_, list):
        made = [promoted.get(branch, branch) if isinstance(branch, str) else branch for branch in type_]
        return made if made != type_ else None
    return promoted.get(type_) if isinstance(type_, str) else None
