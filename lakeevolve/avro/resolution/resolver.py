"""The Avro rule (Avro 1.12, "Schema Resolution"), in the one place that knows it.

Where implementations disagree: a union's branch is chosen once, by the types' kinds and names alone, so that a
verdict and a read cannot differ; records of other names are never taken for each other by their shape; nothing that
was found under an assumption about a recursive type outlives the assumption.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from lakeevolve.avro.defaults import check_default
from lakeevolve.avro.nodes import (
    Again,
    Fail,
    Fields,
    FillField,
    FromUnion,
    Incompatibility,
    Items,
    Keep,
    Node,
    Parts,
    Promote,
    ReadField,
    Symbols,
    ToBranch,
    Values,
)
from lakeevolve.avro.parse import walk
from lakeevolve.avro.resolution import shared
from lakeevolve.avro.resolution.logical import fit, gains_digits
from lakeevolve.errors import ResolutionError
from lakeevolve.model import path as paths
from lakeevolve.model.match import has_aliases, match_by_name, match_fields, name_rank, names_match
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    PROMOTIONS,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NamedRef,
    NamedType,
    Primitive,
    Record,
    Union,
    branch_names,
    describe,
    is_null,
    kind,
    narrower,
    without_null,
)

#: Past this many reasons, a named type that fails again and again is reported by its first reason only.
MAX_REASONS: Final = 10_000
#: What Avro Java has no word for; inside a union's branch it is reported as it is, and not as a missing branch.
#: Branches at most that are told to be like a writer's but for their names.
MAX_NEAR_MISSES: Final = 10
OUR_KINDS: Final = frozenset({"INVALID_DEFAULT", "ALIAS_COLLISION", "LOGICAL_TYPE_MISMATCH"})
_NO_ASSUMPTION: Final = 1 << 30

Faults = list[Incompatibility]


@dataclass(slots=True)
class _Known:
    """What a pair of records resolved to, where that was found, and the lowest pair in progress that it relies on."""

    node: Node
    faults: tuple[Incompatibility, ...]
    path: str
    assumed: int


class Resolver:
    """One resolution. Locations and paths are those of the reader; ``""`` is the root of both."""

    def __init__(
        self,
        writer: Schema,
        reader: Schema,
        logical: Literal["check", "ignore", "table"],
        renames: Mapping[str, str],
        fresh: Collection[str],
        fills: Mapping[str, str],
    ) -> None:
        self.writer = writer
        self.reader = reader
        self.ignore = logical == "ignore"
        self.table = logical == "table"
        self.renames = renames
        self.fresh = fresh
        self.fills = fills
        #: Paths above one that is declared something of: what stands there is like nothing that stands elsewhere.
        declared = (*renames, *fresh, *fills)
        self.singular = {above for path in declared for above in _above(path)} if declared else frozenset()
        self.known: dict[tuple[int, int], _Known] = {}
        #: Pairs in progress, with their depth, and the lowest depth that the pair at hand assumed to resolve.
        self.open: dict[tuple[int, int], int] = {}
        self.assumed = _NO_ASSUMPTION
        #: Pairs that resolve if a pair in progress does, in the order found.
        self.provisional: list[tuple[int, int]] = []
        #: By the identity of a union, the name of each branch.
        self.branch_names: dict[int, list[str | None]] = {}
        self.reasons = 0
        self._definitions: dict[bool, dict[str, NamedType]] = {}

    def run(self) -> tuple[Node, tuple[Incompatibility, ...]]:
        faults: Faults = []
        node = self.node(self.writer.root, self.reader.root, "", paths.ROOT, faults)
        return node, tuple(faults)

    def node(self, writer: AvroType, reader: AvroType, location: str, path: str, faults: Faults) -> Node:
        if isinstance(writer, Record) and isinstance(reader, Record):
            return self.record(writer, reader, location, path, faults)
        if isinstance(writer, NamedRef) or isinstance(reader, NamedRef):
            found = self.definition(writer, of_writer=True), self.definition(reader, of_writer=False)
            if isinstance(found[0], NamedRef) or isinstance(found[1], NamedRef):
                return self.undefined(*found, location, path, faults)
            writer, reader = found
        if isinstance(writer, Union):
            return self.from_union(writer, reader, location, path, faults)
        if isinstance(reader, Union):
            return self.to_union(writer, reader, location, location, path, faults)
        match writer, reader:
            case Primitive(), Primitive():
                if self.fills and self.narrows(writer, reader, path):
                    message = f"not every {describe(writer)} is one of {describe(reader)}"
                    self.fail("TYPE_MISMATCH", location, path, message, faults, value_level=True)
                    return Promote(writer, reader)
                if writer.name == reader.name or reader.name in PROMOTIONS.get(writer.name, ()):
                    return self.leaf(writer, reader, location, path, faults)
            case Record(), Record():  # one of them was a reference
                return self.record(writer, reader, location, path, faults)
            case Array(), Array():
                below = f"{location}/items", paths.items(path)
                return Items(writer, reader, self.node(writer.items, reader.items, *below, faults))
            case Map(), Map():
                below = f"{location}/values", paths.values(path)
                return Values(writer, reader, self.node(writer.values, reader.values, *below, faults))
            case Enum(), Enum():
                return self.enum(writer, reader, location, path, faults)
            case Fixed(), Fixed():
                return self.fixed(writer, reader, location, path, faults)
        message = f"reader type: {kind(reader).upper()} not compatible with writer type: {kind(writer).upper()}"
        return self.fail("TYPE_MISMATCH", location, path, message, faults)

    def narrows(self, writer: AvroType, reader: AvroType, path: str) -> bool:
        """Whether it was declared that a wider number is read as a narrower one here, as far as its values fit."""
        plain = isinstance(writer, Primitive) and isinstance(reader, Primitive) and self.fills.get(path) == "narrow"
        return plain and narrower(writer, reader)

    def fail(self, code: str, location: str, path: str, message: str, faults: Faults, **more: object) -> Fail:
        fault = Incompatibility(code, location or "/", path, message, **more)  # type: ignore[arg-type]
        faults.append(fault)
        return Fail((fault,))

    # Named types

    def definition(self, type_: AvroType, *, of_writer: bool) -> AvroType:
        if not isinstance(type_, NamedRef):
            return type_
        return self.definitions(of_writer).get(type_.name, type_)

    def definitions(self, of_writer: bool) -> dict[str, NamedType]:
        if of_writer not in self._definitions:
            root = (self.writer if of_writer else self.reader).root
            self._definitions[of_writer] = {t.name: t for t in walk(root) if isinstance(t, (Record, Enum, Fixed))}
        return self._definitions[of_writer]

    def undefined(self, writer: AvroType, reader: AvroType, location: str, path: str, faults: Faults) -> Node:
        """A type that a leniently read schema uses and does not define."""
        if isinstance(writer, NamedRef) and isinstance(reader, NamedRef) and names_match(writer.name, reader.name, ()):
            return Keep(reader)
        unknown = writer if isinstance(writer, NamedRef) else reader
        return self.fail("TYPE_MISMATCH", location, path, f"the schema does not define {describe(unknown)}", faults)

    def check_names(self, writer: NamedType, reader: NamedType, location: str, path: str, faults: Faults) -> None:
        if writer.name != reader.name and not names_match(writer.name, reader.name, reader.aliases):
            self.fail("NAME_MISMATCH", f"{location}/name", path, f"expected: {writer.name}", faults)

    # Leaves

    def leaf(
        self, writer: Primitive | Fixed, reader: Primitive | Fixed, location: str, path: str, faults: Faults
    ) -> Node:
        """Types that are the same beneath their logical types, or of which one is promoted to the other."""
        how = fit(writer, reader)
        if how == "same":
            return Keep(reader)
        if how == "mismatch" and not self.ignore and not (self.table and gains_digits(writer, reader)):
            message = f"{describe(writer)} cannot be read as {describe(reader)}"
            return self.fail("LOGICAL_TYPE_MISMATCH", location, path, message, faults)
        return Promote(writer, reader, raw=self.ignore)

    def plain(self, writer: AvroType, reader: AvroType) -> Keep | Promote | None:
        """What :meth:`node` says of two primitive types without logical ones that resolve: most types that differ."""
        if (
            type(writer) is not Primitive
            or type(reader) is not Primitive
            or writer.logical is not None
            or reader.logical is not None
        ):
            return None
        if writer.name == reader.name:
            return Keep(reader)
        return Promote(writer, reader, raw=self.ignore) if reader.name in PROMOTIONS.get(writer.name, ()) else None

    def fixed(self, writer: Fixed, reader: Fixed, location: str, path: str, faults: Faults) -> Node:
        before = len(faults)
        self.check_names(writer, reader, location, path, faults)
        if writer.size != reader.size:
            message = f"expected: {writer.size}, found: {reader.size}"
            self.fail("FIXED_SIZE_MISMATCH", f"{location}/size", path, message, faults)
        node = self.leaf(writer, reader, location, path, faults) if len(faults) == before else Keep(reader)
        return node if len(faults) == before else Fail(tuple(faults[before:]))

    def enum(self, writer: Enum, reader: Enum, location: str, path: str, faults: Faults) -> Node:
        before = len(faults)
        self.check_names(writer, reader, location, path, faults)
        have = set(reader.symbols)
        default = reader.default if reader.default in have else None
        read_as = tuple(symbol if symbol in have else default for symbol in writer.symbols)
        if None in read_as:
            missing = sorted({s for s in writer.symbols if s not in have})
            message = f"[{', '.join(missing)}]"
            readable = any(read_as)
            self.fail("MISSING_ENUM_SYMBOLS", f"{location}/symbols", path, message, faults, value_level=readable)
        if not all(fault.value_level for fault in faults[before:]):
            return Fail(tuple(faults[before:]))
        return Keep(reader) if read_as == writer.symbols else Symbols(writer, reader, read_as)

    # Unions

    def branch_for(self, writer: AvroType, branches: tuple[AvroType, ...]) -> int | None:
        """The branch that values of a type go to, found by kinds and names alone.

        The same type goes before a promotion, although the specification speaks of the first branch that matches: an
        int must not turn into the double that stands before it.
        """
        writer = self.definition(writer, of_writer=True)
        candidates = [self.definition(branch, of_writer=False) for branch in branches]
        same = [at for at, branch in enumerate(candidates) if type(branch) is type(writer)]
        match writer:
            case Primitive():
                wider = PROMOTIONS.get(writer.name, ())
                names = [(at, branch.name) for at, branch in enumerate(candidates) if isinstance(branch, Primitive)]
                exact = (at for at, name in names if name == writer.name)
                return next(exact, next((at for at, name in names if name in wider), None))
            case Record() | Enum() | Fixed() | NamedRef():
                ranks = [(rank, at) for at in same if (rank := _name_rank(writer, candidates[at])) is not None]
                # A pair that is being read already has had its names judged.
                met = (at for at in same if (id(writer), id(candidates[at])) in self.open)
                return min(ranks)[1] if ranks else next(met, None)
        return same[0] if same else None

    def to_union(
        self, writer: AvroType, reader: Union, location: str, union_location: str, path: str, faults: Faults
    ) -> Node:
        """A value that is no union becomes a branch. *location* is where a fault is reported."""
        index = self.branch_for(writer, reader.branches)
        if index is None and reader.optional and self.narrows(writer, without_null(reader), path):
            index = next(at for at, branch in enumerate(reader.branches) if not is_null(branch))
        if index is None:
            causes = self.near_misses(writer, reader, union_location, path)
            return self.lacking(writer, location, path, faults, causes=causes)
        found: Faults = []
        below = path if reader.optional else self.branch_path(reader, index, path)
        node = self.node(writer, reader.branches[index], f"{union_location}/{index}", below, found)
        if not found:
            return ToBranch(reader, index, node)
        readable = all(fault.value_level for fault in found)
        if all(fault.kind in OUR_KINDS for fault in found):
            faults.extend(found)
            failed = Fail(tuple(found))
        else:
            failed = self.lacking(writer, location, path, faults, value_level=readable, causes=tuple(found))
        return ToBranch(reader, index, node) if readable else failed

    def lacking(self, writer: AvroType, location: str, path: str, faults: Faults, **more: object) -> Fail:
        message = f"reader union lacking writer type: {kind(self.definition(writer, of_writer=True)).upper()}"
        return self.fail("MISSING_UNION_BRANCH", location, path, message, faults, **more)

    def near_misses(self, writer: AvroType, reader: Union, location: str, path: str) -> tuple[Incompatibility, ...]:
        """Branches that would be the writer's but for their name."""
        writer = self.definition(writer, of_writer=True)
        if not isinstance(writer, (Record, Enum, Fixed)):
            return ()
        found: Faults = []
        for index, branch in enumerate(reader.branches):
            if len(found) < MAX_NEAR_MISSES and type(self.definition(branch, of_writer=False)) is type(writer):
                below = path if reader.optional else self.branch_path(reader, index, path)
                self.fail("NAME_MISMATCH", f"{location}/{index}/name", below, f"expected: {writer.name}", found)
        return tuple(found)

    def branch_path(self, union: Union, index: int, path: str) -> str:
        if id(union) not in self.branch_names:
            names = iter(branch_names(union))
            self.branch_names[id(union)] = [None if is_null(branch) else next(names) for branch in union.branches]
        name = self.branch_names[id(union)][index]
        return path if name is None else paths.branch(path, name)

    def from_union(self, writer: Union, reader: AvroType, location: str, path: str, faults: Faults) -> Node:
        nodes: list[Node] = []
        reasons: list[Faults] = []
        for index, branch in enumerate(writer.branches):
            found: Faults = []
            at = f"{location}/{index}"
            if isinstance(reader, Union):
                nodes.append(self.to_union(branch, reader, at, location, path, found))
            else:
                nodes.append(self.node(branch, reader, at, path, found))
            reasons.append(found)
        if not any(reasons):
            return FromUnion(writer, reader, tuple(nodes))
        targets = reader.branches if isinstance(reader, Union) else (reader,)
        failing = [not all(fault.value_level for fault in found) for found in reasons]
        for index, branch in enumerate(writer.branches):
            found = reasons[index]
            if failing[index]:
                # The reader has nothing like the branch: data that never uses it can be read.
                gone = is_null(branch) or (not writer.optional and self.branch_for(branch, targets) is None)
                if gone and not all(failing):
                    found = [replace(fault, value_level=True) for fault in found]
                nodes[index] = Fail(tuple(found))
            faults.extend(found)
        return FromUnion(writer, reader, tuple(nodes))

    # Records

    def record(self, writer: Record, reader: Record, location: str, path: str, faults: Faults) -> Node:
        key = (id(writer), id(reader))
        if key in self.open:
            self.assumed = min(self.assumed, self.open[key])
            return Again(writer.name, reader.name)
        singular = path in self.singular
        if not singular and key in self.known:
            return self.recall(self.known[key], path, faults)

        depth = self.open[key] = len(self.open)
        outer, self.assumed = self.assumed, _NO_ASSUMPTION
        first = len(self.provisional)
        found: Faults = []
        self.check_names(writer, reader, location, path, found)
        named_apart = bool(found)
        node: Node = self.fields(writer, reader, location, path, found)
        del self.open[key]
        if named_apart and self.open:
            node = Fail(tuple(found))
        faults.extend(found)
        self.settle(first, depth, failed=bool(found))
        if not singular:
            self.known[key] = _Known(node, tuple(found), path, self.assumed)
            if self.assumed < depth and not found:
                self.provisional.append(key)
        self.assumed = min(outer, self.assumed)
        return node

    def settle(self, first: int, depth: int, *, failed: bool) -> None:
        """The pair at *depth* is done: what has resolved since *first* on an assumption stands, falls, or waits on."""
        for key in self.provisional[first:]:
            if failed:
                del self.known[key]
            else:
                self.known[key].assumed = _NO_ASSUMPTION if self.assumed >= depth else self.assumed
        if failed or self.assumed >= depth:
            del self.provisional[first:]
            # A failure is one whatever was assumed.
            self.assumed = _NO_ASSUMPTION

    def recall(self, known: _Known, path: str, faults: Faults) -> Node:
        """A pair met before: its faults stand at the same place of the reader's JSON and at another path."""
        self.assumed = min(self.assumed, known.assumed)
        again = known.faults if self.reasons <= MAX_REASONS else known.faults[:1]
        faults.extend(self.moved(again, known.path, path))
        return known.node

    def moved(self, faults: tuple[Incompatibility, ...], old: str, new: str) -> tuple[Incompatibility, ...]:
        self.reasons += len(faults)
        return tuple(
            replace(fault, path=_moved(fault.path, old, new), causes=self.moved(fault.causes, old, new))
            for fault in faults
        )

    def fields(self, writer: Record, reader: Record, location: str, path: str, faults: Faults) -> Fields:
        sources, collided = self.sources(writer, reader, path)
        #: The fields that are not read as they stand.
        others: dict[int, ReadField | FillField] = {}
        written = writer.fields
        singular = self.singular
        for at, (field, source) in enumerate(zip(reader.fields, sources, strict=True)):
            if source is None:
                others[at] = self.fill(field, f"{location}/fields/{at}", path, faults)
                continue
            type_ = written[source].type
            if type_ is field.type and at not in collided and (not singular or isinstance(type_, Primitive)):
                continue
            if at in collided:
                names = ", ".join(written[i].name for i in collided[at])
                message = f"{field.name}: by its name and aliases, the writer's fields {names} all become this one"
                here = paths.child(path, field.name)
                node: Node = self.fail("ALIAS_COLLISION", f"{location}/fields/{at}", here, message, faults)
            else:
                node = self.plain(type_, field.type) or self.node(
                    type_, field.type, f"{location}/fields/{at}/type", paths.child(path, field.name), faults
                )
            others[at] = ReadField(field, source, node)
        skipped: tuple[int, ...] = ()
        taken = len(sources) - sources.count(None)
        if taken < len(written):
            used = {source for source in sources if source is not None}.union(*collided.values())
            skipped = tuple(i for i in range(len(written)) if i not in used)
        return Fields(writer, reader, Parts(reader, sources, others), skipped)

    def sources(
        self, writer: Record, reader: Record, path: str
    ) -> tuple[Sequence[int | None], Mapping[int, tuple[int, ...]]]:
        """For each of the reader's fields the writer's field that it reads, and those that several would become."""
        declared = path in self.singular
        if not declared and not has_aliases(reader):
            return match_by_name(writer, reader), {}
        renames, fresh = (self.renames, self.fresh) if declared else ({}, ())
        pairs, collisions = match_fields(writer, reader, path=path, renames=renames, fresh=fresh)
        return [source for _, source in pairs], dict(collisions)

    def fill(self, field: Field, location: str, path: str, faults: Faults) -> ReadField | FillField:
        if self.fills and self.fills.get(paths.child(path, field.name)) == "null":
            return FillField(field, None, null=True)
        known = shared.FILLED.get(id(field))
        if known is not None:
            return known
        if not field.has_default:
            here = paths.child(path, field.name)
            node = self.fail("READER_FIELD_MISSING_DEFAULT_VALUE", location, here, field.name, faults)
            return ReadField(field, -1, node)
        small = shared.is_small(field.type)
        reason = check_default(field.type, field.default, names=None if small else self.definitions(False))
        if reason is not None:
            here = paths.child(path, field.name)
            node = self.fail("INVALID_DEFAULT", location, here, f"{field.name}: {reason}", faults)
            return ReadField(field, -1, node)
        filled = FillField(field, field.default)
        shared.keep(field, filled)
        return filled


def _name_rank(writer: AvroType, reader: AvroType) -> int | None:
    if isinstance(writer, NamedRef) and isinstance(reader, NamedRef):
        return name_rank(writer.name, reader.name, ())
    if isinstance(writer, (Record, Enum, Fixed)) and isinstance(reader, (Record, Enum, Fixed)):
        return name_rank(writer.name, reader.name, reader.aliases)
    return None


def _above(path: str) -> set[str]:
    try:
        parts = paths.parts(path)
    except ValueError as error:
        hint = "write a path like address.zip, tags[] or prices{}"
        raise ResolutionError("what is declared of a field has no valid path", where=path, hint=hint) from error
    return {paths.join(parts[:length]) for length in range(len(parts))}


def _moved(path: str, old: str, new: str) -> str:
    """A path beneath *old*, beneath *new* instead."""
    rest = path[len(old) :]
    if not new:
        return rest.removeprefix(".")
    return new + rest if old or not rest or rest[0] in "[{<" else f"{new}.{rest}"
