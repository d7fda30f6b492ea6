"""Rules about contracts: what one consumer declared that it reads, held against a candidate schema.

A contract names the fields that a consumer relies on (or its whole reader schema), the schema versions it accepts and
the version of its results. Fields it does not name may come and go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import ConfigError, LakeEvolveError
from lakeevolve.model import path as paths
from lakeevolve.model.digest import canonical_json, type_json
from lakeevolve.model.find import find_field
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import NULL, AvroType, Field, Json, Record, Union, describe, is_null, without_null
from lakeevolve.model.value import value
from lakeevolve.rules import fixture
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.fixture import Fixture
from lakeevolve.rules.meaning import MEANING
from lakeevolve.rules.rule import Rule

FIELD_GONE = Rule(
    "CONTRACT-FIELD-GONE",
    "error",
    "A field that a consumer relies on is gone",
    "The consumer declared that it reads the field, and new rows have none. It fails, or reads a default as if it were "
    "data.",
    "the contract names total, the schema has no total any more",
    "keep the field, or agree on a new version of the contract with its owner",
)
CANNOT_READ = Rule(
    "CONTRACT-CANNOT-READ",
    "error",
    "A consumer cannot read new rows",
    "The schema that the consumer declared does not resolve with the candidate as the writer.",
    "the contract reads amount as a double, the schema writes a string",
    "keep a type that the consumer can read, or agree on a new version of the contract with its owner",
)
OPTIONAL = Rule(
    "CONTRACT-FIELD-OPTIONAL",
    "error",
    "A field that a consumer requires may be null",
    "The consumer declared that every row has a value, and the candidate allows null.",
    "the contract requires customer, whose type becomes [null, string]",
    "keep the field free of null, or agree on a new version of the contract with its owner",
)
MEANING_CHANGED = Rule(
    "CONTRACT-MEANING-CHANGED",
    "error",
    "A field no longer means what a consumer takes it for",
    "The type is the same, so nothing fails: the consumer's results are wrong without a sign.",
    "the contract takes amount for EUR, the schema says USD",
    "add a field with the new meaning beside the old one",
)
UPDATE_REQUIRED = Rule(
    "CONTRACT-UPDATE-REQUIRED",
    "warning",
    "A consumer has not accepted this version",
    "The contract lists the versions that its consumer was tested with. Rows of another one are held back from it "
    "until its owner adds the version: contract-update-required.",
    "the contract accepts the versions 1 and 2, the candidate is version 3",
    "add the version to the contract once its consumer has been tested with it",
)

FIXTURE_DIFFERS = Rule(
    "CONTRACT-FIXTURE-DIFFERS",
    "error",
    "A committed record no longer reads as a consumer expects",
    "The contract holds a record of some version and what the consumer has to get of it. With this schema it gets "
    "something else, cannot read it, or the record is none of its version.",
    "the contract expects total 3.0 of an old record, whose amount is no longer an alias of total",
    "keep what the consumer reads, or agree on the fixture with its owner",
)

RULES = (FIELD_GONE, CANNOT_READ, OPTIONAL, MEANING_CHANGED, UPDATE_REQUIRED, FIXTURE_DIFFERS)

#: What becomes of rows whose version a contract does not list.
HELD_BACK: Final = fixture.HELD

_KEYS: Final = frozenset(
    {
        "contract",
        "owner",
        "subject",
        "reader",
        "fields",
        "accepts",
        "mode",
        "result",
        "event_id",
        "description",
        "fixtures",
    }
)
_FIELD_KEYS: Final = frozenset({"path", "type", "required", "meaning"})


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StableField:
    """A field that a consumer relies on. ``type`` None: whatever type the field has."""

    path: str
    type: AvroType | None = None
    required: bool = False
    meaning: Json = None

    def to_json(self) -> dict[str, Any]:
        found = {
            "path": self.path,
            "type": None if self.type is None else type_json(self.type),
            "required": self.required,
            "meaning": self.meaning,
        }
        return {key: value for key, value in found.items() if value is not None and value is not False}


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Line:
    """One line of a review: a field, what becomes of it for the consumer, and why that is safe or who breaks."""

    direction: Literal["backward", "forward"]
    path: str
    stable: bool
    action: str
    safe: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        return {
            "direction": self.direction,
            "path": self.path,
            "stable": self.stable,
            "action": self.action,
            "safe": self.safe,
            "why": self.why,
        }


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contract:
    """What one consumer declared that it reads.

    Parameters
    ----------
    name, owner, subject:
        Who reads what, and who answers for it.
    reader:
        The schema that the consumer reads with; None where ``fields`` say it.
    fields:
        The fields it relies on.
    accepts:
        The schema versions it was tested with; empty accepts every one.
    result:
        The name and version of its results, such as ``orders-projection.2``.
    event_id:
        The path of the field that tells events apart, if there is one.
    fixtures:
        Records with what the consumer has to get of each.
    """

    name: str
    owner: str = ""
    subject: str = ""
    reader: Schema | None = None
    fields: tuple[StableField, ...] = ()
    accepts: tuple[int, ...] = ()
    mode: str | None = None
    result: str = ""
    event_id: str | None = None
    fixtures: tuple[Fixture, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The contract as its file has it, a reader schema written out: ``load_contract`` gives it back."""
        found: dict[str, Any] = {
            "contract": self.name,
            "owner": self.owner,
            "subject": self.subject,
            "reader": None if self.reader is None else self.reader.to_json(),
            "fields": [each.to_json() for each in self.fields],
            "accepts": list(self.accepts),
            "mode": self.mode,
            "result": self.result,
            "event_id": self.event_id,
            "fixtures": [each.to_json() for each in self.fixtures],
        }
        return {key: value for key, value in found.items() if value}

    def accepts_version(self, number: int) -> bool:
        return not self.accepts or number in self.accepts

    def reader_for(self, writer: Schema) -> Schema:
        """The schema that the consumer reads rows of *writer* with: its own, or that of its fields alone.

        Raises ``ConfigError`` where the writer has not a field that the contract names.
        """
        if self.reader is not None:
            return self.reader
        missing = [each.path for each in self.fields if find_field(writer.root, each.path) is None]
        if missing:
            raise ConfigError(
                f"the contract {self.name} names a field that the schema has not", where=missing[0], hint=FIELD_GONE.fix
            )
        wanted = {each.path: each for each in self.fields}
        return Schema(_only(writer.record, "", wanted))

    def judge(self, candidate: Schema, history: Sequence[Schema], subject: str) -> Iterator[Finding]:
        """What stands between this consumer and rows of a candidate schema."""
        if self.subject and subject and self.subject != subject:
            return
        who = f"the consumer {self.name}" + (f" (owner: {self.owner})" if self.owner else "")
        run = [
            FIXTURE_DIFFERS.finding(path, it, it, said) for path, it, said in fixture.judge(self, candidate, history)
        ]
        for found in (*self._judged(candidate, len(history) + 1), *run):
            yield replace(found, breaks=who, consumers=(self.name,), subject=subject)

    def _judged(self, candidate: Schema, number: int) -> Iterator[Finding]:
        for each in self.fields:
            yield from _field(each, candidate, self.name)
        if self.reader is not None:
            for wrong in resolve(candidate, self.reader).incompatibilities:
                yield CANNOT_READ.finding(wrong.path, None, None, f"{self.name} cannot read it: {wrong.message}")
        if not self.accepts_version(number):
            yield UPDATE_REQUIRED.finding(
                "", None, None, f"version {number} is not among those that {self.name} accepts: {HELD_BACK}"
            )

    def review(self, writer: Schema, earlier: Schema | None = None) -> tuple[Line, ...]:
        """Field by field what the consumer gets of rows of *writer*; with *earlier* also what the producers' new rows
        hold beside that schema (the forward direction)."""
        lines = list(self._reviewed(writer, "backward"))
        if earlier is not None:
            lines += self._reviewed(earlier, "forward")
        return tuple(lines)

    def _reviewed(self, writer: Schema, direction: Literal["backward", "forward"]) -> Iterator[Line]:
        stable = {each.path for each in self.fields}
        if self.reader is not None:
            stable = {paths.child("", f.name) for f in self.reader.fields}
        for each in self.fields:
            if find_field(writer.root, each.path) is None:
                yield Line(direction, each.path, True, "gone", False, f"{self.name} breaks: {FIELD_GONE.title.lower()}")
        known = [each for each in self.fields if find_field(writer.root, each.path) is not None]
        reader = self.reader if self.reader is not None else replace(self, fields=tuple(known)).reader_for(writer)
        resolution = resolve(writer, reader)
        broken = {wrong.path: wrong.message for wrong in resolution.incompatibilities}
        for row in resolution.explain():
            wrong = broken.get(row.path)
            safe = wrong is None and row.action != "incompatible"
            why = f"{self.name} breaks: {wrong}" if wrong else _SAFE.get(row.action, row.detail)
            yield Line(direction, row.path, row.path in stable and row.action != "skipped", row.action, safe, why)


_SAFE: Final[Mapping[str, str]] = {
    "read": "the value is read as it stands",
    "promoted": "Avro converts the value without loss of meaning",
    "renamed": "an alias leads to the field",
    "filled with its default": "the reader's own default stands in",
    "filled with null": "the reader takes null for it",
    "skipped": "the consumer does not read it",
}


def _field(stable: StableField, candidate: Schema, name: str) -> Iterator[Finding]:
    field = find_field(candidate.root, stable.path)
    if field is None:
        yield FIELD_GONE.finding(stable.path, _text(stable.type), None, f"{name} relies on the field")
        return
    if stable.required and _nullable(field.type):
        yield OPTIONAL.finding(
            stable.path, None, describe(field.type), f"{name} requires a value, and null is allowed here"
        )
    if stable.type is not None:
        one, two = (Schema(Record("Contract", (Field("value", t),))) for t in (field.type, _wanted(stable, field)))
        for wrong in resolve(one, two).incompatibilities:
            yield CANNOT_READ.finding(
                stable.path, _text(stable.type), describe(field.type), f"{name} cannot read it: {wrong.message}"
            )
    if stable.meaning is not None:
        bare = without_null(field.type)
        stated = field.props.get(MEANING, getattr(bare, "props", {}).get(MEANING))
        if stated is not None and stated != stable.meaning:
            yield MEANING_CHANGED.finding(
                stable.path, canonical_json(stable.meaning), canonical_json(stated), f"{name} takes it for another"
            )


def _wanted(stable: StableField, field: Field) -> AvroType:
    """The type that the consumer reads a field as: null is its own rule's matter."""
    assert stable.type is not None
    if _nullable(field.type) and not _nullable(stable.type):
        inner = stable.type.branches if isinstance(stable.type, Union) else (stable.type,)
        return Union((NULL, *inner))
    return stable.type


def _nullable(type_: AvroType) -> bool:
    return is_null(type_) or (isinstance(type_, Union) and type_.nullable)


def _text(type_: AvroType | None) -> str | None:
    return None if type_ is None else describe(type_)


def _only(record: Record, at: str, wanted: Mapping[str, StableField]) -> Record:
    """The record with the wanted fields alone."""
    fields = []
    for field in record.fields:
        path = paths.child(at, field.name)
        if path in wanted:
            fields.append(replace(field, type=wanted[path].type or field.type))
        elif any(paths.within(each, path) for each in wanted):
            bare = without_null(field.type)
            if not isinstance(bare, Record):
                raise ConfigError(
                    "a contract names fields of records, not of lists, maps or unions",
                    where=path,
                    hint="name the whole field, or give a reader schema",
                )
            inner = _only(bare, path, wanted)
            fields.append(replace(field, type=Union((NULL, inner)) if bare is not field.type else inner))
    return replace(record, fields=tuple(fields))


# --- files --------------------------------------------------------------------------------------------------------


def load_contract(source: str | Path | Mapping[str, Any] | Contract) -> Contract:
    """A contract from its file (YAML or JSON), or from what stands in one.

    ``{contract: name, owner, subject, reader: source | fields: [{path, type, required, meaning}], accepts: [versions],
    mode, result, event_id, fixtures: [{version, record, expect}]}``. A ``reader`` that is a path is found from the
    contract's folder.

    Raises
    ------
    ConfigError
        It is no contract.

    Examples
    --------
    >>> load_contract({"contract": "billing", "fields": [{"path": "total", "required": True}], "accepts": [1, 2]}).name
    'billing'
    """
    if isinstance(source, Contract):
        return source
    folder: Path | None = None
    record: Any = source
    where = "the contract"
    if isinstance(source, str | Path):
        from lakeevolve.config.document import read

        folder, where = Path(source).parent, str(source)
        record = read(source).value
    if not isinstance(record, Mapping) or not isinstance(record.get("contract"), str):
        raise ConfigError("a contract says whose it is: contract: NAME", where=where, hint="see docs/reference")
    unknown = sorted(set(record) - _KEYS)
    if unknown:
        raise ConfigError(f"a contract has no {unknown[0]!r}", where=where, hint="known: " + ", ".join(sorted(_KEYS)))
    reader, fields = record.get("reader"), record.get("fields") or ()
    if (reader is None) == (not fields):
        raise ConfigError("a contract names either a reader schema or fields", where=where, hint="give one of the two")
    accepts = record.get("accepts") or ()
    if isinstance(accepts, str) or not all(isinstance(n, int) and not isinstance(n, bool) for n in accepts):
        raise ConfigError("accepts lists the numbers of versions", where=where, hint="accepts: [1, 2]")
    return Contract(
        record["contract"],
        str(record.get("owner") or ""),
        str(record.get("subject") or ""),
        None if reader is None else _schema(reader, folder),
        tuple(_stable(each, where) for each in fields),
        tuple(accepts),
        record.get("mode"),
        str(record.get("result") or f"{record['contract']}.1"),
        record.get("event_id"),
        fixture.fixtures_of(record.get("fixtures") or (), where),
    )


def load_contracts(sources: Iterable[Any]) -> tuple[Contract, ...]:
    """Contracts, each from its file or from what stands in one."""
    return tuple(load_contract(each) for each in sources)


def _schema(source: Any, folder: Path | None) -> Schema:
    from lakeevolve.sources import load

    if isinstance(source, str) and folder is not None and (folder / source).is_file():
        source = folder / source
    return load(source)


def _stable(record: Any, where: str) -> StableField:
    if not isinstance(record, Mapping) or not isinstance(record.get("path"), str) or set(record) - _FIELD_KEYS:
        raise ConfigError(
            "a field of a contract has a path, and may have type, required and meaning", where=where, hint="path: total"
        )
    type_ = record.get("type")
    try:
        paths.parts(record["path"])
        found = None if type_ is None else _type(type_)
    except (ValueError, LakeEvolveError) as error:
        raise ConfigError(
            f"the contract's field {record['path']} cannot be read", where=where, hint="path: a.b, type: an Avro type"
        ) from error
    return StableField(record["path"], found, bool(record.get("required", False)), record.get("meaning"))


def _type(source: Any) -> AvroType:
    from lakeevolve.avro.parse import parse

    return parse(source if isinstance(source, dict | list) else json.dumps(source)).root
