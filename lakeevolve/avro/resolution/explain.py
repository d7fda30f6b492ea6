"""A resolution in words: where each field's value comes from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from lakeevolve.avro.nodes import (
    Fail,
    Fields,
    FillField,
    FromUnion,
    Incompatibility,
    Items,
    Keep,
    Node,
    Promote,
    ReadField,
    Symbols,
    ToBranch,
    Values,
)
from lakeevolve.model import path as paths
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names, describe, is_null
from lakeevolve.model.value import value

Action = Literal[
    "read", "promoted", "renamed", "filled with its default", "filled with null", "skipped", "incompatible"
]
_FILLED: Final = ("filled with its default", "filled with null")


@value
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """One field of the reader (of the writer, where it is skipped) and where its value comes from.

    ``source`` is the path of the writer's field that it is read from.
    """

    path: str
    action: Action
    detail: str = ""
    source: str | None = None


def explain(root: Node) -> tuple[Explanation, ...]:
    """One row per field of the reader, depth first, each record's skipped fields after its own."""
    return tuple(_rows(root, paths.ROOT, paths.ROOT))


def joined(first: tuple[Explanation, ...], second: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    """The rows of two resolutions of which the second reads what the first gives."""
    given = {row.path: row for row in first if row.action != "skipped"}
    found: list[Explanation] = []
    for row in second:
        before = None if row.source is None else given.get(row.source)
        if before is None:
            # A record that was filled as a whole is one row; what is read within it came with it.
            if row.source is None or not _filled_above(row.source, given):
                found.append(row)
        elif row.action == "skipped":
            if before.source is not None:
                found.append(replace(row, path=before.source, source=before.source))
        else:
            found.append(_both(before, row))
    return (*found, *(row for row in first if row.action == "skipped"))


def _both(before: Explanation, after: Explanation) -> Explanation:
    actions = (before.action, after.action)
    detail = "; then ".join(text for text in (before.detail, after.detail) if text)
    if "incompatible" in actions:
        return Explanation(after.path, "incompatible", detail, before.source)
    if before.action in _FILLED:
        return Explanation(after.path, before.action, detail)
    action = next((a for a in ("renamed", "promoted") if a in actions), after.action)
    return Explanation(after.path, action, detail, before.source)


def _filled_above(path: str, rows: dict[str, Explanation]) -> bool:
    """Whether a field lies within a record that was filled as a whole."""
    while path:
        path = paths.parent(path)
        if path in rows:
            return rows[path].action in _FILLED
    return False


def _rows(node: Node, path: str, source: str) -> Iterator[Explanation]:
    match node:
        case Fields():
            for part in node.fields:
                here = paths.child(path, part.field.name)
                if isinstance(part, FillField):
                    yield _filled(part, here)
                    continue
                if part.index < 0:
                    yield Explanation(here, "incompatible", _reasons(_failures(part.node)))
                    continue
                old = node.writer.fields[part.index].name
                there = paths.child(source, old)
                yield _read(part, old, here, there)
                yield from _rows(part.node, here, there)
            for index in node.skipped:
                name = node.writer.fields[index].name
                yield Explanation(paths.child(path, name), "skipped", source=paths.child(source, name))
        case Items():
            yield from _rows(node.node, paths.items(path), paths.items(source))
        case Values():
            yield from _rows(node.node, paths.values(path), paths.values(source))
        case ToBranch():
            below = path if node.reader.optional else _branch(node.reader, node.index, path)
            yield from _rows(node.node, below, source)
        case FromUnion():
            for index, branch in enumerate(node.branches):
                there = source if node.writer.optional else _branch(node.writer, index, source)
                yield from _rows(branch, path, there)
        case Keep():
            yield from _kept(node.type, path, source)
        case _:
            return


def _kept(type_: AvroType, path: str, source: str) -> Iterator[Explanation]:
    match type_:
        case Record():
            for field in type_.fields:
                here, there = paths.child(path, field.name), paths.child(source, field.name)
                yield Explanation(here, "read", source=there)
                yield from _kept(field.type, here, there)
        case Array():
            yield from _kept(type_.items, paths.items(path), paths.items(source))
        case Map():
            yield from _kept(type_.values, paths.values(path), paths.values(source))
        case Union():
            for index, branch in enumerate(type_.branches):
                if type_.optional:
                    yield from _kept(branch, path, source)
                else:
                    yield from _kept(branch, _branch(type_, index, path), _branch(type_, index, source))
        case _:
            return


def _filled(part: FillField, path: str) -> Explanation:
    if part.null:
        return Explanation(path, "filled with null")
    return Explanation(path, "filled with its default", json.dumps(part.value, ensure_ascii=False))


def _read(part: ReadField, old: str, path: str, source: str) -> Explanation:
    promoted = tuple(dict.fromkeys(_promotions(part.node)))
    lost = tuple(_failures(part.node))
    if not all(fault.value_level for fault in lost):
        return Explanation(path, "incompatible", _reasons(lost), source)
    renamed = (f"from {old}",) if old != part.field.name else ()
    detail = "; ".join((*renamed, *promoted, *dict.fromkeys(_substitutions(part.node))))
    return Explanation(path, "renamed" if renamed else "promoted" if promoted else "read", detail, source)


def _inside(node: Node) -> tuple[Node, ...]:
    """The nodes of a field's own value: items, values and branches, not the fields of records within it."""
    match node:
        case Items() | Values() | ToBranch():
            return (node.node,)
        case FromUnion():
            return node.branches
    return ()


def _promotions(node: Node) -> Iterator[str]:
    if isinstance(node, Promote):
        yield f"{describe(node.writer)} to {describe(node.reader)}"
    for below in _inside(node):
        yield from _promotions(below)


def _failures(node: Node) -> Iterator[Incompatibility]:
    if isinstance(node, Fail):
        yield from node.incompatibilities
    for below in _inside(node):
        yield from _failures(below)


def _substitutions(node: Node) -> Iterator[str]:
    if isinstance(node, Symbols):
        for symbol, read_as in zip(node.writer.symbols, node.read_as, strict=True):
            if symbol != read_as:
                yield f"{symbol} cannot be read" if read_as is None else f"{symbol} is read as {read_as}"
    if isinstance(node, FromUnion):
        for branch, below in zip(node.writer.branches, node.branches, strict=True):
            if isinstance(below, Fail):
                yield f"{describe(branch)} cannot be read"
    for below in _inside(node):
        yield from _substitutions(below)


def _reasons(faults: Iterable[Incompatibility]) -> str:
    return "; ".join(f"{fault.kind}: {fault.message}" for fault in faults)


def _branch(union: Union, index: int, path: str) -> str:
    if is_null(union.branches[index]):
        return path
    position = sum(not is_null(branch) for branch in union.branches[:index])
    return paths.branch(path, branch_names(union)[position])
