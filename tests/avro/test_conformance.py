"""Verdicts, kinds, locations and messages against those of Avro Java 1.12.1, recorded in ``tests/conformance``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeevolve.avro.nodes import Incompatibility
from lakeevolve.avro.parse import parse
from lakeevolve.avro.resolution import Resolution, resolve
from lakeevolve.errors import SchemaError

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
PAIRS: dict[str, dict[str, Any]] = {
    record["id"]: record
    for record in map(json.loads, (CONFORMANCE / "avro_pairs.jsonl").read_text(encoding="utf-8").splitlines())
}
MODES: list[dict[str, Any]] = [
    json.loads(line) for line in (CONFORMANCE / "compatibility_modes.jsonl").read_text(encoding="utf-8").splitlines()
]
Found = set[tuple[str, str]]

#: What Java's own parser refuses: the default of an enum, or a symbol given twice.
UNPARSABLE = {"c0650", "c0673", "c1336"}

#: Deliberate departures. The key names the row of the fact sheet "Avro resolution: oracles, agreement,
#: disagreements", section 4; per pair, what is found here.
DEPARTURES: dict[str, dict[str, Found]] = {
    "row 6: nothing is kept that was found under an assumption that failed": {
        "c0969": {("MISSING_UNION_BRANCH", "/fields/0/type"), ("MISSING_UNION_BRANCH", "/fields/1/type/1")},
        "c0970": {
            ("TYPE_MISMATCH", "/fields/0/type/0/fields/1/type"),
            ("MISSING_UNION_BRANCH", "/fields/0/type/1/fields/0/type/1"),
            ("MISSING_UNION_BRANCH", "/fields/1/type/1"),
        },
        "c0971": {("MISSING_UNION_BRANCH", "/fields/0/type"), ("MISSING_UNION_BRANCH", "/fields/1/type/1")},
        "c0972": {("MISSING_UNION_BRANCH", "/fields/0/type"), ("MISSING_UNION_BRANCH", "/fields/1/type/1")},
    },
    "row 15: an enum's default is not its field's, and the field's is what is missing": {
        "c0674": {("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")},
        "c1193": {("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0")},
    },
    "rows 17 and 18: a default that is needed has to be valid": {
        pair: {("INVALID_DEFAULT", "/fields/1")}
        for pair in (
            *("c0678", "c0810", "c0811", "c0812", "c0813", "c0814", "c0816", "c0818", "c0819"),
            *("c0820", "c0821", "c0822", "c0825", "c0826", "c0827"),
        )
    },
    "row 24: a swap of two names by aliases resolves, where Java's checker raises": {"c0842": set()},
    "row 25: of two fields that claim one, the first gets it": {
        "c0847": {("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")},
    },
}

ROOT, FIELD = {("LOGICAL_TYPE_MISMATCH", "/")}, {("LOGICAL_TYPE_MISMATCH", "/fields/0/type")}
BRANCH = {("LOGICAL_TYPE_MISMATCH", "/1")}

#: The further ones where the meaning of a value counts (``logical="check"``), which Java does not look at.
LOGICAL_DEPARTURES: dict[str, dict[str, Found]] = {
    "row 29: decimals match only if precision and scale do": {
        **dict.fromkeys(("c0977", "c0978", "c0981", "c0982", "c1003", "c1004", "c1007", "c1008"), ROOT),
        **dict.fromkeys(("c0979", "c0983", "c0984", "c1005", "c1006", "c1109"), FIELD),
        **dict.fromkeys(("c1119", "c1120"), BRANCH),
    },
    "row 30: a number or bytes of one meaning are not read with another": {
        **dict.fromkeys(("c0991", "c0992", "c1027", "c1031", "c1055", "c1056", "c1063", "c1075"), ROOT),
        **dict.fromkeys(("c0994", "c1029", "c1034", "c1046", "c1054", "c1057", "c1058"), FIELD),
        **dict.fromkeys(("c1065", "c1077", "c1078"), FIELD),
        "c1112": BRANCH,
    },
}
EXPECTED: dict[str, Found] = {pair: found for row in DEPARTURES.values() for pair, found in row.items()}
LOGICAL: dict[str, Found] = {pair: found for row in LOGICAL_DEPARTURES.values() for pair, found in row.items()}


def resolved(pair: str, logical: Any) -> Resolution:
    record = PAIRS[pair]
    return resolve(parse(record["writer"]), parse(record["reader"]), logical)


def java_found(pair: str) -> list[tuple[str, str, str]]:
    return sorted((i["type"], i["location"], i["message"]) for i in PAIRS[pair]["java_incompatibilities"])


def found(incompatibilities: tuple[Incompatibility, ...]) -> list[tuple[str, str, str]]:
    return sorted((i.kind, i.location, i.message) for i in incompatibilities)


def places(incompatibilities: tuple[Incompatibility, ...]) -> Found:
    return {(i.kind, i.location) for i in incompatibilities}


@pytest.mark.parametrize("pair", sorted(PAIRS.keys() - EXPECTED.keys() - UNPARSABLE))
def test_without_logical_types_the_answer_is_that_of_avro_java(pair: str) -> None:
    resolution = resolved(pair, "ignore")
    assert resolution.compatible == PAIRS[pair]["java_compatible"]
    assert found(resolution.incompatibilities) == java_found(pair)


@pytest.mark.parametrize("pair", sorted(PAIRS.keys() - EXPECTED.keys() - LOGICAL.keys() - UNPARSABLE))
def test_with_logical_types_it_is_the_same_wherever_meanings_agree(pair: str) -> None:
    assert found(resolved(pair, "check").incompatibilities) == java_found(pair)


@pytest.mark.parametrize("logical", ["ignore", "check"])
@pytest.mark.parametrize("pair", sorted(EXPECTED))
def test_a_departure_from_avro_java_is_as_declared(pair: str, logical: str) -> None:
    resolution = resolved(pair, logical)
    assert places(resolution.incompatibilities) == EXPECTED[pair]
    assert (resolution.compatible, found(resolution.incompatibilities)) != (
        PAIRS[pair]["java_compatible"],
        java_found(pair),
    )


@pytest.mark.parametrize("pair", sorted(LOGICAL))
def test_a_change_of_meaning_is_as_declared_and_java_allows_it(pair: str) -> None:
    assert PAIRS[pair]["java_compatible"]
    assert resolved(pair, "ignore").compatible
    assert places(resolved(pair, "check").incompatibilities) == LOGICAL[pair]


@pytest.mark.parametrize("pair", sorted(UNPARSABLE))
def test_what_java_cannot_parse_is_refused_and_read_leniently(pair: str) -> None:
    record = PAIRS[pair]
    assert record["java_compatible"] is None
    with pytest.raises(SchemaError):
        resolved(pair, "check")
    writer, reader = (parse(record[side], lenient=True) for side in ("writer", "reader"))
    assert writer.warnings or reader.warnings
    assert places(resolve(writer, reader).incompatibilities) <= {
        ("MISSING_ENUM_SYMBOLS", "/symbols"),
        ("MISSING_ENUM_SYMBOLS", "/fields/0/type/symbols"),
        ("MISSING_ENUM_SYMBOLS", "/fields/3/type/symbols"),
    }


def readable(writer: Any, reader: Any) -> bool:
    return resolve(parse(writer), parse(reader)).compatible


def verdicts(versions: list[Any], candidate: Any) -> dict[str, bool]:
    """What each mode says, from nothing but resolutions in both directions."""
    backward = [readable(version, candidate) for version in versions]
    forward = [readable(candidate, version) for version in versions]
    return {
        "NONE": True,
        "BACKWARD": all(backward[-1:]),
        "FORWARD": all(forward[-1:]),
        "FULL": all(backward[-1:] + forward[-1:]),
        "BACKWARD_TRANSITIVE": all(backward),
        "FORWARD_TRANSITIVE": all(forward),
        "FULL_TRANSITIVE": all(backward + forward),
    }


@pytest.mark.parametrize("history", MODES, ids=[history["id"] for history in MODES])
def test_the_modes_of_a_history_follow_from_its_resolutions(history: dict[str, Any]) -> None:
    assert verdicts(history["versions"], history["candidate"]) == history["java_modes"]


def order(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *fields]}


AMOUNT = {"name": "amount", "type": "double"}
CURRENCY = {"name": "currency", "type": "string"}
SIX = {
    "add with a default": (order(AMOUNT, {**CURRENCY, "default": "EUR"}), "PPP"),
    "add without a default": (order(AMOUNT, CURRENCY), "FPF"),
    "remove": (order(), "PFF"),
    "rename without an alias": (order({**AMOUNT, "name": "total"}), "FFF"),
    "narrow double to int": (order({**AMOUNT, "type": "int"}), "FPF"),
    "double to string": (order({**AMOUNT, "type": "string"}), "FFF"),
}


@pytest.mark.parametrize(("candidate", "expected"), SIX.values(), ids=SIX)
def test_the_six_common_changes_pass_and_fail_in_each_mode(candidate: Any, expected: str) -> None:
    found = verdicts([order(AMOUNT)], candidate)
    assert "".join("P" if found[mode] else "F" for mode in ("BACKWARD", "FORWARD", "FULL")) == expected
