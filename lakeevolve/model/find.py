"""What stands at a path of a schema."""

from __future__ import annotations

from collections.abc import Iterator

from lakeevolve.model import path as paths
from lakeevolve.model.types import (
    Array,
    AvroType,
    Enum,
    Field,
    Map,
    NamedRef,
    Record,
    Union,
    branch_names,
    without_null,
)


def find_type(root: AvroType, path: str) -> AvroType | None:
    """The type at *path* beneath *root*, or None where the path leads nowhere.

    Uses of a record inside its own definition are followed.

    >>> from lakeevolve.model.types import NULL, Primitive
    >>> order = Record("Order", (Field("tags", Union((NULL, Array(Primitive("string"))))),))
    >>> find_type(order, "tags[]")
    Primitive(name='string', logical=None, props={})
    """
    found = _walk(root, paths.parts(path))
    return found.type if isinstance(found, Field) else found


def find_field(root: AvroType, path: str) -> Field | None:
    """The field at *path* beneath *root*; None where nothing is there, or what is there is no field."""
    found = _walk(root, paths.parts(path)) if path else None
    return found if isinstance(found, Field) else None


def _definition(root: AvroType, name: str) -> Record | None:
    """The record of that full name, wherever beneath *root* it is defined."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        type_ = todo.pop()
        match type_:
            case Record() if type_.name == name:
                return type_
            case Record() if id(type_) not in seen:
                seen.add(id(type_))
                todo.extend(field.type for field in type_.fields)
            case Array():
                todo.append(type_.items)
            case Map():
                todo.append(type_.values)
            case Union():
                todo.extend(type_.branches)
    return None


def _walk(root: AvroType, segments: tuple[str, ...]) -> Field | AvroType | None:
    here: Field | AvroType = root
    for segment in segments:
        type_ = without_null(here.type if isinstance(here, Field) else here)
        if isinstance(type_, NamedRef):
            type_ = _definition(root, type_.name) or type_
        found: Field | AvroType | None = None
        match type_:
            case Record():
                found = type_.field(segment)
            case Array() if segment == paths.ITEMS:
                found = type_.items
            case Map() if segment == paths.VALUES:
                found = type_.values
            case Union() if segment.startswith("<"):
                names = (f"<{name}>" for name in branch_names(type_))
                found = next((b for name, b in zip(names, type_.values, strict=True) if name == segment), None)
        if found is None:
            return None
        here = found
    return here


def enums(root: AvroType, path: str = "") -> Iterator[tuple[str, Enum]]:
    """Every place where an enum stands, with the enum; nothing beneath a recursive use."""
    match root:
        case Enum():
            yield path, root
        case Record():
            for field in root.fields:
                yield from enums(field.type, paths.child(path, field.name))
        case Array():
            yield from enums(root.items, paths.items(path))
        case Map():
            yield from enums(root.values, paths.values(path))
        case Union():
            if root.optional:
                yield from enums(root.values[0], path)
            else:
                for name, branch in zip(branch_names(root), root.values, strict=True):
                    yield from enums(branch, paths.branch(path, name))
