"""Types from JSON."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, TypeVar

from lakeevolve.avro.parse import shared
from lakeevolve.avro.parse.logical import consumed, logical_type
from lakeevolve.avro.parse.messages import Messages, json_kind, quote
from lakeevolve.avro.parse.names import NAMED, declared, qualify, refer_to_each_other
from lakeevolve.avro.parse.shared import PLAIN
from lakeevolve.avro.parse.undocumented import undocumented
from lakeevolve.avro.parse.walk import walk
from lakeevolve.model.path import AVRO_NAME as _NAME
from lakeevolve.model.same import same_type
from lakeevolve.model.types import (
    NO_DEFAULT,
    PRIMITIVES,
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
    Record,
    Union,
    kind,
)

#: Types within types, with each use of a named type followed: far above real schemas, and low enough that
#: whatever walks a schema stays clear of Python's recursion limit.
MAX_DEPTH: Final = 100
#: Types once each use of a named type is written out: a few lines can stand for 2**60 columns.
MAX_TYPES: Final = 1_000_000
_FLATTER: Final = "each use of a named type counts with all that is in it: flatten the schema, or split it"
MAX_FIXED_SIZE: Final = 2**31 - 1

_HYPHENED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_FULL_NAME: Final = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*\.)*[A-Za-z_][A-Za-z0-9_]*\Z")
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})
_RECORD_KEYS: Final = frozenset({"type", "name", "namespace", "aliases", "doc", "fields"})
_FIELD_KEYS: Final = frozenset({"name", "type", "default", "doc", "aliases", "order"})
_ENUM_KEYS: Final = frozenset({"type", "name", "namespace", "aliases", "doc", "symbols", "default"})
_FIXED_KEYS: Final = frozenset({"type", "name", "namespace", "aliases", "doc", "size"})

_N = TypeVar("_N", Fixed, Enum, Record)


class Parser:
    """The state of one parse: what is defined, and what is being defined."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.names: dict[str, NamedType] = {}
        self.open: set[str] = set()
        #: Full name -> levels and number of types beneath a named type, itself included.
        self.extents: dict[str, tuple[int, int]] = {}
        #: Full name -> JSON path of the definition.
        self.origins: dict[str, str] = {}
        #: For a list of named types: its elements, those that are parsed, and the names of those that are not.
        self.elements: list[Json] = []
        self.parsed: dict[int, AvroType] = {}
        self.later: dict[str, int] = {}
        #: Attributes of all JSON objects that have been looked at.
        self.members = 0

    # Types

    def root(self, document: Json) -> AvroType:
        if not isinstance(document, list) or not refer_to_each_other(document):
            found = self.type_of(document, "$", "", 0)
            self.bound(self.extent(found), "$")
            return found
        self.elements = document
        for index in reversed(range(len(document))):
            self.later[declared(document[index])] = index
        types = [self.element(index, 0) for index in range(len(document))]
        root = next((t for t in reversed(types) if isinstance(t, Record)), types[-1])
        used = {id(t) for t in walk(root)}
        if unused := sum(id(t) not in used for t in types):
            self.messages.warn("$", f"{unused} of the {len(types)} types of the list are not part of the last record")
        return root

    def element(self, index: int, depth: int) -> AvroType:
        if index not in self.parsed:
            node = self.elements[index]
            if self.later.get(declared(node)) == index:
                del self.later[declared(node)]
            self.parsed[index] = self.type_of(node, f"$[{index}]", "", depth)
        return self.parsed[index]

    def type_of(self, node: Json, path: str, namespace: str, depth: int) -> AvroType:
        found = shared.known(node)
        if found is not None:
            self.members += len(node) if type(node) is dict else 0
            return found
        if isinstance(node, str):
            return self.reference(node, path, namespace, depth)
        if depth > MAX_DEPTH:
            self.messages.fail(path, f"the types are nested more than {MAX_DEPTH} levels deep", _FLATTER)
        warnings = len(self.messages.warnings)
        made = self.new_type(node, path, namespace, depth)
        if len(self.messages.warnings) == warnings and shared.is_shared(node):
            shared.keep(node, made, self.extent(made))
        return made

    def new_type(self, node: Json, path: str, namespace: str, depth: int) -> AvroType:
        if isinstance(node, list):
            return self.union(node, path, namespace, depth)
        if not isinstance(node, dict):
            self.messages.fail(path, f"a schema is a name, an object or a list, not {json_kind(node)}")
        self.members += len(node)
        if "type" not in node:
            self.messages.fail(path, 'the attribute "type" is missing')
        match node["type"]:
            case "record" | "error":
                return self.record(node, path, namespace, depth)
            case "enum":
                return self.enum(node, path, namespace)
            case "fixed":
                return self.fixed(node, path, namespace)
            case "array":
                items = self.type_of(self.required(node, "items", path), f"{path}.items", namespace, depth + 1)
                return Array(items, self.no_logical(node, path, {"type", "items"}))
            case "map":
                values = self.type_of(self.required(node, "values", path), f"{path}.values", namespace, depth + 1)
                return Map(values, self.no_logical(node, path, {"type", "values"}))
            case str() as word if word in PRIMITIVES:
                if len(node) == 1:
                    return PLAIN[word]
                logical = self.logical(node, word, 0, path)
                return Primitive(PLAIN[word].name, logical, self.rest(node, {"type", *consumed(logical)}))
            case str() | dict() | list() as inner:
                if others := self.rest(node, {"type"}):
                    self.messages.warn(path, f"{', '.join(others)} beside the use of another type is ignored")
                return self.type_of(inner, f"{path}.type", namespace, depth + 1)
            case other:
                return self.messages.fail(
                    f"{path}.type", f"a type is a name, an object or a list, not {json_kind(other)}"
                )

    def reference(self, name: str, path: str, namespace: str, depth: int) -> AvroType:
        # A plain name that the enclosing namespace does not hold is looked for in the null namespace.
        candidates = (qualify(name, namespace), name)
        for full in candidates:
            if full in self.open:
                return NamedRef(full)
            if full in self.names:
                return self.names[full]
        for full in candidates:
            if full in self.later:
                index = self.later[full]
                self.messages.tolerate(
                    path, f"the type {full} is used before its definition", f"move its definition, $[{index}], up"
                )
                return self.element(index, depth + 1)
        # What is like it is looked for once at most: the search takes a while.
        hint = None if self.messages.lenient else self.near(name)
        self.messages.tolerate(path, f"unknown type {quote(name)}", hint)
        return NamedRef(candidates[0])

    def near(self, name: str) -> str:
        known = [*PRIMITIVES, *NAMED, "array", "map", *self.names, *self.open]
        near = difflib.get_close_matches(name, known[:1000], n=1) if len(name) < 200 else []
        return f"did you mean {near[0]}?" if near else "define a type before its first use"

    def union(self, node: list[Json], path: str, namespace: str, depth: int) -> Union:
        branches = []
        seen: set[str] = set()
        for index, item in enumerate(node):
            at = f"{path}[{index}]"
            branch = self.type_of(item, at, namespace, depth + 1)
            if isinstance(branch, Union):
                self.messages.fail(at, "a union may not hold a union", "list its branches in the outer one")
            name = branch.name if isinstance(branch, (Record, Enum, Fixed, NamedRef)) else kind(branch)
            if name in seen:
                self.messages.fail(at, f"the union has the branch {name} twice")
            seen.add(name)
            branches.append(branch)
        return Union(tuple(branches))

    def record(self, node: dict[str, Json], path: str, namespace: str, depth: int) -> AvroType:
        name = self.define(node, path, namespace)
        inner = name.rpartition(".")[0]
        items = self.required(node, "fields", path, list)
        fields, missing, (levels, count), members = shared.fields(items)
        self.members += members
        for index in missing:
            field = fields[index] = self.field(items[index], f"{path}.fields[{index}]", inner, depth)
            extent = self.extent(field.type)
            levels, count = max(levels, extent[0]), count + extent[1]
        if missing:
            self.check_twice(fields, name, path)
        count += 1
        self.extents[name] = self.bound((levels + 1, count), path)
        props = self.no_logical(node, path, _RECORD_KEYS)
        aliases = self.aliases(node, path, inner, props)
        doc = self.doc(node, path, props)
        return self.close(Record(name, tuple(fields), aliases, doc, node["type"] == "error", props), path)

    def check_twice(self, fields: list[Field], record: str, path: str) -> None:
        seen: set[str] = set()
        for index, field in enumerate(fields):
            if field.name in seen:
                at = f"{path}.fields[{index}].name"
                self.messages.fail(at, f"the record {record} has the field {field.name} twice")
            seen.add(field.name)

    def field(self, item: Json, path: str, namespace: str, depth: int) -> Field:
        """A field that is not shared."""
        if not isinstance(item, dict):
            self.messages.fail(path, f"a field is an object, not {json_kind(item)}")
        self.members += len(item)
        name = self.plain_name(item, path)
        type_ = self.type_of(self.required(item, "type", path), f"{path}.type", namespace, depth + 1)
        default = item.get("default", NO_DEFAULT)
        self.count([default])
        if len(item) == 2 + (default is not NO_DEFAULT):
            return Field(name, type_, default)
        props = self.rest(item, _FIELD_KEYS)
        if "logicalType" in props:
            self.messages.warn(path, "a logical type on the field has no effect: it belongs inside the field's type")
        aliases = self.aliases(item, path, None, props)
        order = item.get("order")
        if order is not None and not (isinstance(order, str) and order in _ORDERS):
            self.messages.tolerate(f"{path}.order", 'the order of a field is "ascending", "descending" or "ignore"')
            props["order"], order = order, None
        return Field(name, type_, default, self.doc(item, path, props), aliases, order, props)

    def enum(self, node: dict[str, Json], path: str, namespace: str) -> AvroType:
        name = self.define(node, path, namespace)
        symbols = self.required(node, "symbols", path, list)
        seen: set[str] = set()
        for index, symbol in enumerate(symbols):
            at = f"{path}.symbols[{index}]"
            if not isinstance(symbol, str):
                self.messages.fail(at, f"a symbol is text, not {json_kind(symbol)}")
            if not _NAME.match(symbol):
                self.messages.tolerate(at, f"the symbol {quote(symbol)} is not an Avro name")
            if symbol in seen:
                self.messages.tolerate(at, f"the enum {name} has the symbol {quote(symbol)} twice")
            seen.add(symbol)
        props = self.no_logical(node, path, _ENUM_KEYS)
        default = node.get("default")
        if default is not None and (not isinstance(default, str) or default not in seen):
            self.messages.tolerate(f"{path}.default", f"the default of the enum {name} is not one of its symbols")
            props["default"], default = default, None
        aliases = self.aliases(node, path, name.rpartition(".")[0], props)
        self.extents[name] = (1, 1)
        return self.close(Enum(name, tuple(symbols), default, aliases, self.doc(node, path, props), props), path)

    def fixed(self, node: dict[str, Json], path: str, namespace: str) -> AvroType:
        name = self.define(node, path, namespace)
        size = self.required(node, "size", path)
        if type(size) is not int or not 0 <= size <= MAX_FIXED_SIZE:
            self.messages.fail(f"{path}.size", f"the size of a fixed is a whole number from 0 to {MAX_FIXED_SIZE}")
        logical = self.logical(node, "fixed", size, path)
        props = self.rest(node, _FIXED_KEYS | consumed(logical))
        aliases = self.aliases(node, path, name.rpartition(".")[0], props)
        self.extents[name] = (1, 1)
        return self.close(Fixed(name, size, logical, aliases, self.doc(node, path, props), props), path)

    # Names

    def define(self, node: dict[str, Json], path: str, namespace: str) -> str:
        """The full name of a definition that begins."""
        name = self.required(node, "name", path, str)
        own = node.get("namespace")
        if own is not None and not isinstance(own, str):
            self.messages.fail(f"{path}.namespace", f"a namespace is text, not {json_kind(own)}")
        full = qualify(name, namespace if own is None else own)
        if not _FULL_NAME.match(full):
            said = f"{path}.name" if "." in name or own is None else f"{path}.namespace"
            self.check_name(full, said, f"{path}.name")
        if full.rpartition(".")[2] in PRIMITIVES:
            self.messages.fail(
                f"{path}.name", f"a type may not have the name of the primitive {full.rpartition('.')[2]}"
            )
        if full in self.open or (full in self.names and not self.messages.lenient):
            self.messages.fail(
                f"{path}.name", f"the type {full} is defined twice", "use its name after the first definition"
            )
        self.open.add(full)
        self.origins.setdefault(full, path)
        return full

    def close(self, found: _N, path: str) -> NamedType:
        """The definition is complete; a second one of the same name has to say the same of the data."""
        self.open.discard(found.name)
        earlier = self.names.setdefault(found.name, found)
        if earlier is found:
            return found
        said = f"the type {found.name} is defined twice"
        if not same_type(earlier, found):
            if not same_type(undocumented(earlier), undocumented(found)):
                self.messages.fail(f"{path}.name", f"{said}, and differently")
            said += ", with other docs or properties; the first definition counts"
        self.messages.warn(path, said)
        return earlier

    def plain_name(self, item: dict[str, Json], path: str) -> str:
        name: str = self.required(item, "name", path, str)
        if not _NAME.match(name):
            self.bad_name(f"{path}.name", name)
        return name

    def check_name(self, full: str, namespace_path: str, name_path: str, *, alias: bool = False) -> None:
        namespace, _, short = full.rpartition(".")
        if not _NAME.match(short):
            self.bad_name(name_path, short)
        if namespace and not all(_NAME.match(part) for part in namespace.split(".")):
            if not all(namespace.split(".")):
                self.bad_name(namespace_path, full)
            said = f"the namespace {quote(namespace)} is not made of Avro names"
            # Avro Java does not look at namespaces, and names match without them: hyphens are found in schemas that are
            # in use. An alias has to be able to name what an old schema, leniently read, was called.
            if alias or all(_HYPHENED.match(part) for part in namespace.split(".")):
                self.messages.warn(namespace_path, said)
            else:
                self.messages.tolerate(
                    namespace_path,
                    said,
                    "its parts are made of letters, digits and _, and do not begin with a digit",
                )

    def bad_name(self, path: str, name: str) -> None:
        if not name.rpartition(".")[2]:
            self.messages.fail(path, "a name is empty")
        self.messages.tolerate(
            path,
            f"{quote(name)} is not an Avro name",
            "names are made of letters, digits and _, and do not begin with a digit",
        )

    def aliases(
        self, node: dict[str, Json], path: str, namespace: str | None, props: dict[str, Json]
    ) -> tuple[str, ...]:
        """The aliases, those of a type (which has a namespace) as full names."""
        names = node.get("aliases")
        if names is None:
            return ()
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.messages.tolerate(f"{path}.aliases", "aliases are a list of names")
            props["aliases"] = names
            return ()
        found = []
        for index, name in enumerate(names):
            at = f"{path}.aliases[{index}]"
            if namespace is None and not _NAME.match(name):
                self.bad_name(at, name)
            elif namespace is not None:
                name = qualify(name, namespace)
                self.check_name(name, at, at, alias=True)
            found.append(name)
        return tuple(found)

    # Attributes

    def required(
        self, node: dict[str, Json], key: str, path: str, of: type[str] | type[list[Json]] | None = None
    ) -> Any:
        value = node.get(key)
        if value is None and key not in node:
            self.messages.fail(path, f'the attribute "{key}" is missing')
        if of is not None and not isinstance(value, of):
            wanted = "text" if of is str else "a list"
            self.messages.fail(f"{path}.{key}", f'"{key}" has to be {wanted}, not {json_kind(value)}')
        return value

    def doc(self, node: dict[str, Json], path: str, props: dict[str, Json]) -> str | None:
        doc = node.get("doc")
        if doc is None or isinstance(doc, str):
            return doc
        self.messages.warn(f"{path}.doc", "a doc that is not text is ignored")
        props["doc"] = doc
        return None

    def no_logical(self, node: dict[str, Json], path: str, known: Set[str]) -> dict[str, Json]:
        if "logicalType" in node:
            self.messages.warn(path, f"a logical type is not valid on {node['type']} and is ignored")
        return self.rest(node, known)

    def rest(self, node: Mapping[str, Json], known: Set[str]) -> dict[str, Json]:
        """The attributes that Avro does not define."""
        if node.keys() <= known:
            return {}
        found = {key: value for key, value in node.items() if key not in known}
        self.count(found.values())
        return found

    def count(self, values: Iterable[Json]) -> None:
        """Count the attributes within some values."""
        for value in values:
            if isinstance(value, dict):
                self.members += len(value)
                self.count(value.values())
            elif isinstance(value, list):
                self.count(value)

    def logical(self, node: dict[str, Json], carrier: str, size: int, path: str) -> Logical | None:
        logical, reason = logical_type(node, carrier, size)
        if reason is not None:
            self.messages.warn(path, f"the logical type {quote(node['logicalType'])} {reason} and is ignored")
        return logical

    # Bounds

    def extent(self, type_: AvroType) -> tuple[int, int]:
        """Levels and number of types, with each use of a named type followed."""
        match type_:
            case Primitive() | NamedRef():
                return 1, 1
            case Record() | Enum() | Fixed():
                return self.extents[type_.name]
            case Array() | Map():
                levels, count = self.extent(type_.items if isinstance(type_, Array) else type_.values)
                return levels + 1, count + 1
            case Union():
                below = [self.extent(branch) for branch in type_.branches]
                return 1 + max((levels for levels, _ in below), default=0), 1 + sum(count for _, count in below)

    def bound(self, extent: tuple[int, int], path: str) -> tuple[int, int]:
        if extent[0] > MAX_DEPTH:
            self.messages.fail(path, f"the types are nested more than {MAX_DEPTH} levels deep", _FLATTER)
        if extent[1] > MAX_TYPES:
            self.messages.fail(
                path, f"the schema stands for more than {MAX_TYPES} types once the uses of names are followed"
            )
        return extent

    def check_defaults(self, root: AvroType) -> None:
        from lakeevolve.avro.defaults import check_default

        for type_ in walk(root):
            if isinstance(type_, Record):
                for index, field in enumerate(type_.fields):
                    if field.has_default and (reason := check_default(field.type, field.default)):
                        at = f"{self.origins[type_.name]}.fields[{index}].default"
                        self.messages.warn(at, f"the default of {field.name} is not valid: {reason}")
