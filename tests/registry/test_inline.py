"""Schemas that are spread over subjects are the schemas that they were before."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from lakeevolve.avro.parse.names import declared, defines
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import PRIMITIVES, Union
from lakeevolve.sources.registry.inline import normal, schema_of
from lakeevolve.testing import schemas


def spread(node: Any, namespace: str, found: dict[str, str], *, top: bool = False) -> Any:
    """A schema's JSON with each definition within it replaced by its name; the definitions go to *found*."""
    if isinstance(node, list):
        return [spread(each, namespace, found) for each in node]
    if not isinstance(node, dict):
        return node
    if not defines(node):
        return {
            key: spread(value, namespace, found) if key in ("type", "items", "values") else value
            for key, value in node.items()
        }
    full = declared(node, namespace)
    inner = full.rpartition(".")[0]
    made = {**node, "name": full.rpartition(".")[2], "namespace": inner}
    if "fields" in node:
        made["fields"] = [{**each, "type": spread(each["type"], inner, found)} for each in node["fields"]]
    if top:
        return made
    found[full] = json.dumps(made)
    return full


@given(schemas())
@settings(max_examples=30, derandomize=True, deadline=None, database=None)
def test_a_schema_that_is_spread_over_subjects_is_put_together_again(schema: Schema) -> None:
    found: dict[str, str] = {}
    text = json.dumps(spread(schema.to_json(), "", found, top=True))
    made = schema_of(text, reversed(found.values()))
    assert made == schema
    assert made.digest == schema.digest


@given(schemas())
@settings(max_examples=15, derandomize=True, deadline=None, database=None)
def test_a_union_of_a_schema_and_another_is_one_also_when_it_is_spread(schema: Schema) -> None:
    other = {"type": "record", "name": "Other", "namespace": "elsewhere", "fields": []}
    found: dict[str, str] = {}
    text = json.dumps([spread(schema.to_json(), "", found), spread(other, "", found)])
    root = schema_of(text, found.values()).root
    assert isinstance(root, Union)
    assert root.branches[0] == schema.root


def respelled(node: Any, namespace: str = "") -> Any:
    """The same schema with every name written as a short one with its namespace, and primitive types as objects."""
    if isinstance(node, str):
        return {"type": node} if node in PRIMITIVES else node
    if isinstance(node, list):
        return [respelled(each, namespace) for each in node]
    if not defines(node):
        return {
            key: respelled(value, namespace) if key in ("items", "values") else value for key, value in node.items()
        }
    space, _, short = declared(node, namespace).rpartition(".")
    made = {"namespace": space, **node, "name": short}
    made["namespace"] = space
    if "fields" in node:
        made["fields"] = [{**each, "type": respelled(each["type"], space)} for each in node["fields"]]
    return made


@given(schemas(), schemas())
@settings(max_examples=20, derandomize=True, deadline=None, database=None)
def test_ways_of_writing_a_schema_have_one_form_and_other_schemas_have_another(schema: Schema, other: Schema) -> None:
    again = respelled(schema.to_json())
    assert schema_of(json.dumps(again), ()) == schema
    assert normal(again) == normal(schema.to_json())
    assert (normal(other.to_json()) == normal(schema.to_json())) is (other == schema)
