"""A strategy for schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NO_DEFAULT,
    NULL,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Logical,
    Map,
    NamedRef,
    NamedType,
    Primitive,
    PrimitiveName,
    Record,
    Union,
    is_null,
    kind,
    short_name,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_T = TypeVar("_T")

FIELDS: Final = ("id", "amount", "total", "note", "zip_code", "zipCode", "tags", "address", "at", "a", "b", "c")
NEW_FIELDS: Final = tuple(f"new_{number}" for number in range(1, 8))
_TYPES: Final = ("Order", "Address", "Line", "Ping", "Pong", "Status", "Hash", "Node")
_SPACES: Final = ("", "shop.", "hr.eu.")
SYMBOLS: Final = ("NEW", "PAID", "SENT", "LOST", "A", "B")
DOCS: Final = (None, None, "", "what it is", "what it was")
PROPS: Final[tuple[dict[str, Json], ...]] = (
    {},
    {},
    {},
    {"lakeevolve.meaning": "EUR"},
    {"lakeevolve.meaning": "USD"},
    {"x": [1, True, None]},
)
NAMES: Final[tuple[PrimitiveName, ...]] = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL: Final[dict[str, tuple[Logical, ...]]] = {
    "int": (Logical("date"), Logical("time-millis")),
    "long": (
        Logical("time-micros"),
        Logical("timestamp-millis"),
        Logical("timestamp-micros"),
        Logical("local-timestamp-millis"),
        Logical("local-timestamp-micros"),
        Logical("timestamp-nanos"),
    ),
    "bytes": (Logical("decimal", 9, 2), Logical("decimal", 18, 4)),
    "string": (Logical("uuid"),),
}
_FIXED: Final = ((12, Logical("duration")), (16, Logical("uuid")), (4, Logical("decimal", 9, 2)), (8, None), (3, None))


def schemas(*, tables: bool = False, depth: int = 3) -> SearchStrategy[Schema]:
    """Any valid schema.

    Parameters
    ----------
    tables:
        Only schemas that a table can hold: the root a record, no null alone, no recursive record.
    depth:
        Levels of types beneath the root.

    Returns
    -------
    SearchStrategy[Schema]
        Names are drawn from a small stock, so that two schemas often have some in common.

    Examples
    --------
    >>> schemas(tables=True).map(lambda schema: schema.record.name)  # doctest: +SKIP
    """
    from hypothesis import strategies as st

    @st.composite
    def build(draw: DrawFn) -> Schema:
        maker = Maker(draw, tables)
        return Schema(maker.record(depth) if tables or draw(st.integers(0, 3)) else maker.type(depth))

    return build()


class Maker:
    """Draws types; knows which named types exist already, so that they are used again."""

    def __init__(self, draw: DrawFn, tables: bool, taken: Sequence[NamedType] = ()) -> None:
        from hypothesis import strategies as st

        self.st = st
        self.draw = draw
        self.tables = tables
        self.closed: list[NamedType] = list(taken)
        self.taken = {type_.name for type_ in taken}
        self.open: list[str] = []
        self.recursive = False

    def pick(self, options: Sequence[_T]) -> _T:
        return self.draw(self.st.sampled_from(list(options)))

    def chance(self, out_of: int) -> bool:
        return bool(self.draw(self.st.integers(1, out_of)) == out_of)

    def type(self, depth: int, union: bool = True) -> AvroType:
        if self.closed and self.chance(6):
            return self.pick(self.closed)
        simple: list[Callable[[], AvroType]] = [self.primitive, self.primitive, self.primitive, self.enum, self.fixed]
        deep: list[Callable[[], AvroType]] = [
            lambda: self.record(depth - 1),
            lambda: Array(self.type(depth - 1), self.pick(PROPS)),
            lambda: Map(self.type(depth - 1), self.pick(PROPS)),
        ]
        if union:
            deep += [lambda: self.optional(depth - 1), lambda: self.optional(depth - 1), lambda: self.union(depth - 1)]
        return self.pick(simple + deep if depth > 0 else simple)()

    def primitive(self) -> AvroType:
        name = self.pick(NAMES if self.tables else (*NAMES, "null"))
        if name == "null":
            return NULL
        logical = self.pick((None, *_LOGICAL.get(name, ()))) if self.chance(2) else None
        return Primitive(name, logical, self.pick(PROPS) if self.chance(4) else {})

    def optional(self, depth: int) -> Union:
        if self.open and not self.tables and self.chance(6):
            self.recursive = True
            inner: AvroType = NamedRef(self.pick(self.open))
        else:
            inner = self.type(depth, union=False)
        branches = (NULL, Primitive("int") if is_null(inner) else inner)
        return Union(branches if self.chance(2) else branches[::-1])

    def union(self, depth: int) -> Union:
        found: dict[str, AvroType] = {"null": NULL} if self.chance(2) else {}
        for _ in range(self.draw(self.st.integers(2, 4))):
            branch = self.type(depth, union=False)
            named = isinstance(branch, (Record, Enum, Fixed, NamedRef))
            found.setdefault(branch.name if named else kind(branch), branch)  # type: ignore[union-attr]
        branches = list(found.values())
        if len(branches) == 1 and is_null(branches[0]):
            branches.append(Primitive("string"))
        return Union(tuple(self.draw(self.st.permutations(branches))))

    def name(self) -> str:
        name = self.pick(_SPACES) + self.pick(_TYPES)
        # Within a namespace, Avro cannot refer to a type of the null namespace whose name the namespace has too.
        while name in self.taken or short_name(name) in (self.taken if "." in name else map(short_name, self.taken)):
            name += "2"
        self.taken.add(name)
        return name

    def aliases(self, stock: Sequence[str]) -> tuple[str, ...]:
        return (self.pick(stock),) if self.chance(6) else ()

    def enum(self) -> Enum:
        symbols = self.draw(self.st.lists(self.st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True))
        default = self.pick((None, *symbols))
        made = Enum(self.name(), tuple(symbols), default, self.aliases(_TYPES), self.pick(DOCS), self.pick(PROPS))
        self.closed.append(made)
        return made

    def fixed(self) -> Fixed:
        size, logical = self.pick(_FIXED)
        made = Fixed(self.name(), size, logical, self.aliases(_TYPES), self.pick(DOCS), self.pick(PROPS))
        self.closed.append(made)
        return made

    def record(self, depth: int) -> Record:
        name = self.name()
        outer, self.recursive = self.recursive, False
        self.open.append(name)
        names = self.draw(self.st.lists(self.st.sampled_from(FIELDS), min_size=1, max_size=5, unique=True))
        fields = tuple(self.field(each, depth, names) for each in names)
        self.open.pop()
        error = not self.tables and self.chance(20)
        made = Record(name, fields, self.aliases(_TYPES), self.pick(DOCS), error, self.pick(PROPS))
        # A type that uses an enclosing one may stand nowhere else.
        if not self.recursive:
            self.closed.append(made)
        self.recursive = self.recursive or outer
        return made

    def field(self, name: str, depth: int, names: Sequence[str]) -> Field:
        type_ = self.type(depth)
        default = self.default(type_) if self.chance(2) else NO_DEFAULT
        aliases = self.aliases([each for each in FIELDS if each not in names] or ["old"])
        order = self.pick((None, None, None, "ignore", "descending"))
        return Field(name, type_, default, self.pick(DOCS), aliases, order, self.pick(PROPS))

    def default(self, type_: AvroType) -> Json:
        """A valid default, or the absence of one where a type has none that ends."""
        match type_:
            case Primitive():
                return self.primitive_default(type_)
            case Enum():
                return self.pick(type_.symbols)
            case Fixed():
                return "\0" * type_.size
            case Array():
                return []
            case Map():
                return {}
            case Union():
                return self.default(type_.branches[0])
            case NamedRef():
                return NO_DEFAULT
            case Record():
                found = {f.name: self.default(f.type) for f in type_.fields}
                return NO_DEFAULT if NO_DEFAULT in found.values() else found

    def primitive_default(self, type_: Primitive) -> Json:
        if type_.logical is not None and type_.logical.name == "uuid":
            return "00000000-0000-4000-8000-000000000000"
        stock: dict[str, tuple[Json, ...]] = {
            "null": (None,),
            "boolean": (True, False),
            "int": (0, 1, 7),
            "long": (0, 1, 7),
            "float": (0, 0.5, 1.0, 1),
            "double": (0, 0.5, 1.0, 1),
            "bytes": ("\u0001",),
            "string": ("", "EUR", "none"),
        }
        return self.pick(stock[type_.name])
