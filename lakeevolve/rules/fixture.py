"""Records that a contract commits to, with what its consumer has to get of each: run at every check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lakeevolve.avro.resolution import resolve
from lakeevolve.errors import ConfigError, SchemaError, ValueMismatch
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Json

if TYPE_CHECKING:
    from lakeevolve.rules.contract import Contract

#: What a fixture may expect besides a record.
HELD: Final = "contract-update-required"
UNREADABLE: Final = "cannot-read"

_KEYS: Final = frozenset({"version", "record", "expect"})


@dataclass(frozen=True, slots=True)
class Fixture:
    """One record with what the consumer has to get of it. ``version`` None: the candidate's."""

    record: Json
    expect: Json
    version: int | None = None

    def to_json(self) -> dict[str, Any]:
        found = {"record": self.record, "expect": self.expect}
        return found if self.version is None else {"version": self.version, **found}


def fixtures_of(given: Any, where: str) -> tuple[Fixture, ...]:
    """The fixtures of a contract's file. Raises ``ConfigError`` where one is none."""
    found = []
    for each in given if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else [None]:
        version = each.get("version") if isinstance(each, Mapping) else None
        if (
            not isinstance(each, Mapping)
            or set(each) - _KEYS
            or not {"record", "expect"} <= set(each)
            or not (version is None or (isinstance(version, int) and not isinstance(version, bool) and version > 0))
            or not isinstance(each["record"], Mapping)
            or not (isinstance(each["expect"], Mapping) or each["expect"] in (HELD, UNREADABLE))
        ):
            raise ConfigError(
                "a fixture of a contract has a record and what is expected of it",
                where=where,
                hint=f"fixtures: [{{version: 1, record: {{...}}, expect: {{...}}}}]; or expect: {HELD}, {UNREADABLE}",
            )
        found.append(Fixture(dict(each["record"]), each["expect"], version))
    return tuple(found)


def judge(contract: Contract, candidate: Schema, history: Sequence[Schema]) -> Iterator[tuple[str, str, str]]:
    """The fixtures that come to something else than they expect: the path, which one it is, and what is wrong."""
    versions = [*history, candidate]
    for place, fixture in enumerate(contract.fixtures, 1):
        number = len(versions) if fixture.version is None else fixture.version
        if number > len(versions):
            # Its version is yet to come.
            continue
        said, path = _said(contract, fixture, versions[number - 1], number)
        if said is not None:
            name = f"fixture {place}"
            yield path, name, f"{contract.name}, {name} (version {number}): {said}"


def _said(contract: Contract, fixture: Fixture, writer: Schema, number: int) -> tuple[str | None, str]:
    """What is otherwise than expected, without any value, and where; None for nothing."""
    if not contract.accepts_version(number):
        return (None if fixture.expect == HELD else "its version is not accepted, so it is held back"), ""
    if fixture.expect == HELD:
        return "its version is accepted, so it is not held back", ""
    try:
        resolution = resolve(writer, contract.reader_for(writer))
    except ConfigError as error:
        return (None if fixture.expect == UNREADABLE else error.what), error.where or ""
    wrong = next((each for each in resolution.incompatibilities if not each.value_level), None)
    if wrong is not None:
        return (None if fixture.expect == UNREADABLE else f"it cannot be read: {wrong.message}"), wrong.path
    # Arrow is loaded only where there is a record to be read.
    one = import_module("lakeevolve.avro.arrow.one")
    try:
        if fixture.expect == UNREADABLE:
            return ("it can be read" if one.readable(resolution, fixture.record) else None), ""
        path = one.first_difference(resolution, fixture.record, fixture.expect)
    except ValueMismatch as error:
        return "it cannot be read", error.path
    except SchemaError:
        return "the record is none of its version, or what is expected is none of the consumer's schema", ""
    return (None, "") if path is None else ("it reads otherwise than expected", path)
