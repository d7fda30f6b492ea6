"""JSON Schemas (2020-12) of everything that lakeevolve writes as JSON, for those who read it.

Objects may gain members in a minor version of the format, so none forbids further ones; a plan does, since it is read
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from lakeevolve.errors import ConfigError
from lakeevolve.planning.adoption import KINDS
from lakeevolve.planning.schema import PLAN

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_DIGEST: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PATHS: Final = {"type": "object", "additionalProperties": _TEXT}
_AVRO: Final = {"type": ["object", "array", "string"], "description": "An Avro schema."}
_FINDING: Final = PLAN["properties"]["findings"]["items"]
_CHANGE: Final = PLAN["properties"]["steps"]["items"]["properties"]["changes"]["items"]


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(schema), {"type": "null"}]}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _record(title: str, **properties: Any) -> dict[str, Any]:
    version = {"type": "string", "pattern": "^1\\."}
    return {"$schema": _DRAFT, "title": f"lakeevolve {title}", **_object(format_version=version, **properties)}


def _texts(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, _TEXT)


_MISREAD: Final = {
    **_texts("rule", "path", "reason", "reader"),
    "file": _or_null(_TEXT),
    "row": _or_null(_COUNT),
}
_MISMATCH: Final = _object(**_MISREAD, **_texts("expected_type", "actual_type"))
_READER_FAULT: Final = _object(**_MISREAD, fault=_TEXT, rows=_COUNT)
_IDENTITY: Final = _object(**_texts("uri", "format", "id"))
_EVIDENCE: Final = _object(
    format_version={"type": "integer", "enum": [1]},
    table=_IDENTITY,
    **{"from": _object(version=_COUNT, digest=_DIGEST)},
    to=_object(version=_COUNT, digest=_DIGEST),
    versions=_list({"type": "object"}),
    files=_list(_object(path=_TEXT, version=_COUNT, inferred=_FLAG, rows=_COUNT, digest=_TEXT)),
    mismatches=_list(_MISMATCH),
    readers=_list(_object(name=_TEXT)),
    predicates=_list({"type": "object"}),
    oracle={"type": "object"},
    consumers=_list({"type": "object"}),
    environment=_PATHS,
    seal=_TEXT,
)
_REPLAY: Final = _object(
    ok=_FLAG,
    files=_COUNT,
    rows=_COUNT,
    mismatched=_COUNT,
    mismatches=_list(_MISMATCH),
    reader_faults=_list(_READER_FAULT),
    findings=_list(_FINDING),
    notes=_list(_TEXT),
    evidence=_EVIDENCE,
)

_TOLD_CHANGE: Final = {**_CHANGE, "properties": {**_CHANGE["properties"], "text": _TEXT}}
#: How rows older than a version follow it.
_FOLLOWS: Final = dict.fromkeys(("fills", "renames", "routes"), _PATHS)
#: What is told of a version wherever it is.
_VERSION: Final = {
    "version": _COUNT,
    "by": {"type": "string", "enum": ["first", "plan", "rollback", "others"]},
    "approver": _or_null(_TEXT),
    "plan": _or_null(_DIGEST),
    "at": _or_null(_TEXT),
}
_REPLAYED: Final = _object(ok=_FLAG, files=_COUNT, rows=_COUNT, mismatched=_COUNT)
_VERDICTS: Final = _object(
    mode=_TEXT,
    fail_on=_TEXT,
    findings=_list(_object(rule=_TEXT, severity=_TEXT, path=_TEXT, fingerprint=_TEXT, waived_by=_or_null(_TEXT))),
)

#: Name -> what makes the schema of a file that people write; loaded when it is asked for.
FILES: Final[Mapping[str, str]] = {
    "config": "lakeevolve.config.load:project_schema",
    "approval": "lakeevolve.config.approvals:approval_schema",
}

#: Name -> the schema; the names are those of the commands whose ``--format json`` they describe.
SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "diff": _record(
        "diff",
        changes=_list(_TOLD_CHANGE),
        suggestions=_list(_object(old=_TEXT, new=_TEXT, reason=_TEXT, fix=_TEXT)),
    ),
    "check": _record(
        "check", mode=PLAN["properties"]["mode"], compatible=_FLAG, findings=_list(_FINDING), rollout=_list(_TEXT)
    ),
    "plan": PLAN,
    "apply": _record(
        "apply",
        plan=_DIGEST,
        status={"type": "string", "enum": ["applied", "already-applied", "nothing-to-do", "dry-run"]},
        version=_COUNT,
        rewritten=_COUNT,
        proof=_or_null(_REPLAY),
        replay=_or_null(_REPLAY),
        evidence=_or_null(_TEXT),
    ),
    "verify": _record("verify", **_REPLAY["properties"]),
    "replay": _record(
        "replay for a consumer",
        out=_TEXT,
        quarantine=_TEXT,
        contract=_TEXT,
        result_version=_TEXT,
        rows=_COUNT,
        versions={"type": "object", "additionalProperties": _COUNT},
        held=_list(
            _object(
                source=_TEXT,
                input_schema_version=_or_null(_COUNT),
                rows=_COUNT,
                verdict={"type": "string", "enum": ["contract-update-required", "cannot-read"]},
                path=_TEXT,
                row=_or_null(_COUNT),
                since=_or_null(_TEXT),
                until=_or_null(_TEXT),
                file=_or_null(_TEXT),
            )
        ),
        digest=_DIGEST,
        findings=_list(_FINDING),
    ),
    "lineage": _record(
        "lineage",
        uri=_TEXT,
        position=_or_null({"type": "integer"}),
        at=_or_null(_TEXT),
        files=_list(
            _object(
                file=_TEXT,
                rows=_COUNT,
                added_by=_or_null({"type": "integer"}),
                added_at=_or_null(_TEXT),
                version=_COUNT,
                inferred=_FLAG,
            )
        ),
        versions=_list(
            _object(
                version=_COUNT,
                schema=_DIGEST,
                plan=_or_null(_DIGEST),
                approver=_or_null(_TEXT),
                evidence=_or_null(_TEXT),
                seal=_or_null(_TEXT),
                contracts={"anyOf": [_list(_TEXT), {"type": "string", "enum": ["unknown"]}]},
            )
        ),
        rows=_object(registry_id=_TEXT, topic=_TEXT, partition=_TEXT, offset=_TEXT),
    ),
    "history": _record(
        "history",
        uri=_TEXT,
        findings=_list(_FINDING),
        rebuilt=_list(_TEXT),
        versions=_list(
            _object(
                **_VERSION,
                **_FOLLOWS,
                digest=_DIGEST,
                drift=_FLAG,
                changes=_list(_TOLD_CHANGE),
                verdicts=_or_null(_VERDICTS),
                replay=_or_null(_REPLAYED),
                ledger={"type": "string", "enum": ["none", "recorded", "rebuilt"]},
                restores=_or_null(_COUNT),
                derived=_FLAG,
                commit=_or_null({"type": "integer"}),
                schema=_AVRO,
            )
        ),
    ),
    "history-column": _record(
        "history of a column",
        uri=_TEXT,
        column=_TEXT,
        versions=_list(_object(**_VERSION, path=_or_null(_TEXT), type=_or_null(_TEXT), events=_list(_TEXT))),
    ),
    "ledger": _record(
        "ledger entry",
        lakeevolve=_TEXT,
        table=_IDENTITY,
        version=_COUNT,
        schema=_DIGEST,
        plan=_DIGEST,
        at=_or_null(_TEXT),
        **_FOLLOWS,
        changes=_list(_CHANGE),
        approver=_or_null(_TEXT),
        approval=_or_null(_object(approver=_TEXT, until=_TEXT, reason=_TEXT)),
        verdicts=_or_null(_VERDICTS),
        replay=_or_null(_REPLAYED),
        rebuilt=_FLAG,
        seal=_DIGEST,
    ),
    "project": _record(
        "project",
        project=_TEXT,
        kind={"type": "string", "enum": ["check", "plan", "verify", "apply"]},
        code=_COUNT,
        parts=_list(
            _object(
                subject=_TEXT,
                table=_or_null(_TEXT),
                code=_COUNT,
                error=_or_null(_object(what=_TEXT, where=_or_null(_TEXT), hint=_or_null(_TEXT), exit_code=_COUNT)),
                result=_or_null({"type": "object", "description": "As the command's own output is, for one table."}),
            )
        ),
        findings=_list(_FINDING),
        touched=_or_null(
            _object(
                base=_TEXT,
                files=_list(_object(file=_TEXT, subjects=_list(_object(subject=_TEXT, tables=_list(_TEXT))))),
                left_out=_list(_TEXT),
            )
        ),
    ),
    "registry-diff": _record(
        "subject against a table",
        subject=_TEXT,
        table=_TEXT,
        level=_TEXT,
        equal=_FLAG,
        table_version=_COUNT,
        versions=_list(_object(version=_COUNT, deleted=_FLAG, table_versions=_list(_COUNT))),
        changes=_list(_TOLD_CHANGE),
        findings=_list(_FINDING),
    ),
    "registry-subjects": _record(
        "subjects of a registry",
        registry=_TEXT,
        subjects=_list(
            _object(
                subject=_TEXT,
                versions=_list(_COUNT),
                deleted=_list(_COUNT),
                level=_TEXT,
                own_level=_FLAG,
                type=_TEXT,
                strategy=_or_null(_TEXT),
            )
        ),
    ),
    "registry-register": _record("registration", subject=_TEXT, version=_COUNT, id=_COUNT, new=_FLAG),
    "registry-uses": _record(
        "users of a subject",
        subject=_TEXT,
        users=_list(_object(subject=_TEXT, version=_COUNT, tables=_list(_TEXT))),
    ),
    "describe": _record(
        "description",
        uri=_TEXT,
        format={"type": "string", "enum": ["iceberg", "delta", "parquet"]},
        id=_TEXT,
        pin={"type": "object"},
        schema=_AVRO,
        versions=_list(_object(digest=_DIGEST, plan=_or_null(_DIGEST), derived=_FLAG, at=_or_null(_TEXT))),
        columns=_list({"type": "object", "properties": {"name": _TEXT}, "required": ["name", "type"]}),
        foreign=_list(_TEXT),
        partitioning={"type": "array"},
        features={"type": "object"},
        counts=_object(files=_COUNT, rows=_COUNT, bytes=_COUNT),
        planning={"type": ["object", "null"], "description": "What a plan is made from without the table."},
    ),
    "adopt": _record(
        "adoption",
        until=_TEXT,
        tables=_list(
            _object(
                table=_TEXT,
                **{"class": {"type": "string", "enum": list(KINDS)}},
                subject=_or_null(_TEXT),
                version=_or_null(_COUNT),
                newest=_or_null(_COUNT),
                mapping=_PATHS,
                foreign=_list(_TEXT),
                reasons=_list(_TEXT),
                baseline=_list(_FINDING),
                status=_TEXT,
            )
        ),
    ),
    "rules": {
        "$schema": _DRAFT,
        "title": "lakeevolve rules",
        **_list(_object(id=_TEXT, severity=_TEXT, title=_TEXT, rationale=_TEXT, example=_TEXT, fix=_TEXT)),
    },
    "evidence": {"$schema": _DRAFT, "title": "lakeevolve evidence", **_EVIDENCE},
    "finding": {"$schema": _DRAFT, "title": "lakeevolve finding", **_FINDING},
}


def schema_named(name: str) -> Mapping[str, Any]:
    """The JSON Schema of that name. Raises ``ConfigError`` where there is none."""
    if name in FILES:
        module, _, function = FILES[name].partition(":")
        made: Mapping[str, Any] = getattr(import_module(module), function)()
        return made
    if name not in SCHEMAS:
        raise ConfigError(f"there is no JSON Schema {name!r}", hint="one of " + ", ".join((*SCHEMAS, *FILES)))
    return SCHEMAS[name]
