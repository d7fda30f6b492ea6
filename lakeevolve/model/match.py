"""Which field of a writer's record a reader's field takes its values from, and which named types are the same.

Avro 1.12, "Aliases": a reader's alias acts as if the writer's field had the reader's name. Aliases of the writer are
no names to match; they only say that a rename has already happened in what was written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from lakeevolve.model import path as paths
from lakeevolve.model.types import Record, short_name

#: (index of a reader's field, index of the writer's field that it takes its values from)
Pair: TypeAlias = tuple[int, int | None]
#: (index of a reader's field, indexes of the writer's fields that all become it)
Collision: TypeAlias = tuple[int, tuple[int, ...]]


def names_match(writer_name: str, reader_name: str, reader_aliases: Collection[str]) -> bool:
    """Whether a named type of the writer is the reader's: by unqualified name, or by an alias (a full name).

    >>> names_match("old.Person", "hr.Person", ())
    True
    >>> names_match("Person", "hr.Human", ("hr.Person",))
    False
    """
    return short_name(writer_name) == short_name(reader_name) or writer_name in reader_aliases


def name_rank(writer_name: str, reader_name: str, reader_aliases: Collection[str]) -> int | None:
    """How closely a named type of the writer goes by the name of the reader's: the least is the closest, None not.

    Where several types of a union match, the closest is the one. An alias goes before the unqualified name: it acts as
    if the writer's type had the reader's full name.

    >>> name_rank("x.A", "x.A", ()), name_rank("x.A", "y.B", ("x.A",)), name_rank("x.A", "y.A", ())
    (0, 1, 2)
    """
    if writer_name == reader_name:
        return 0
    if writer_name in reader_aliases:
        return 1
    return 2 if names_match(writer_name, reader_name, ()) else None


def match_fields(
    writer: Record,
    reader: Record,
    *,
    path: str = paths.ROOT,
    renames: Mapping[str, str] | None = None,
    fresh: Collection[str] = (),
) -> tuple[list[Pair], list[Collision]]:
    """Match the fields of two records.

    Parameters
    ----------
    path:
        The reader record's own path, for looking up *renames* and *fresh*.
    renames:
        Declared renames, path in the reader to path in the writer. They go before names and aliases wherever the
        writer has the old field.
    fresh:
        Paths in the reader of fields that take nothing from the writer, even from a field of their name.

    Returns
    -------
    pairs, collisions
        One pair per field of the reader, in order. A collision stands for two or more writer fields that all become
        one reader field; its pair then holds the one of the same name, else the first.

    Examples
    --------
    >>> from lakeevolve.model.types import Field, Primitive
    >>> text = Primitive("string")
    >>> old = Record("Order", (Field("id", text), Field("amount", text)))
    >>> new = Record("Order", (Field("total", text, aliases=("amount",)), Field("id", text), Field("note", text)))
    >>> match_fields(old, new)
    ([(0, 1), (1, 0), (2, None)], [])
    """
    if not renames and not fresh and not has_aliases(reader):
        return list(enumerate(match_by_name(writer, reader))), []

    index = {field.name: at for at, field in enumerate(writer.fields)}
    declared: dict[int, int] = {}
    free = set(range(len(reader.fields)))
    unused = set(range(len(writer.fields)))
    for at, field in enumerate(reader.fields):
        here = paths.child(path, field.name)
        if here in fresh:
            free.discard(at)
        elif renames and here in renames:
            source = index.get(paths.leaf(renames[here]))
            if source is not None and source in unused:
                declared[at] = source
                unused.discard(source)
                free.discard(at)

    direct: dict[int, int] = {}
    claimed: dict[int, int] = {}
    for at in sorted(free):
        field = reader.fields[at]
        same = index.get(field.name)
        if same is not None and same in unused:
            direct[same] = at
        for alias in field.aliases:
            source = index.get(alias)
            # Where the writer's field of the new name has the alias too, the rename has already happened there.
            done = same is not None and alias in writer.fields[same].aliases
            if source is not None and source in unused and source != same and not done:
                claimed.setdefault(source, at)

    taken = _rewrite(direct, claimed)
    sources: dict[int, list[int]] = {}
    for source in sorted(taken):
        sources.setdefault(taken[source], []).append(source)
    pairs: list[Pair] = []
    collisions: list[Collision] = []
    for at, field in enumerate(reader.fields):
        found = [declared[at]] if at in declared else sources.get(at, [])
        if len(found) > 1:
            collisions.append((at, tuple(found)))
        same = index.get(field.name)
        pairs.append((at, same if same is not None and same in found else found[0] if found else None))
    return pairs, collisions


def has_aliases(record: Record) -> bool:
    """Whether a field of the record has an alias."""
    return bool([field for field in record.fields if field.aliases])


def match_by_name(writer: Record, reader: Record) -> list[int | None]:
    """What :func:`match_fields` says where no field has an alias and nothing is declared: for each field of the reader
    the index of the writer's field of that name."""
    written = writer.fields
    index: dict[str, int] = {}
    found: list[int | None] = []
    for at, field in enumerate(reader.fields):
        # Nearly every field has kept its place.
        if at < len(written) and (written[at] is field or written[at].name == field.name):
            found.append(at)
            continue
        if not index:
            index = {field.name: at for at, field in enumerate(written)}
        found.append(index.get(field.name))
    return found


def _rewrite(direct: Mapping[int, int], claimed: Mapping[int, int]) -> dict[int, int]:
    """Writer field to reader field, from the matches by name and those by alias.

    A field's own name goes before another field's alias, unless the reader's field of that name gets its values by
    alias itself: that is how a swap of two names, or a shift along several, is written.
    """
    taken = {**direct, **claimed}
    arriving: dict[int, int] = {}
    for at in claimed.values():
        arriving[at] = arriving.get(at, 0) + 1
    own = {at: source for source, at in direct.items()}
    todo = [source for source in claimed if source in direct]
    while todo:
        source = todo.pop()
        if taken[source] != direct[source] and not arriving.get(direct[source]):
            loser = taken[source]
            taken[source] = direct[source]
            arriving[loser] -= 1
            if not arriving[loser] and own.get(loser) in claimed:
                todo.append(own[loser])
    return taken
