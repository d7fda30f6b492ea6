"""Why a value is not what it should be, as far as the table's own history tells.

A mismatch says where and what. What made it follows from how the value came to be where it is: a column that is newer
than the file, a step that converts, a filter that a reader answers from statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeevolve.avro import nodes
from lakeevolve.model import path as paths
from lakeevolve.model.types import describe, is_null
from lakeevolve.replaying.compare import Mismatch
from lakeevolve.replaying.fold import Folds
from lakeevolve.tables.base import DataFile

SKIPPED: Final = "the reader skipped the file: statistics say that no row of it can meet the filter, and they are wrong"
PRUNED: Final = "the reader left rows out that it gives without the filter, as it does where statistics are wrong"
EMPTIED: Final = "the reader makes an empty one of a null one"
CUT: Final = "rows were taken out of the file, or put in, behind the table's back, or its metadata was edited"


def explained(found: Iterable[Mismatch], folds: Folds, files: Sequence[DataFile]) -> list[Mismatch]:
    """The mismatches, each with its cause where that is known."""
    by_path = {file.path: file for file in files}
    return [each if each.why else replace(each, why=_why(each, folds, by_path)) for each in found]


def _why(found: Mismatch, folds: Folds, files: Mapping[str, DataFile]) -> str:
    if found.kind == "count":
        return CUT
    if found.kind == "empty":
        return EMPTIED
    file = files.get(found.file or "")
    if file is None or not found.path or found.kind not in ("value", "lost", "gained", "type"):
        return ""
    return _step(folds, file, found)


def _step(folds: Folds, file: DataFile, found: Mismatch) -> str:
    """The step after the file's version that makes of the leaf what it must be now."""
    try:
        resolution = folds(file.version).resolution
    except Exception:  # the mismatch that says so is there already
        return ""
    parts: Sequence[str] | None = paths.parts(found.path)
    roots = resolution.roots if resolution is not None else ()
    if len(roots) != folds.newest.number - file.version:
        # The table went back in between, and its steps have other numbers.
        return ""
    for number, root in zip(range(folds.newest.number, file.version, -1), reversed(roots), strict=False):
        met, parts = _met(root, parts or ())
        if isinstance(met, nodes.FillField):
            what = "null" if met.null or met.value is None else "the default that was recorded for it"
            given = "null" if found.kind == "lost" else "something else"
            return (
                f"version {number} added the column, the file is of version {file.version}, so its rows read {what}; "
                f"the reader gives {given}{_stale(folds, number)}"
            )
        if isinstance(met, nodes.Promote):
            step = f"{describe(met.writer)} to {describe(met.reader)}"
            return f"version {number} converts it from {step}, which the reader does otherwise"
        if isinstance(met, nodes.Symbols):
            return f"version {number} maps its symbols, which the reader does otherwise"
        if parts is None:
            return ""
    return ""


def _stale(folds: Folds, number: int) -> str:
    """Who wrote a file of before a version that wrote every file anew."""
    version = next(each for each in folds.versions if each.number == number)
    if not {"rewrite", "backfill"} & set(version.routes.values()):
        return ""
    return f"; a writer that did not know version {number} added the file after it, when every other was written anew"


def _met(node: nodes.Node, parts: Sequence[str]) -> tuple[nodes.Node | nodes.FillField | None, Sequence[str] | None]:
    """What a step does with a leaf, if more than keeping it, and where the leaf lies in what the step reads."""
    match node:
        case nodes.Keep():
            return None, parts
        case nodes.Promote() | nodes.Symbols():
            return node, parts
        case nodes.Fields() if parts:
            part = next((each for each in node.fields if each.field.name == parts[0]), None)
            if isinstance(part, nodes.FillField):
                return part, None
            if part is None:
                return None, None
            met, rest = _met(part.node, parts[1:])
            return met, None if rest is None else (node.writer.fields[part.index].name, *rest)
        case nodes.Items() if parts and parts[0] == paths.ITEMS:
            met, rest = _met(node.node, parts[1:])
            return met, None if rest is None else (paths.ITEMS, *rest)
        case nodes.Values() if parts and parts[0] == paths.VALUES:
            met, rest = _met(node.node, parts[1:])
            return met, None if rest is None else (paths.VALUES, *rest)
        case nodes.ToBranch() if node.reader.optional:
            return _met(node.node, parts)
        case nodes.FromUnion() if node.writer.optional:
            for writer, branch in zip(node.writer.branches, node.branches, strict=True):
                if not is_null(writer):
                    return _met(branch, parts)
    return None, None


def left_out(found: Sequence[Mismatch], met: Mapping[str, int]) -> list[Mismatch]:
    """Rows that are missing under a filter, with the cause.

    Parameters
    ----------
    met:
        How many rows of each file meet the filter.
    """
    lost = Counter(each.file for each in found if each.kind == "missing")

    def why(each: Mismatch) -> str:
        if each.kind != "missing" or each.file is None:
            return ""
        return SKIPPED if lost[each.file] == met.get(each.file) else PRUNED

    return [replace(each, why=why(each)) for each in found]
