"""``lakeevolve.yaml``: what it says, and what is said of its faults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeevolve.config.find import NAME, find
from lakeevolve.config.load import load_project, parse_project, project_schema
from lakeevolve.config.project import Limits, TableOptions
from lakeevolve.errors import ConfigError, InvalidConfig
from lakeevolve.rules.modes import MODES

FULL = """\
version: 1
state: state/here            # a folder, or s3://bucket/prefix

subjects:
  orders:
    source: schemas/orders.avsc
    mode: FULL_TRANSITIVE
    tables: [delta:lake/orders, "iceberg:prod/shop.orders"]
    contracts: []
    renames: {amount: total}
    not_renames: [[note, remark]]
  customers:
    source: git:main:schemas/customers.avsc

tables:
  "delta:*":
    old_rows: default
    limits: {max_rewrite_bytes: 10 GiB, max_files: 5000}
  "*orders":
    old_rows: {currency: null, "*": default}
    routes: {currency: backfill}
    limits: {max_files: 10}
    pin: data

policy:
  severity: {FIELD-REORDERED: off, FIELD-ADDED-NO-DEFAULT: warning}
  fail_on: warning
  waivers:
    - fingerprint: 0123456789abcdef
      reason: the report is being replaced
      approver: ann@example.com
      until: 2027-01-31
"""


def faults(text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        parse_project(text, NAME)
    return list(caught.value.faults)


def test_every_part_of_the_file_is_read() -> None:
    entry = parse_project(FULL).entry
    orders = entry.subjects["orders"]
    assert (orders.mode, orders.renames, orders.not_renames) == (
        "FULL_TRANSITIVE",
        {"amount": "total"},
        (("note", "remark"),),
    )
    assert orders.tables == ("delta:lake/orders", "iceberg:prod/shop.orders")
    assert entry.subjects["customers"].mode == "BACKWARD"
    assert entry.policy.fail_on == "warning"
    assert entry.policy.waivers[0].until == date(2027, 1, 31)


def test_words_of_yaml_1_1_are_the_texts_that_they_look_like() -> None:
    assert parse_project(FULL).entry.policy.severity["FIELD-REORDERED"] == "off"
    project = parse_project('version: 1\nsubjects: {no: {source: "on"}, yes: {source: 12:30}}\n')
    assert {name: subject.source for name, subject in project.entry.subjects.items()} == {"no": "on", "yes": "12:30"}


@pytest.mark.parametrize("digits", ["1234567890123456", "12345678901234e5", "0123456789012345"])
def test_a_fingerprint_that_looks_like_a_number_is_a_text(digits: str) -> None:
    assert parse_project(FULL.replace("0123456789abcdef", digits)).entry.policy.waivers[0].fingerprint == digits


def test_null_under_old_rows_is_the_word_null_and_nothing_at_all_is_a_fault() -> None:
    assert parse_project("version: 1\ntables: {a: {old_rows: null}}\n").entry.tables["a"].old_rows == "null"
    assert faults("version: 1\ntables:\n  a:\n    old_rows:\n") == [
        "lakeevolve.yaml:4: tables.a.old_rows has no value; write default or null"
    ]


def test_all_patterns_that_match_apply_and_a_later_one_wins_key_by_key() -> None:
    options = parse_project(FULL).options("delta:lake/orders")
    assert options.limits == Limits(max_rewrite_bytes=10 * 1024**3, max_files=10)
    assert options.old_rows == {"currency": "null", "*": "default"}
    assert (options.pin, options.routes) == ("data", {"currency": "backfill"})
    assert parse_project(FULL).options("iceberg:prod/shop.items") == TableOptions()


def test_a_pattern_that_matches_no_table_is_known() -> None:
    assert parse_project(FULL).unused_tables() == ()
    text = FULL.replace('"delta:*"', '"delta:lake/ordrs"')
    assert parse_project(text).unused_tables() == ("delta:lake/ordrs",)


@pytest.mark.parametrize(
    ("text", "bytes_"), [("1000", 1000), ("1 kB", 1000), ("1.5 GiB", 3 * 512 * 1024**2), ("2T", 2 * 10**12)]
)
def test_sizes_are_bytes_or_have_a_unit(text: str, bytes_: int) -> None:
    project = parse_project(f"version: 1\ntables: {{a: {{limits: {{max_rewrite_bytes: {text}}}}}}}\n")
    assert project.entry.tables["a"].limits.max_rewrite_bytes == bytes_


@pytest.mark.parametrize(
    ("right", "wrong", "line", "told"),
    [
        ("mode: FULL_TRANSITIVE", "mod: FULL", 7, "unknown key subjects.orders.mod; did you mean mode?"),
        ("policy:", "polices:", 25, "unknown key polices; did you mean policy?"),
        (
            "fail_on: warning",
            "fail_on: warn",
            27,
            "policy.fail_on: 'warn' is none of error, warning, info, never; did you mean warning?",
        ),
        (
            "FULL_TRANSITIVE",
            "full",
            7,
            "subjects.orders.mode: 'full' is none of NONE, BACKWARD, BACKWARD_TRANSITIVE, FORWARD, FORWARD_TRANSITIVE, "
            "FULL, FULL_TRANSITIVE; did you mean FULL?",
        ),
        (
            "FIELD-ADDED-NO-DEFAULT",
            "FIELD-ADDED-NODEFAULT",
            26,
            "there is no rule FIELD-ADDED-NODEFAULT; did you mean FIELD-ADDED-NO-DEFAULT?",
        ),
        ("2027-01-31", "next week", 32, "policy.waivers[0].until is no day; write it as 2027-01-31"),
        ("0123456789abcdef", "0123", 29, "'0123' is no fingerprint; it has 16 hex digits; --format json shows it"),
        ("approver: ann@example.com", "approver: ' '", 31, "the waiver's approver is empty"),
        ("max_files: 5000", "max_files: lots", 18, "tables.'delta:*'.limits.max_files is a whole number, not a text"),
        ("max_files: 5000", "max_files: -1", 18, "max_files is less than nothing; write 0 to allow no rewrite"),
        (
            "10 GiB",
            "10 gigs",
            18,
            "tables.'delta:*'.limits.max_rewrite_bytes holds a number of bytes, or a text such as 500 GiB",
        ),
        (
            "currency: null",
            "currency: nil",
            20,
            "tables.'*orders'.old_rows holds default, null, or paths with default or null each",
        ),
        (
            "currency: backfill",
            "currency: backfil",
            21,
            "tables.'*orders'.routes.currency: 'backfil' is none of metadata, backfill, rewrite, external; "
            "did you mean backfill?",
        ),
        (
            "[note, remark]",
            "[note, remark, third]",
            11,
            "subjects.orders.not_renames holds pairs [old path, new path]",
        ),
        (
            "{amount: total}",
            "{amount: total, sum: total}",
            10,
            "subjects.orders.renames: two renames lead to one field (total); keep one rename for each field",
        ),
        (
            "delta:lake/orders",
            "hudi:orders",
            8,
            "'hudi:orders' is no URI of a table; write iceberg:... or delta:... or parquet:...",
        ),
        ("version: 1", "version: 2", 1, "version is the version of the file's format; write version: 1"),
        ("version: 1\n", "", 1, "version is missing"),
        ("pin: data", "pin: data\n    pin: schema", 24, "the key 'pin' is there twice, first on line 23; keep one"),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_nearest_right_word(right: str, wrong: str, line: int, told: str) -> None:
    assert right in FULL
    assert faults(FULL.replace(right, wrong, 1)) == [f"{NAME}:{line}: {told}"]


def test_all_faults_are_told_together_whatever_their_kind() -> None:
    text = FULL.replace("mode: FULL_TRANSITIVE", "mod: FULL").replace("FIELD-ADDED-NO-DEFAULT", "FIELD-ADDED-NODEFAULT")
    text = text.replace("2027-01-31", "soon").replace("delta:lake/orders", "hudi:orders")
    text = text.replace("source: git:main:schemas/customers.avsc", "source: 3")
    lines = [int(fault.split(":")[1]) for fault in faults(text)]
    assert lines == [7, 8, 13, 26, 32]


def test_faults_are_told_in_three_lines_and_json_lists_them_all(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_project("version: 1\npolcy: {}\n", NAME)
    assert caught.value.lines() == ("unknown key polcy", "at: lakeevolve.yaml, line 2", "next: did you mean policy?")
    with pytest.raises(InvalidConfig) as caught:
        parse_project("version: 3\npolcy: {}\n", NAME)
    assert [text.split(":")[0] for text in caught.value.lines()] == ["lakeevolve.yaml holds 2 faults"] + [NAME] * 2
    with pytest.raises(InvalidConfig) as caught:
        parse_project("version: 3\npolcy: {}\nsubject: {}\ntable: {}\n", NAME)
    first, second, third = caught.value.lines()
    assert first == "lakeevolve.yaml holds 4 faults"
    assert second == "lakeevolve.yaml:1: version is the version of the file's format; write version: 1"
    assert third == "next: --format json lists the 3 others"
    assert len(caught.value.to_json()["faults"]) == 4  # type: ignore[arg-type]


def test_a_mapping_and_foreign_columns_are_paths_and_names() -> None:
    assert faults("version: 1\ntables: {a: {mapping: {'a..b': c, d: 'e[', after: $}, foreign: [at, '']}}\n") == [
        f"{NAME}:2: a name under foreign is empty; name a column, or kafka_*",
        f"{NAME}:2: mapping holds a path in the schema and one in the table, not a..b: c; "
        "write orderId: order_id, or after: $ for the rows",
        f"{NAME}:2: mapping holds a path in the schema and one in the table, not d: e[; "
        "write orderId: order_id, or after: $ for the rows",
    ]


def test_a_credential_in_the_file_is_refused_and_not_repeated() -> None:
    text = "version: 1\nstate: s3://key:hunter2secret@bucket/x\n"
    text += "subjects: {a: {source: a, tables: ['delta:s3://k:hunter2secret@b/t']}}\n"
    told = faults(text)
    assert len(told) == 2
    assert all("credential" in fault for fault in told)
    assert "hunter2" not in " ".join(told)


def test_variables_are_not_filled_in_and_said_not_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_FOLDER", "hunter2")
    told = faults("version: 1\nstate: ${SECRET_FOLDER}/x\nsubjects: {a: {source: $SECRET_FOLDER/a.avsc}}\n")
    assert [fault.split(":")[1] for fault in told] == ["2", "3"]
    assert "hunter2" not in " ".join(told)


@pytest.mark.parametrize("owner", ["orders", "other"])
def test_a_table_has_one_subject_however_its_path_is_written(owner: str) -> None:
    tables = "[delta:a, delta:./x/../a]" if owner == "orders" else "[delta:./a]"
    text = f"version: 1\nsubjects:\n  orders: {{source: a, tables: {tables}}}\n"
    text += "" if owner == "orders" else "  other: {source: b, tables: [delta:a]}\n"
    (told,) = faults(text)
    assert "belongs to the subject orders already" in told


def test_the_file_is_found_from_below_and_its_paths_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).write_text(FULL)
    below = tmp_path / "schemas" / "old"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find() == tmp_path / NAME
    project = load_project()
    assert project.located("schemas/orders.avsc") == str(tmp_path / "schemas" / "orders.avsc")
    assert project.located("delta:lake/orders@v3") == f"delta:{tmp_path}/lake/orders@v3"
    assert project.located("git:main:schemas/a.avsc") == f"git:main:{os.path.join('..', 'a.avsc')}"
    for same in ("delta:s3://bucket/orders", "iceberg:prod/shop.orders", "registry:orders-value@latest", "/a/b.avsc"):
        assert project.located(same) == same
    (tmp_path / "lake").mkdir()
    assert project.located("iceberg:lake/shop.orders") == f"iceberg:{tmp_path}/lake/shop.orders"
    assert project.state == str(tmp_path / "state" / "here")
    assert project.options(f"delta:{tmp_path}/lake/orders").pin == "data"
    monkeypatch.chdir(tmp_path)
    assert load_project().located("delta:lake/orders") == "delta:lake/orders"


def test_without_a_file_it_is_said_where_one_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_project()
    assert caught.value.where == str(tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        load_project("nowhere.yaml")
    with pytest.raises(ConfigError):
        load_project(tmp_path)


def test_subjects_are_chosen_by_name_or_pattern() -> None:
    project = parse_project(FULL)
    assert list(project.subjects()) == ["orders", "customers"]
    assert list(project.subjects(["c*"])) == ["customers"]
    with pytest.raises(ConfigError) as caught:
        project.subjects(["ordrs"])
    assert caught.value.hint == "did you mean orders?"


@pytest.mark.parametrize(
    "text",
    [
        "", "- 1", "null", "text", "version: 1\nsubjects: 3", "version: 1\nsubjects: [a]", "{", "a: \t- b: c", "a: *b",
        "a: &a [*a]", "a: !!python/object:os.system x", "? [a]\n: 1", "<<: {}\nversion: 1", "a: 1\n---\nb: 2",
        "version: 1\nsubjects: {a: {source: \"\\ud800\"}}", "version: " + "1" * 5000, "[" * 3000, "a: " + "{a: " * 300,
        "version: 1\ntables: {a: {old_rows: [x]}}", "version: 1\npolicy: {waivers: [[], 3, {}, null]}",
        "\x00", "a: \x07",
    ],
)  # fmt: skip
def test_what_is_no_project_is_told_with_file_and_line(text: str) -> None:
    assert all(re.match(r"lakeevolve\.yaml:\d+: ", fault) for fault in faults(text))


def test_values_that_aliases_multiply_without_end_are_refused() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    (told,) = faults(text)
    assert "values" in told


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / NAME
    file.write_bytes(b"version: 1\nstate: \xff\n")
    with pytest.raises(InvalidConfig, match=f"{NAME}:2: the file is not UTF-8"):
        load_project(file)


WORDS = ("null", "[]", "{}", "1", "-1.5", "true", ": ", "- ", "&a ", "*a ", "|", "\t", "~")


@st.composite
def _damaged(draw: st.DrawFn) -> str:
    text = FULL
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 30)))
        lines = text.split("\n")
        match draw(st.sampled_from(("cut", "insert", "replace", "drop line", "double line", "indent", "swap"))):
            case "cut":
                text = text[:at] + text[end:]
            case "insert":
                text = text[:at] + draw(st.text(max_size=5)) + text[at:]
            case "replace":
                word = draw(st.sampled_from(WORDS))
                text = text[:at] + word + text[end:]
            case "drop line":
                del lines[draw(st.integers(0, len(lines) - 1))]
                text = "\n".join(lines)
            case "double line":
                lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
                text = "\n".join(lines)
            case "indent":
                which = draw(st.integers(0, len(lines) - 1))
                lines[which] = " " * draw(st.integers(1, 5)) + lines[which].lstrip()
                text = "\n".join(lines)
            case "swap":
                a, b = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
                lines[a], lines[b] = lines[b], lines[a]
                text = "\n".join(lines)
    return text


@settings(max_examples=400, deadline=None, derandomize=True)
@given(_damaged())
def test_whatever_is_damaged_the_file_loads_or_its_faults_have_file_and_line(text: str) -> None:
    told: tuple[str, ...] = ()
    try:
        parse_project(text, NAME)
    except InvalidConfig as error:
        told = error.faults or ("nothing",)
    for fault in told:
        match = re.match(r"lakeevolve\.yaml:(\d+): \S", fault)
        assert match is not None, fault
        assert 1 <= int(match.group(1)) <= text.count("\n") + 2


def test_the_modes_of_the_file_are_those_of_the_rules() -> None:
    schema = project_schema()
    assert set(schema["$defs"]["Subject"]["properties"]["mode"]["enum"]) == set(MODES)


def test_the_json_schema_describes_every_key() -> None:
    schema = project_schema()
    json.dumps(schema)
    for name, made in {"": schema, **schema["$defs"]}.items():
        assert made["additionalProperties"] is False, name
        for key, value in made["properties"].items():
            assert "description" in value or "$ref" in value, f"{name}.{key}"


def test_reading_a_project_loads_no_table_library(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(FULL)
    code = (
        "import sys; from lakeevolve.config.load import load_project; load_project(sys.argv[1]);"
        "print([m for m in ('pyarrow', 'pyiceberg', 'deltalake', 'fastavro') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / NAME)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
