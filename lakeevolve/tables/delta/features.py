"""What a table's protocol and properties allow: by name, since a feature that is not known cannot be honoured.

delta-rs 1.6 commits happily to tables whose features it does not keep up, and some of those commits cannot be undone;
so the lists here are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from lakeevolve.errors import UnsupportedTable
from lakeevolve.tables.delta.log import Metadata, Protocol
from lakeevolve.tables.delta.types import Column, columns_of

#: Reader features under which both readings, pyarrow's and delta-rs's, are right.
_READABLE: Final = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"})

#: Writer features that a commit made through delta-rs keeps up.
_WRITABLE: Final = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    }
)

#: Properties that turn on what delta-rs does not do: it sets them, and the table is not what they say.
_UNKEPT: Final = frozenset(
    {
        "delta.enabletypewidening",
        "delta.enableincommittimestamps",
        "delta.enablerowtracking",
        "delta.enableicebergcompatv1",
        "delta.enableicebergcompatv2",
        "delta.enableicebergcompatv3",
        "delta.universalformat.enabledformats",
        "delta.enablevarianttype",
    }
)
_KNOWN: Final = _UNKEPT | {
    "delta.appendonly",
    "delta.autooptimize.autocompact",
    "delta.autooptimize.optimizewrite",
    "delta.checkpoint.writestatsasjson",
    "delta.checkpoint.writestatsasstruct",
    "delta.checkpointinterval",
    "delta.checkpointpolicy",
    "delta.columnmapping.mode",
    "delta.columnmapping.maxcolumnid",
    "delta.compatibility.symlinkformatmanifest.enabled",
    "delta.dataskippingnumindexedcols",
    "delta.dataskippingstatscolumns",
    "delta.deletedfileretentionduration",
    "delta.enablechangedatafeed",
    "delta.enabledeletionvectors",
    "delta.enableexpiredlogcleanup",
    "delta.isolationlevel",
    "delta.logretentionduration",
    "delta.minreaderversion",
    "delta.minwriterversion",
    "delta.randomizefileprefixes",
    "delta.randomprefixlength",
    "delta.settransactionretentionduration",
    "delta.targetfilesize",
    "delta.tunefilesizesforrewrites",
}

_CONSTRAINT: Final = "delta.constraints."
_INVARIANT: Final = "delta.invariants"
_GENERATED: Final = "delta.generationExpression"
_IDENTITY: Final = "delta.identity."
_WORD = re.compile(r"`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|[^\W\d]\w*")


def refuse_unreadable(protocol: Protocol, where: str) -> None:
    """Raise ``UnsupportedTable`` where the rows of a table cannot be read exactly, naming the feature."""
    unknown = sorted(protocol.reader_features - _READABLE)
    if unknown:
        raise UnsupportedTable(
            f"the table uses the feature {unknown[0]}, under which its files cannot be read exactly here",
            where=where,
            hint="read it with Spark, or have the feature removed (ALTER TABLE ... DROP FEATURE)",
        )


def mapped(metadata: Metadata) -> bool:
    """Whether columns go by other names, or by numbers, in the data files."""
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower() in ("name", "id")


def by_id(metadata: Metadata) -> bool:
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower() == "id"


def change_feed(metadata: Metadata) -> bool:
    return metadata.configuration.get("delta.enableChangeDataFeed", "false").lower() == "true"


def refuse_properties(configuration: Mapping[str, str], where: str) -> None:
    """Raise ``UnsupportedTable`` for a property that names a feature which delta-rs sets and does not keep up."""
    for key, value in configuration.items():
        name = key.lower()
        refused = name in _UNKEPT and value.lower() not in ("false", "none", "")
        if refused or (name.startswith("delta.") and not name.startswith(_CONSTRAINT) and name not in _KNOWN):
            raise UnsupportedTable(
                f"the table property {key} would be set and nothing would act on it here",
                where=where,
                hint="leave it out, or create the table with Spark",
            )


def append_only(metadata: Metadata) -> bool:
    return metadata.configuration.get("delta.appendOnly", "false").lower() == "true"


def unwritable(protocol: Protocol, metadata: Metadata) -> str | None:
    """Why nothing may be committed to the table from here; None where it may."""
    unknown = sorted((protocol.writer_features | protocol.reader_features) - _WRITABLE)
    if unknown:
        return (
            f"the table uses the feature {unknown[0]}, which delta-rs does not keep up when it writes; "
            "change the table with Spark, or drop the feature first"
        )
    if 7 > protocol.writer > 5 or identity_columns(metadata):
        return "the table has identity columns, which delta-rs does not keep up; change the table with Spark"
    if metadata.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true":
        return "the table uses inCommitTimestamp, which delta-rs does not keep up; change the table with Spark"
    return None


def identity_columns(metadata: Metadata) -> tuple[str, ...]:
    return tuple(c.name for c in metadata.struct.columns if any(k.startswith(_IDENTITY) for k in c.metadata))


def conditions(metadata: Metadata) -> Iterator[tuple[str, str]]:
    """What every row of the table has to satisfy: the rule's name and its SQL (CHECK, invariant, generated column)."""
    for key, expression in metadata.configuration.items():
        if key.startswith(_CONSTRAINT):
            yield f"CHECK constraint {key.removeprefix(_CONSTRAINT)}", expression
    for column in columns_of(metadata.struct):
        rule = column.metadata.get(_INVARIANT)
        if rule:
            yield f"invariant of {column.name}", _invariant(rule)
    for column in metadata.struct.columns:
        formula = column.metadata.get(_GENERATED)
        if formula:
            yield f"generated column {column.name}", f"{_quoted(column)} IS NOT DISTINCT FROM ({formula})"


def bound_columns(metadata: Metadata) -> dict[str, str]:
    """The columns, in lower case, that a rule or a property names, each with what names it."""
    found: dict[str, str] = {}
    for name, expression in conditions(metadata):
        for word in _words(expression):
            found.setdefault(word.lower(), name)
    for key in ("delta.dataSkippingStatsColumns", "delta.liquid.clusteringColumns"):
        for word in _words(metadata.configuration.get(key, "")):
            found.setdefault(word.lower(), f"table property {key}")
    for name in metadata.partition_columns:
        found[name.lower()] = "partitioning"
    return found


def indexed_columns(metadata: Metadata, default: int) -> int:
    text = metadata.configuration.get("delta.dataSkippingNumIndexedCols", "")
    return int(text) if re.fullmatch(r"-?\d+", text) else default


def _words(expression: str) -> Iterator[str]:
    for match in _WORD.finditer(expression):
        word = match.group(0)
        if word[0] == "`":
            yield word[1:-1].replace("``", "`")
        elif word[0] == '"':
            yield word[1:-1].replace('""', '"')
        elif word[0] != "'":
            yield word


def _invariant(text: str) -> str:
    try:
        return str(json.loads(text)["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return text


def _quoted(column: Column) -> str:
    return '"' + column.name.replace('"', '""') + '"'
