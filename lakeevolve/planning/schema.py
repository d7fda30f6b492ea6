"""The JSON Schema of a saved plan: published for others, and what a file is held against when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from lakeevolve.model.change import Change
from lakeevolve.model.change_json import change_name
from lakeevolve.rules.findings import SEVERITIES
from lakeevolve.rules.modes import MODES

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_DIGEST: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PAIRS: Final = {"type": "array", "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


_FILL: Final = _one_of("default", "null")
_COST: Final = _object(files=_NUMBER, rows=_NUMBER, bytes=_NUMBER)
_PERMITS: Final = ("rewrite", "backfill", "drop", "protocol-upgrade", None)
_PRECONDITIONS: Final = (
    "no-nulls",
    "symbol-unused",
    "branch-unused",
    "resolves",
    "symbols-known",
    "values-valid",
    None,
)

_STEP: Final = _object(
    id=_TEXT,
    route=_one_of("metadata", "backfill", "rewrite", "external", "refuse"),
    via=_TEXT,
    permit={"type": ["string", "null"], "enum": list(_PERMITS)},
    changes={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"change": _one_of(*(change_name(kind) for kind in get_args(Change))), "path": _TEXT},
            "required": ["change", "path"],
        },
    },
    reason=_TEXT,
    irreversible={"type": "boolean"},
    readers={"type": "array", "items": _TEXT},
    precondition={"type": ["string", "null"], "enum": list(_PRECONDITIONS)},
)

_FINDING: Final = _object(
    rule=_TEXT,
    severity=_one_of(*SEVERITIES),
    path=_TEXT,
    **{"from": _or_null(_TEXT)},
    to=_or_null(_TEXT),
    message=_TEXT,
    breaks=_TEXT,
    fix=_TEXT,
    versions={"type": "array", "items": _NUMBER},
    consumers={"type": "array", "items": _TEXT},
    subject=_TEXT,
    file=_or_null(_TEXT),
    line=_or_null(_NUMBER),
    fingerprint=_TEXT,
    waived={"type": "boolean"},
)

#: A plan as ``lakeevolve plan --out`` writes it, as JSON Schema (2020-12).
PLAN: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "lakeevolve plan",
    **_object(
        format_version={"type": "string", "pattern": "^1\\."},
        digest=_DIGEST,
        lakeevolve=_TEXT,
        table=_object(uri=_TEXT, format=_one_of("iceberg", "delta", "parquet"), id=_TEXT),
        pin={"type": "object"},
        **{"from": _object(version=_NUMBER, digest=_DIGEST)},
        target=_object(schema={}, digest=_DIGEST, version=_NUMBER),
        mode=_one_of(*MODES),
        old_rows={"anyOf": [_FILL, {"type": "object", "additionalProperties": _FILL}]},
        steps={"type": "array", "items": _STEP},
        findings={"type": "array", "items": _FINDING},
        fail_on=_one_of(*SEVERITIES, "never"),
        inputs=_object(
            renames=_PAIRS,
            not_renames=_PAIRS,
            routes={"type": "object", "additionalProperties": _TEXT},
            limits={
                "type": "object",
                "properties": {"max_rewrite_bytes": _NUMBER, "max_files": _NUMBER},
                "additionalProperties": False,
            },
            subject=_TEXT,
            pin=_one_of("schema", "data"),
            foreign={"type": "array", "items": _TEXT},
            contracts={"type": "array", "items": {"type": "object"}},
            reverts=_or_null(_DIGEST),
            narrow={"type": "array", "items": _TEXT},
            severity={"type": "object", "additionalProperties": _one_of(*SEVERITIES, "off")},
            waivers={
                "type": "array",
                "items": _object(
                    fingerprint=_TEXT,
                    reason=_TEXT,
                    approver=_TEXT,
                    until={"type": ["string", "null"], "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                ),
            },
        ),
        consumers={"type": "array"},
        rollout={"type": "array", "items": _TEXT},
        estimate=_object(
            position={"type": ["integer", "null"]},
            described={"type": "boolean"},
            read=_COST,
            written=_COST,
            temporary_bytes=_NUMBER,
            writers={"type": "array", "items": _object(at=_or_null(_TEXT), operation=_TEXT, by=_TEXT)},
            steps={"type": "object", "additionalProperties": _COST},
        ),
    ),
}
