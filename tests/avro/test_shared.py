"""Fields and types that schemas share: nothing that was parsed or resolved before changes what comes out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.avro.parse import parse
from lakeevolve.avro.parse import shared as fields
from lakeevolve.avro.resolution import resolve
from lakeevolve.avro.resolution import shared as parts
from lakeevolve.errors import LakeEvolveError
from lakeevolve.model.schema import Schema
from lakeevolve.testing import evolutions

CACHES: tuple[dict[Any, Any], ...] = (fields._types, fields._fields, parts.FILLED)


def record(*items: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    made = [{"name": item[0], "type": item[1], **(item[2] if len(item) > 2 else {})} for item in items]
    return {"type": "record", "name": name, "fields": made, **more}


def forget() -> None:
    for cache in CACHES:
        cache.clear()


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Every parse and every resolution begins with nothing."""
    forget()
    yield
    forget()


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except LakeEvolveError as error:
        return type(error), str(error)


def parsed(document: Any, lenient: bool) -> Any:
    found = outcome(lambda: parse(document, lenient=lenient))
    return (found.root, found.warnings, found.to_json()) if isinstance(found, Schema) else found


def afresh(document: Any, lenient: bool) -> Any:
    with nothing_kept():
        return parsed(document, lenient)


#: Fields that look alike and are not.
ALIKE: list[Any] = [
    {"name": "x", "type": {}},
    {"name": "x", "type": []},
    {"name": "x", "type": "int"},
    {"name": "x", "type": ["int"]},
    {"name": "x", "type": {"type": "int"}},
    {"name": "x", "type": "Money"},
    {"name": "x", "type": ["null", "Money"]},
    {"name": "x", "type": "int", "default": 1},
    {"name": "x", "type": "int", "default": True},
    {"name": "x", "type": "int", "default": 1.0},
    {"name": "x", "type": "int", "default": "1"},
    {"name": "x", "type": "int", "default": None},
    {"name": "x", "type": "int", "default": []},
    {"name": "x", "type": "int", "default": {}},
    {"name": "x", "type": "int", "default": 0.0},
    {"name": "x", "type": "int", "default": -0.0},
    {"name": "x", "type": "int", "doc": "1"},
    {"name": "x", "type": "int", "doc": ""},
    {"name": "x", "type": "int", "doc": None},
    {"name": "x", "type": "int", "doc": 1},
    {"name": "x", "type": "int", "doc": ["1"]},
    {"name": "x", "type": "int", "default": 1, "doc": "1"},
    {"name": "x", "type": "int", "default": "1", "doc": "1"},
    {"name": "x", "type": "int", "order": "ignore"},
    {"name": "x", "type": "int", "aliases": ["y"]},
    {"name": "x", "type": "int", "logicalType": "date"},
    {"name": "x", "type": {"type": "int", "logicalType": "date"}},
    {"name": "x", "type": {"logicalType": "date", "type": "int"}},
    {"name": "x", "type": {"type": "int", "logicalType": "unknown"}},
    {"name": "x", "type": {"type": "int", "logicalType": None}},
    {"name": "x", "type": {"type": "bytes", "logicalType": "decimal"}},
    {"name": "x", "type": {"type": "int", "more": "date"}},
    {"name": "x", "type": {"type": "array", "items": "int"}},
    {"name": "x", "type": {"type": "array", "values": "int"}},
    {"name": "x", "type": {"type": "map", "values": "int"}},
    {"name": "x", "type": {"type": "array", "items": "Money"}},
    {"name": "x", "type": ["int", "int"]},
    {"name": "x", "type": ["null", ["int"]]},
    {"name": "x", "type": None},
    {"name": "x", "type": 1},
    {"name": "x", "type": True},
    {"name": "x", "type": "int", "default": 2**70},
    {"name": "x", "type": "string", "default": "long" * 1000},
    {"name": "x", "doc": "no type"},
    {"type": "int", "doc": "no name"},
    {"name": "x-y", "type": "int"},
    {"name": "1x", "type": "int", "default": 1},
    {"name": "ä", "type": "int"},
    {"name": "", "type": "int"},
    {"name": None, "type": "int"},
    {"name": 1, "type": "int"},
    {"name": ["x"], "type": "int"},
    {"name": "x", "type": "int", "default": 1, "type ": "int"},
]


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ALIKE), st.booleans(), st.booleans()), min_size=2, max_size=8))
def test_a_field_means_what_it_says_whatever_was_parsed_before(met: list[tuple[Any, bool, bool]]) -> None:
    forget()
    for field, lenient, as_text in met:
        document: Any = {"type": "record", "name": "R", "namespace": "shop", "fields": [field]}
        source = json.dumps(document) if as_text else document
        found = parsed(source, lenient)
        kept = [dict(cache) for cache in CACHES]
        assert found == afresh(source, lenient)
        for cache, before in zip(CACHES, kept, strict=True):
            cache.update(before)


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("pair", [(a, b) for a in range(len(ALIKE)) for b in (1, 2, 7, 17, 21, 26, 32)])
def test_one_field_does_not_become_another(pair: tuple[int, int], lenient: bool) -> None:
    first, second = (record(name="R", fields=None) | {"fields": [ALIKE[at]]} for at in pair)
    forget()
    parsed(second, lenient=True)
    assert parsed(first, lenient) == afresh(first, lenient)


def test_a_name_is_looked_up_in_the_namespace_of_each_schema() -> None:
    def schema(namespace: str, size: int) -> Any:
        money = {"type": "fixed", "name": "Money", "size": size}
        return record(("m", money), ("x", "Money"), ("y", ["null", "Money"]), namespace=namespace)

    shop, bank = parse(schema("shop", 4)), parse(schema("bank", 8))
    assert [(field.type.name, field.type.size) for field in (shop.fields[1], bank.fields[1])] == [
        ("shop.Money", 4),
        ("bank.Money", 8),
    ]
    assert not resolve(shop, bank).compatible
    assert bank.fields[2].type.values[0] is bank.fields[0].type


def test_what_a_lenient_parse_tolerates_a_strict_one_still_refuses() -> None:
    bad = record(("a-b", "int", {"default": 1}), ("ok", "int"))
    assert parse(bad, lenient=True).warnings
    with pytest.raises(LakeEvolveError, match="is not an Avro name"):
        parse(bad)
    assert parse(bad, lenient=True).warnings, "a warning is given each time"


def test_a_shared_field_is_judged_anew_where_something_is_declared_of_it() -> None:
    old = parse(record(("a", "int"), ("b", "int", {"default": 1})))
    new = parse(record(("a", "int"), ("b", "int", {"default": 1})))
    assert old.fields[0] is new.fields[0]
    assert resolve(old, new).compatible
    assert not resolve(old, new, fresh=["a"]).compatible
    swapped = resolve(old, new, renames={"a": "b", "b": "a"})
    assert [(row.path, row.source) for row in swapped.explain()] == [("a", "b"), ("b", "a")]
    nulls = resolve(old, new, fresh=["b"], fills={"b": "null"})
    assert [row.action for row in nulls.explain()] == ["read", "filled with null", "skipped"]
    filled = resolve(old, new, fresh=["b"])
    assert [row.action for row in filled.explain()] == ["read", "filled with its default", "skipped"]
    assert [row.action for row in resolve(old, new).explain()] == ["read", "read"]


def test_a_shared_field_that_takes_part_in_a_rename_by_alias_is_matched_anew() -> None:
    old = parse(record(("a", "int"), ("b", "int")))
    new = parse(record(("c", "int", {"aliases": ["a"]}), ("b", "int")))
    back = parse(record(("a", "int"), ("c", "int", {"aliases": ["b"]})))
    for reader, expected in ((new, ["a", "b"]), (back, ["a", "b"]), (old, ["a", "b"])):
        assert [row.source for row in resolve(old, reader).explain()] == expected


def test_defaults_of_fields_of_one_name_are_each_its_own() -> None:
    empty = parse(record())
    for default in (1, 2, 1):
        reader = parse(record(("x", "int", {"default": default})))
        assert [row.detail for row in resolve(empty, reader).explain()] == [str(default)]
    assert not resolve(empty, parse(record(("x", "int", {"default": "1"})))).compatible
    assert not resolve(empty, parse(record(("x", "int", {"default": True})))).compatible
    assert resolve(empty, parse(record(("x", "int", {"default": 1})))).compatible


def test_logical_types_are_judged_by_the_mode_of_each_resolution() -> None:
    day = {"type": "int", "logicalType": "date"}
    old, new = parse(record(("x", day))), parse(record(("x", {"type": "long", "logicalType": "timestamp-millis"})))
    for _ in range(2):
        assert not resolve(old, new).compatible
        assert resolve(old, new, "ignore").compatible
        assert resolve(old, old).compatible


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(evolutions(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_resolutions_are_the_same_with_everything_known_and_with_nothing(
    pairs: list[tuple[Schema, Schema]], dice: random.Random
) -> None:
    texts = [json.dumps(schema.to_json()) for pair in pairs for schema in pair]
    asked = [(dice.choice(texts), dice.choice(texts)) for _ in range(6)]
    forget()
    known = [resolve(parse(a), parse(b)) for a, b in asked]
    for (a, b), found in zip(asked, known, strict=True):
        with nothing_kept():
            alone = resolve(parse(a), parse(b))
        assert alone.roots == found.roots
        assert alone.incompatibilities == found.incompatibilities
        assert alone.explain() == found.explain()


def test_threads_find_what_one_thread_finds() -> None:
    dice = random.Random(7)
    texts = []
    for _ in range(60):
        chosen = dice.sample(range(30), 12)
        items = [(f"f{at}", dice.choice(["int", "long", ["null", "string"]]), {"default": None}) for at in chosen]
        texts.append(json.dumps(record(*((n, t, d if isinstance(t, list) else {}) for n, t, d in items))))
    pairs = [(dice.choice(texts), dice.choice(texts)) for _ in range(400)]

    def find(pair: tuple[str, str]) -> Any:
        found = resolve(parse(pair[0]), parse(pair[1]))
        return found.roots, found.incompatibilities

    forget()
    expected = [find(pair) for pair in pairs]
    for _ in range(3):
        forget()
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(find, pairs)) == expected


def test_no_more_is_kept_than_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "_MOST", 10)
    monkeypatch.setattr(parts, "_MOST", 10)
    forget()
    for at in range(50):
        more = {"default": str(at), "doc": "d" * at}
        one = parse(record(*((f"f{at}_{i}", "string", more) for i in range(7))))
        assert resolve(one, one).compatible
        assert resolve(parse(record()), one).compatible
        assert all(len(cache) <= 10 for cache in CACHES)


@pytest.mark.parametrize("where", ["name", "default", "doc"])
def test_long_texts_are_not_kept(where: str) -> None:
    long = "x" * 10_000
    forget()
    field = {"name": "x", "type": "string", "default": "", "doc": "d", where: long}
    one = parse({"type": "record", "name": "R", "fields": [field]})
    assert resolve(one, one).compatible
    assert resolve(parse(record()), one).compatible
    kept = [repr(value) for cache in CACHES for value in cache.values()]
    assert not any(long in text for text in kept)
