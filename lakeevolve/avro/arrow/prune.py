"""What a resolution does not read need not be decoded, nor have a table form; and what becomes of a symbol is known
before any is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeevolve.avro.arrow.read import Resolution
from lakeevolve.avro.nodes import (
    Fields,
    FillField,
    FromUnion,
    Incompatibility,
    Items,
    Keep,
    Node,
    ReadField,
    Symbols,
    ToBranch,
    Values,
)
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import Array, AvroType, Map, Union


@dataclass(frozen=True, slots=True)
class Pruned:
    """A resolution whose writer holds only the fields that are read.

    Its enums name each symbol as it is read: two symbols may have one name.
    """

    writer: Schema
    reader: Schema
    roots: tuple[Node, ...]
    incompatibilities: Sequence[Incompatibility]


def prune(resolution: Resolution) -> Pruned:
    """The same resolution without the writer's fields that nothing reads."""
    first, *later = resolution.roots
    type_, node = _prune(resolution.writer.root, first)
    return Pruned(
        replace(resolution.writer, root=type_), resolution.reader, (node, *later), resolution.incompatibilities
    )


def _prune(type_: AvroType, node: Node) -> tuple[AvroType, Node]:
    match node:
        case Fields():
            parts = {part.index: _prune(node.writer.fields[part.index].type, part.node) for part in _read(node)}
            order = sorted(parts)
            fields = tuple(replace(node.writer.fields[at], type=parts[at][0]) for at in order)
            writer = replace(node.writer, fields=fields)
            reads: list[ReadField | FillField] = [
                replace(part, index=order.index(part.index), node=parts[part.index][1])
                if isinstance(part, ReadField)
                else part
                for part in node.fields
            ]
            return writer, Fields(writer, node.reader, tuple(reads), ())
        case Items():
            below, inner = _prune(node.writer.items, node.node)
            items = Array(below, node.writer.props)
            return items, Items(items, node.reader, inner)
        case Values():
            below, inner = _prune(node.writer.values, node.node)
            values = Map(below, node.writer.props)
            return values, Values(values, node.reader, inner)
        case FromUnion():
            branches = [_prune(b, how) for b, how in zip(node.writer.branches, node.branches, strict=True)]
            union = Union(tuple(branch for branch, _ in branches))
            return union, FromUnion(union, node.reader, tuple(how for _, how in branches))
        case ToBranch():
            below, inner = _prune(type_, node.node)
            return below, ToBranch(node.reader, node.index, inner)
        case Symbols():
            known = tuple(symbol for symbol in node.read_as if symbol is not None)
            if len(known) == len(node.read_as):
                return replace(node.writer, symbols=known, default=None), Keep(node.reader)
    return type_, node


def _read(node: Fields) -> list[ReadField]:
    return [part for part in node.fields if isinstance(part, ReadField)]
