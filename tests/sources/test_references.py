"""A schema whose types lie in several files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lakeevolve as le
from lakeevolve.errors import SchemaError
from lakeevolve.sources import load

ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "zip", "type": "string"}, {"name": "country", "type": "geo.Country"}],
}
COUNTRY = {"type": "enum", "name": "geo.Country", "symbols": ["DE", "FR"]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ship_to", "type": "Address"},
        {"name": "bill_to", "type": ["null", "shop.Address"], "default": None},
    ],
}
WHOLE = {
    **ORDER,
    "fields": [
        ORDER["fields"][0],
        {
            "name": "ship_to",
            "type": {**ADDRESS, "fields": [ADDRESS["fields"][0], {"name": "country", "type": COUNTRY}]},
        },
        ORDER["fields"][2],
    ],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, schema in (("Order", ORDER), ("Address", ADDRESS), ("geo.Country", COUNTRY)):
        Path(f"{name}.avsc").write_text(json.dumps(schema, indent=1))
    return tmp_path


def test_types_are_found_in_the_files_of_their_names(files: Path) -> None:
    found = load("Order.avsc")
    assert found == le.load(WHOLE)
    assert found.source == "Order.avsc"
    assert load("Order.avsc", lenient=True) == found
    assert load(files / "Order.avsc") == found


def test_lines_are_those_of_the_file_itself(files: Path) -> None:
    found = load("Order.avsc")
    text = Path("Order.avsc").read_text().splitlines()
    for name in ("id", "ship_to", "bill_to"):
        line = found.lines[name]
        assert name in "".join(text[line - 1 : line + 1])
    assert "ship_to.zip" not in found.lines


def test_an_error_in_the_file_itself_keeps_its_path(files: Path) -> None:
    wrong: dict[str, Any] = {**ORDER, "fields": [*ORDER["fields"], {"name": "x", "type": "nosuch"}]}
    Path("Order.avsc").write_text(json.dumps(wrong))
    with pytest.raises(SchemaError) as caught:
        load("Order.avsc")
    assert "nosuch" in caught.value.what or "Address" in caught.value.what
    wrong["fields"][-1] = {"name": "x"}
    Path("Order.avsc").write_text(json.dumps(wrong))
    with pytest.raises(SchemaError) as caught:
        load("Order.avsc")
    assert "$.fields[3]" in str(caught.value.where)


def test_a_file_of_that_name_with_another_type_is_not_taken(files: Path) -> None:
    Path("Address.avsc").write_text(json.dumps({**ADDRESS, "namespace": "other"}))
    with pytest.raises(SchemaError, match="unknown type"):
        load("Order.avsc")
    Path("Address.avsc").write_text("not json")
    with pytest.raises(SchemaError, match="unknown type"):
        load("Order.avsc")


def test_files_that_use_each_other_in_a_circle_are_refused(files: Path) -> None:
    Path("geo.Country.avsc").write_text(
        json.dumps({"type": "record", "name": "geo.Country", "fields": [{"name": "a", "type": "shop.Address"}]})
    )
    with pytest.raises(SchemaError, match="unknown type"):
        load("Order.avsc")


def test_types_of_other_files_are_found_at_a_revision_too(files: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], check=True)
    Path("Address.avsc").unlink()
    assert load("git:HEAD:Order.avsc") == le.load(WHOLE)
    with pytest.raises(SchemaError, match="unknown type"):
        load("Order.avsc")


def test_two_files_that_use_each_others_types_are_told_so(files: Path) -> None:
    back = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "of", "type": "Order"}]}
    Path("Address.avsc").write_text(json.dumps(back))
    with pytest.raises(SchemaError, match="each other") as caught:
        load("Order.avsc")
    assert "in the type shop.Address" in str(caught.value.where)
    assert "$.fields[0].type" in str(caught.value.where)


def test_an_error_in_another_file_names_its_type(files: Path) -> None:
    Path("Address.avsc").write_text(json.dumps({**ADDRESS, "fields": [{"type": "string"}]}))
    with pytest.raises(SchemaError) as caught:
        load("Order.avsc")
    assert "in the type shop.Address that it uses: $.fields[0]" in str(caught.value.where)


def test_a_type_that_is_nowhere_may_be_defined_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_text(json.dumps({**ORDER, "fields": [{"name": "x", "type": "Adress"}]}))
    with pytest.raises(SchemaError) as caught:
        load(file)
    assert "beside this one" in str(caught.value.hint)


def test_types_that_versions_use_are_no_versions(files: Path) -> None:
    from lakeevolve.sources import expand

    Path("Order.avsc").rename("v1.avsc")
    wider = {**ORDER, "fields": [*ORDER["fields"], {"name": "n", "type": "int", "default": 0}]}
    Path("v2.avsc").write_text(json.dumps(wider))
    assert [path.name for path in expand(".")] == ["v1.avsc", "v2.avsc"]
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], check=True)
    assert expand("git:HEAD:./") == ["git:HEAD:./v1.avsc", "git:HEAD:./v2.avsc"]
    assert le.check(wider | {"fields": [ORDER["fields"][0]]}, ".").compatible
    Path("v3.avsc").write_text("broken")
    assert [Path(path).name for path in expand(".")] == ["v1.avsc", "v2.avsc", "v3.avsc"]


@pytest.mark.parametrize("fields", [5, "x", {"name": "a"}, True])
@pytest.mark.parametrize("broken", ["Order", "Address"])
def test_fields_that_are_no_list_are_named_in_either_file(files: Path, broken: str, fields: Any) -> None:
    whole = json.loads((files / f"{broken}.avsc").read_text())
    (files / f"{broken}.avsc").write_text(json.dumps({**whole, "fields": fields}))
    with pytest.raises(SchemaError, match="fields"):
        load("Order.avsc")
