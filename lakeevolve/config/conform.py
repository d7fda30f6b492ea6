"""Whether a JSON value is what a JSON Schema says, for the schemas that this package publishes of its own files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def faults(value: Any, schema: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """What of *value* is not as the schema says: one sentence each, with its JSON path.

    Knows the keywords that our own schemas use: type, enum, pattern, minimum, minItems, maxItems, items, properties,
    required, additionalProperties and anyOf.

    >>> list(faults({"a": "x"}, {"type": "object", "properties": {"a": {"type": "integer"}}}))
    ['$.a is a string, not an integer']
    """
    if "anyOf" in schema:
        if all(any(True for _ in faults(value, each, at)) for each in schema["anyOf"]):
            yield f"{at} is none of what it may be"
        return
    allowed = schema.get("type")
    if allowed is not None:
        kinds = [allowed] if isinstance(allowed, str) else allowed
        if not any(_is(value, kind) for kind in kinds):
            yield f"{at} is {_kind(value)}, not {' or '.join(_article(kind) for kind in kinds)}"
            return
    if "enum" in schema and not any(
        value is each or (value == each and _same_kind(value, each)) for each in schema["enum"]
    ):
        yield f"{at} is none of {', '.join(str(each) for each in schema['enum'])}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at} is not of the form {schema['pattern']}"
    if _is(value, "number") and value < schema.get("minimum", value):
        yield f"{at} is below {schema['minimum']}"
    if isinstance(value, list):
        yield from _items(value, schema, at)
    if isinstance(value, dict):
        yield from _members(value, schema, at)


def _items(value: list[Any], schema: Mapping[str, Any], at: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{at} has {len(value)} items"
    for number, each in enumerate(value):
        yield from faults(each, schema.get("items", {}), f"{at}[{number}]")


def _members(value: dict[str, Any], schema: Mapping[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{at} lacks {key}"
    rest = schema.get("additionalProperties", {})
    for key, each in value.items():
        if key in known:
            yield from faults(each, known[key], f"{at}.{key}")
        elif rest is False:
            yield f"{at} has an unknown key {key}"
        else:
            yield from faults(each, rest, f"{at}.{key}")


def _is(value: Any, kind: str) -> bool:
    # In Python a boolean is an integer, in JSON it is none.
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _same_kind(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool)


def _kind(value: Any) -> str:
    return next(_article(kind) for kind in _TYPES if _is(value, kind))


def _article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
