"""Rules about schemas that are to be tables. They look at the schema alone; how a change gets there is a route."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from lakeevolve.model import path as paths
from lakeevolve.model.change import AddField, Change, ChangeLogicalType, DropField, DropSymbol, ReplaceType
from lakeevolve.model.change_json import change_name
from lakeevolve.model.find import find_field
from lakeevolve.model.origin import base_path
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    Array,
    AvroType,
    Field,
    Fixed,
    Map,
    NamedRef,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
    is_optional,
    short_name,
    without_null,
)
from lakeevolve.rules.findings import Finding
from lakeevolve.rules.rule import Rule

ROOT_NOT_RECORD = Rule(
    "TABLE-ROOT-NOT-RECORD",
    "error",
    "The root of the schema is not a record",
    "A table has columns, and only a record has fields to make them of.",
    '{"type": "array", "items": "long"}',
    "wrap the type in a record with one field",
)
NULL_ALONE = Rule(
    "TABLE-NULL-ALONE",
    "error",
    "A field can only be null",
    "No table format has a column type that holds nothing but null.",
    'note: "null"',
    "drop the field, or give it a type besides null",
)
RECURSIVE = Rule(
    "TABLE-RECURSIVE-TYPE",
    "error",
    "A record contains itself",
    "Columns have a fixed depth, and a recursive type has none.",
    'record Node has next: ["null", "Node"]',
    "break the recursion: keep a key instead of the record, or store the inner record as text",
)
DECIMAL_TOO_WIDE = Rule(
    "TABLE-DECIMAL-TOO-WIDE",
    "error",
    "A decimal has more than 38 digits",
    "Iceberg and Delta hold decimals of at most 38 digits.",
    "amount: decimal(40,2)",
    "use 38 digits or fewer, or a string",
)
CASE_CLASH = Rule(
    "TABLE-NAMES-CLASH",
    "error",
    "Two fields differ in case only",
    "Delta and Spark compare column names without regard to case, so the two cannot both be columns.",
    "fields [id, ID]",
    "rename one of them",
)
TIME_AS_NUMBER = Rule(
    "TABLE-TIME-AS-NUMBER",
    "info",
    "A time of day becomes a plain number",
    "Delta has no type for a time of day. The column holds the number of milliseconds or microseconds.",
    "at: time-micros, in a Delta table",
    "nothing to do, if readers of the table know the unit",
)
NANOSECONDS = Rule(
    "TABLE-NANOSECONDS",
    "error",
    "The table has no type for nanoseconds",
    "Iceberg has one from format version 3 on, Delta has none. Cutting values to microseconds loses digits.",
    "at: timestamp-nanos",
    "write microseconds, or a long",
)

COLUMN_OPTIONAL = Rule(
    "TABLE-COLUMN-OPTIONAL",
    "warning",
    "A column is optional where the schema rules nulls out",
    "Many sinks write every column as optional. A column of a table that no schema described so far is left optional. "
    "Apply checks that no row is null there today; the table itself keeps no later writer from adding one.",
    "id: long in the schema, and an optional column id in a table made by another tool",
    'make the field nullable in the schema (["null", ...]), or have the column made required by its owner',
)

NAMES_MOVE = Rule(
    "TABLE-NAMES-MOVE",
    "warning",
    "A name that is in use passes to another column",
    "An alias gives a column the values of one whose name another field takes over. In a table that no schema "
    "described so far, nothing but the alias says that this is meant: it may be old, and its rename long made.",
    "fields [a, b] become [b with the alias a, a with the alias b]",
    "confirm the rename, with --rename OLD=NEW or under renames: in lakeevolve.yaml; or take the alias off the schema",
)

ROWS_REFUSE = Rule(
    "TABLE-ROWS-REFUSE",
    "error",
    "Rows stand against the change",
    "The change can be made only where no row holds a value that the new schema has no place for, and some do. Plan "
    "looks where the table is small, apply in any case; a waiver does not make room for the values.",
    'note: ["null", "string"] becomes note: "string", and a row is null',
    "repair the rows, or keep the wider type",
)
COLUMNS_CLASH = Rule(
    "TABLE-COLUMNS-CLASH",
    "warning",
    "Two columns of the table differ in case only",
    "The format allows it, and engines that ignore case read one column for the other, or refuse the table. What plans "
    "do to other columns is not concerned.",
    "a table with the columns id and ID",
    "rename one of them",
)
MANY_SCHEMAS = Rule(
    "TABLE-MANY-SCHEMAS",
    "warning",
    "The table keeps very many old schemas",
    "Every schema that a table ever had stays in its metadata, which each commit writes and each reader reads. Columns "
    "that are added one at a time leave a schema each.",
    "3,000 columns, and 300 columns added one by one",
    "make the changes of a plan together, and have old schemas removed from the metadata when snapshots are expired",
)
NAME_MAPPING = Rule(
    "TABLE-NAME-MAPPING",
    "warning",
    "The name mapping leads a column's name elsewhere",
    "Files without field ids are read by the table's name mapping. A tool that gave a column another field id and left "
    "the mapping as it was makes the next such file read NULL.",
    "the mapping leads amount to field id 2, and the column amount is field id 7",
    "set the table property schema.name-mapping.default anew",
)
PARTITION_SOURCE_GONE = Rule(
    "TABLE-PARTITION-SOURCE-GONE",
    "warning",
    "A column that live files are partitioned by was dropped",
    "Libraries allow a column to be dropped once the current partition spec does not use it, although files of an "
    "older spec do. Some readers then fail on the table.",
    "the column region is dropped, and files of the spec before are partitioned by region",
    "rewrite the files that use the old spec, with the engine that wrote them",
)
ROWS_UNREADABLE = Rule(
    "TABLE-ROWS-UNREADABLE",
    "warning",
    "No Python library can read the rows of the table",
    "Iceberg's equality deletes name rows by the values of a key, and only engines such as Flink, Spark and DuckDB "
    "apply them. So no row can be checked, written anew or replayed here: additions, renames, drops and other changes "
    "of metadata that leave the key alone are checked from the schema alone, and all others are refused.",
    "a table that Flink upserts into, and a nullable field is added",
    "compact the table with Spark (rewrite_data_files, which applies its deletes), to have changes proved on its rows",
)
LEDGER_DIFFERS = Rule(
    "TABLE-LEDGER-DIFFERS",
    "error",
    "A ledger entry says otherwise than the table",
    "An entry is written once and sealed, and the table's marker holds the same facts. One of the two was changed "
    "afterwards.",
    "the entry of version 3 names another schema than the marker does",
    "find out who changed it; take the entry away and run lakeevolve history TABLE --rebuild to have the marker's word",
)
LEDGER_DAMAGED = Rule(
    "TABLE-LEDGER-DAMAGED",
    "error",
    "A ledger entry cannot be read",
    "Approver, verdicts and the result of the replay stand in the ledger alone.",
    "an entry that is cut off",
    "restore the file, or take it away and run lakeevolve history TABLE --rebuild for what the marker knows",
)
LEDGER_MISSING = Rule(
    "TABLE-LEDGER-MISSING",
    "info",
    "A version has no ledger entry",
    "The state folder was lost or is another one, or the apply was stopped after its commit. The table's marker still "
    "holds the version itself.",
    "version 3 was applied from another machine",
    "run lakeevolve history TABLE --rebuild, or set LAKEEVOLVE_STATE to the folder that has the ledger",
)
LEDGER_STRAY = Rule(
    "TABLE-LEDGER-STRAY",
    "warning",
    "A ledger entry is of a version that the table does not have",
    "The table was rolled back or restored past that version, or the entry was put there by hand.",
    "an entry of version 4, in a table of three versions",
    "nothing to do after a rollback; else find out who wrote the entry",
)

REVERT_LOSES = Rule(
    "TABLE-REVERT-LOSES",
    "warning",
    "What a plan did cannot be undone for every value",
    "A plan that undoes another keeps all rows, and not all that is in them: what was dropped is gone from the table's "
    "reach, and what a newer column or symbol says has no place in the older schema.",
    "note was dropped, and comes back empty",
    "roll the table back instead, if the rows written since may go; or keep what the finding names",
)

RULES = (
    COLUMNS_CLASH,
    MANY_SCHEMAS,
    NAME_MAPPING,
    PARTITION_SOURCE_GONE,
    ROWS_UNREADABLE,
    ROOT_NOT_RECORD,
    NULL_ALONE,
    RECURSIVE,
    DECIMAL_TOO_WIDE,
    CASE_CLASH,
    TIME_AS_NUMBER,
    NANOSECONDS,
    COLUMN_OPTIONAL,
    NAMES_MOVE,
    ROWS_REFUSE,
    REVERT_LOSES,
    LEDGER_DIFFERS,
    LEDGER_DAMAGED,
    LEDGER_MISSING,
    LEDGER_STRAY,
)


def unreadable(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Of a table's findings, those that say that its rows cannot be read."""
    return tuple(each for each in findings if each.rule == ROWS_UNREADABLE.id)


def names_that_move(renames: Mapping[str, str], target: Schema, subject: str = "") -> Iterator[Finding]:
    """The renames whose old name goes on being a field's name.

    Parameters
    ----------
    renames:
        New path to old path, as far as aliases alone declare them.
    """
    for new, old in renames.items():
        taken = paths.child(paths.parent(new), paths.leaf(old))
        if find_field(target.root, taken) is not None:
            message = f"the values of {old} move here by an alias, and {taken} stays a field with other values"
            yield NAMES_MOVE.finding(new, old, new, message, subject=subject)


def clashed_before(finding: Finding, held: Schema, schema: Schema, renames: Mapping[str, str]) -> bool:
    """Whether a finding says that two fields of *schema* differ in case only, and both were columns already.

    Parameters
    ----------
    held:
        The schema that the table has.
    renames:
        New path to old path of what is renamed on the way to *schema*.
    """
    if finding.rule != CASE_CLASH.id or finding.from_ is None:
        return False
    above = paths.parent(finding.path)
    both = (finding.path, paths.child(above, finding.from_))
    old = [base_path(path, held.root, schema.root, renames) for path in both]
    return all(path is not None and paths.leaf(path) == paths.leaf(new) for path, new in zip(old, both, strict=True))


def left_optional(table: Schema, base: Schema, subject: str = "") -> Iterator[Finding]:
    """The columns that a table has as optional while the schema it is taken for has no null there.

    Parameters
    ----------
    table:
        The schema read off the table alone.
    base:
        The schema that the table is taken for, with the table's own names.
    """
    for path in _left_optional(table.root, base.root, ""):
        message = "the column is optional, and stays so"
        yield COLUMN_OPTIONAL.finding(path, "optional", "required", message, subject=subject)


def _left_optional(have: AvroType, want: AvroType, path: str) -> Iterator[str]:
    if is_optional(have) and not (isinstance(want, Union) and want.nullable):
        yield path
    match without_null(have), without_null(want):
        case Record() as old, Record() as new:
            for field in old.fields:
                if (other := new.field(field.name)) is not None:
                    yield from _left_optional(field.type, other.type, paths.child(path, field.name))
        case Array() as old, Array() as new:
            yield from _left_optional(old.items, new.items, paths.items(path))
        case Map() as old, Map() as new:
            yield from _left_optional(old.values, new.values, paths.values(path))


def fit_for_table(
    schema: Schema,
    table_format: Literal["iceberg", "delta"] | None = None,
    *,
    nanoseconds: bool = False,
    subject: str = "",
) -> tuple[Finding, ...]:
    """What keeps a schema from being a table, or is not quite itself there.

    Parameters
    ----------
    table_format:
        The table's format; None for what holds for all.
    nanoseconds:
        Whether the table can hold nanoseconds (Iceberg from version 3).
    """
    if not isinstance(schema.root, Record):
        message = f"the root is {describe(schema.root)}, which has no fields to make columns of"
        return (ROOT_NOT_RECORD.finding("", None, describe(schema.root), message, subject=subject),)
    return tuple(_type(schema.root, "", table_format, nanoseconds, subject))


def _type(type_: AvroType, path: str, table_format: str | None, nanos: bool, subject: str) -> Iterator[Finding]:
    match type_:
        case Record():
            yield from _clashes(type_, path, subject)
            for field in type_.fields:
                yield from _type(field.type, paths.child(path, field.name), table_format, nanos, subject)
        case Array():
            yield from _type(type_.items, paths.items(path), table_format, nanos, subject)
        case Map():
            yield from _type(type_.values, paths.values(path), table_format, nanos, subject)
        case Union() if type_.optional:
            yield from _type(without_null(type_), path, table_format, nanos, subject)
        case Union() if not type_.values:
            yield NULL_ALONE.finding(path, None, describe(type_), "the field holds nothing but null", subject=subject)
        case Union():
            for name, branch in zip(branch_names(type_), type_.values, strict=True):
                yield from _type(branch, paths.branch(path, name), table_format, nanos, subject)
        case NamedRef():
            message = f"{short_name(type_.name)} contains itself"
            yield RECURSIVE.finding(path, None, describe(type_), message, subject=subject)
        case Primitive() | Fixed():
            yield from _leaf(type_, path, table_format, nanos, subject)


def _leaf(
    type_: Primitive | Fixed, path: str, table_format: str | None, nanos: bool, subject: str
) -> Iterator[Finding]:
    logical = "" if type_.logical is None else type_.logical.name
    said = describe(type_)
    if is_null(type_):
        yield NULL_ALONE.finding(path, None, said, "the field holds nothing but null", subject=subject)
    elif logical == "decimal" and type_.logical is not None and (type_.logical.precision or 0) > 38:
        yield DECIMAL_TOO_WIDE.finding(path, None, said, "the decimal has more than 38 digits", subject=subject)
    elif logical.startswith("time-") and table_format == "delta":
        message = "Delta has no time of day: the column holds the number"
        number = "int" if logical == "time-millis" else "long"
        yield TIME_AS_NUMBER.finding(path, said, number, message, subject=subject)
    elif logical.endswith("-nanos") and not nanos and table_format is not None:
        yield NANOSECONDS.finding(path, None, said, "the table has no type for nanoseconds", subject=subject)


def _clashes(record: Record, path: str, subject: str) -> Iterator[Finding]:
    seen: dict[str, Field] = {}
    for field in record.fields:
        other = seen.setdefault(field.name.lower(), field)
        if other is not field:
            message = f"{other.name} and {field.name} differ in case only"
            yield CASE_CLASH.finding(paths.child(path, field.name), other.name, field.name, message, subject=subject)


def reverting(changes: Sequence[Change], fills: Mapping[str, str], subject: str = "") -> Iterator[Finding]:
    """What is lost when a plan is undone by these changes, place by place."""
    for change in changes:
        match change:
            case AddField():
                null = fills.get(change.path) == "null" or change.field.default is None
                reads = "null" if null else "its default"
                message = f"the values that were dropped do not come back: every row so far reads {reads}"
            case DropField():
                message = "the values that rows hold here go out of reach"
            case DropSymbol():
                message = f"rows that hold {change.symbol} have no symbol to go back to but the enum's default"
            case ReplaceType() | ChangeLogicalType() if fills.get(change.path) == "narrow":
                message = f"every row has to hold one of {describe(change.new)}; a value that is none stops the plan"
            case _:
                continue
        yield REVERT_LOSES.finding(change.path, change_name(change), None, message, subject=subject)
