"""What a page shows of schemas beside a result: two of them side by side, who may read what, and who consumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from lakeevolve.model import path as paths
from lakeevolve.model.branches import branches_at
from lakeevolve.model.change import AddField, Change, RenameField
from lakeevolve.model.sentence import short_json, told_change
from lakeevolve.model.types import NO_DEFAULT, Array, AvroType, Map, Record, Union, describe
from lakeevolve.report.text import sign

if TYPE_CHECKING:
    from lakeevolve.model.diff import Diff
    from lakeevolve.model.schema import Schema
    from lakeevolve.report.outcome import Known
    from lakeevolve.rules.findings import Finding

#: How many versions a matrix holds, the newest ones, and how many rows a tree has before what is unchanged is left out.
VERSIONS: Final = 12
ROWS: Final = 120

Verdict = Literal["reads", "if rows allow", "cannot", "itself"]


# Two schemas side by side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A field of a schema: where it is, how deep, and its type with its default."""

    path: str
    depth: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Row:
    """A field before and after, with the sign and the sentences of its changes."""

    before: Node | None
    after: Node | None
    sign: str
    changes: tuple[str, ...]

    @property
    def depth(self) -> int:
        node = self.after or self.before
        return node.depth if node is not None else 0


def nodes(type_: AvroType, at: str = paths.ROOT, depth: int = 0) -> Iterator[Node]:
    """Every field of a schema, each before those inside it."""
    match type_:
        case Record():
            for field in type_.fields:
                path = paths.child(at, field.name)
                default = "" if field.default is NO_DEFAULT else f" = {short_json(field.default)}"
                yield Node(path, depth, field.name, describe(field.type) + default)
                yield from nodes(field.type, path, depth + 1)
        case Array():
            yield from nodes(type_.items, paths.items(at), depth)
        case Map():
            yield from nodes(type_.values, paths.values(at), depth)
        case Union():
            for branch, here in branches_at(type_, at):
                yield from nodes(branch, here, depth)


def tree(diff: Diff) -> tuple[list[Row], int]:
    """The rows of both schemas in the order of the new one, and how many unchanged ones were left out."""
    old = {node.path: node for node in nodes(diff.old.root)}
    new = list(nodes(diff.new.root))
    origin = {node.path: _origin(node.path, diff.renames) for node in new}
    told = _by_place(diff.changes, old, {node.path for node in new}, diff.renames)
    taken = {path for path in origin.values() if path in old}
    rows = [_row(old.get(origin[node.path]), node, told) for node in new]
    gone = [node for path, node in old.items() if path not in taken]
    rows = _with_gone(rows, gone, list(old), told)
    if len(rows) <= ROWS:
        return rows, 0
    kept = _changed(rows)
    return kept, len(rows) - len(kept)


def _origin(path: str, renames: Mapping[str, str]) -> str:
    """Where a place of the new schema was in the old one."""
    parts = paths.parts(path)
    for length in range(len(parts), 0, -1):
        before = renames.get(paths.join(parts[:length]))
        if before is not None:
            return paths.join((*paths.parts(before), *parts[length:]))
    return path


def _by_place(
    changes: Sequence[Change], old: Mapping[str, Node], new: set[str], renames: Mapping[str, str]
) -> dict[tuple[str, str], list[Change]]:
    """The changes by the row that tells them: ("new", path) for what came, ("old", path) for the rest."""
    found: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        came = isinstance(change, AddField | RenameField)
        place = change.new_path if isinstance(change, RenameField) else change.path
        if place not in new and place not in old:
            # Dropped inside of what has another name by now.
            place = _origin(place, renames)
        # A change inside a renamed field is told by its new path, one of a dropped field by its old one, and what
        # is inside a list or a map without fields of its own belongs to the field around it.
        while place and place not in new and place not in old:
            place = paths.parent(place)
        first = "new" if came or place not in old else "old"
        found.setdefault((first, place), []).append(change)
    return found


def _row(before: Node | None, after: Node | None, told: Mapping[tuple[str, str], list[Change]]) -> Row:
    changes = [*told.get(("old", before.path), ())] if before is not None else []
    changes += told.get(("new", after.path), ()) if after is not None else ()
    if before is None:
        mark = "+"
    elif after is None:
        mark = "-"
    else:
        signs = {sign(change) for change in changes}
        mark = ">" if ">" in signs else "~" if signs else ""
    return Row(before, after, mark, tuple(dict.fromkeys(map(told_change, changes))))


def _with_gone(
    rows: list[Row], gone: Sequence[Node], order: Sequence[str], told: Mapping[tuple[str, str], list[Change]]
) -> list[Row]:
    """The rows with those of dropped fields, each after what stood before it."""
    place = {path: at for at, path in enumerate(order)}
    for node in gone:
        at, before = 0, place[node.path]
        for index, row in enumerate(rows):
            if row.before is not None and place[row.before.path] < before:
                at = index + 1
        rows.insert(at, _row(node, None, told))
    return rows


def _changed(rows: Sequence[Row]) -> list[Row]:
    """The rows that changed, and those that they are in."""
    kept: list[Row] = []
    depth = -1
    for row in reversed(rows):
        if row.sign or row.depth < depth:
            kept.append(row)
            depth = row.depth
    return kept[::-1]


# Who may read what ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """Whether a reader with one version reads rows of another, and if not, why."""

    verdict: Verdict
    why: str = ""


def matrix(versions: Sequence[Known]) -> list[list[Cell]]:
    """A row for each reader, a cell for each writer."""
    return [[_cell(writer.schema, reader.schema, writer is reader) for writer in versions] for reader in versions]


def _cell(writer: Schema, reader: Schema, same: bool) -> Cell:
    from lakeevolve.avro.resolution import resolve

    if same:
        return Cell("itself")
    found = resolve(writer, reader).incompatibilities
    if not found:
        return Cell("reads")
    first = next((each for each in found if not each.value_level), found[0])
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    verdict: Verdict = "if rows allow" if all(each.value_level for each in found) else "cannot"
    return Cell(verdict, f"{first.path or 'the root'}: {first.message}{more}")


def readers_of(cells: Sequence[Sequence[Cell]], versions: Sequence[Known], at: int) -> str:
    """Who reads the rows of a version, in a sentence."""
    names = [each.name for each in versions]
    can = [names[row] for row, cells_ in enumerate(cells) if cells_[at].verdict in ("reads", "itself")]
    if len(can) == len(names):
        return "every version"
    return ", ".join(can)


# Who consumes ---------------------------------------------------------------------------------------------------------


def consumers(contracts: Sequence[Any], findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Each contract with its owner, what it reads, what it accepts, and what the findings say of it."""
    rows: list[tuple[str, ...]] = []
    for contract in contracts:
        name = str(getattr(contract, "name", ""))
        against = [each for each in findings if name in each.consumers and not each.waived]
        fields = getattr(contract, "fields", ())
        reader = getattr(contract, "reader", None)
        reads = ", ".join(each.path for each in fields) or (describe(reader.root) if reader is not None else "")
        accepts = ", ".join(map(str, getattr(contract, "accepts", ()))) or "every version"
        said = "; ".join(f"{each.severity}: {each.rule} {each.path or '$'}" for each in against) or "nothing breaks"
        rows.append((name, str(getattr(contract, "owner", "")), reads, accepts, said))
    return rows


def lazily(make: Callable[[], str]) -> str:
    """A part of a page that a schema may defeat: without it, the rest of the page still stands."""
    try:
        return make()
    except (ValueError, RecursionError):
        return ""
