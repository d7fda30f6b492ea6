from __future__ import annotations

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.find import find_field, find_type
from lakeevolve.model.types import Primitive

SCHEMA = parse(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {
                "name": "a",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "A",
                        "fields": [{"name": "zip", "type": "string"}, {"name": "up", "type": ["null", "R"]}],
                    },
                ],
            },
            {"name": "tags", "type": {"type": "array", "items": "int"}},
            {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
            {
                "name": "u",
                "type": ["string", {"type": "record", "name": "P", "fields": [{"name": "at", "type": "int"}]}],
            },
        ],
    }
)


@pytest.mark.parametrize(
    ("path", "type_"),
    [("a.zip", "string"), ("tags[]", "int"), ("u<string>", "string"), ("u<P>.at", "int"), ("a.up.tags[]", "int")],
)
def test_a_path_leads_to_its_type(path: str, type_: str) -> None:
    found = find_type(SCHEMA.root, path)
    assert isinstance(found, Primitive)
    assert found.name == type_


@pytest.mark.parametrize("path", ["b", "a.b", "tags{}", "m[]", "u<int>", "u.at", "tags.x", "a.zip.x"])
def test_a_path_that_leads_nowhere_finds_nothing(path: str) -> None:
    assert find_type(SCHEMA.root, path) is None


def test_only_a_field_is_a_field() -> None:
    field = find_field(SCHEMA.root, "a.zip")
    assert field is not None
    assert field.name == "zip"
    assert find_field(SCHEMA.root, "tags[]") is None
    assert find_field(SCHEMA.root, "") is None
    assert find_type(SCHEMA.root, "") is SCHEMA.root
