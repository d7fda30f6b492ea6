"""The types that a schema consists of."""

from __future__ import annotations

from collections.abc import Iterator

from lakeevolve.model.types import Array, AvroType, Map, Record, Union


def walk(root: AvroType) -> Iterator[AvroType]:
    """Every type beneath and including *root*, each object once, in no promised order."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        type_ = todo.pop()
        if id(type_) in seen:
            continue
        seen.add(id(type_))
        yield type_
        match type_:
            case Record():
                todo.extend(field.type for field in type_.fields)
            case Array():
                todo.append(type_.items)
            case Map():
                todo.append(type_.values)
            case Union():
                todo.extend(type_.branches)
