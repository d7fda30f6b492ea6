"""Avro schema JSON to the model (Avro 1.12, "Schema Declaration").

The parser is strict about everything that two readers might understand differently, and names the JSON path of what
is wrong. ``lenient`` exists for old versions that were accepted elsewhere and cannot be mended any more: what does not
change how data is read becomes a warning. A field's default is not judged here: an unusable one matters only to a
reader that needs it (:mod:`lakeevolve.avro.resolution`).
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

from lakeevolve.avro.positions import Lines, json_child, json_lines
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import (
    NO_DEFAULT,
    NULL,
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

#: Types within types, with each use of a named type followed: far above real schemas, far below Python's own limit.
MAX_DEPTH: Final = 200
#: Types once each use of a named type is written out: a few lines can stand for 2**60 columns.
MAX_TYPES: Final = 1_000_000
#: JSON arrays and objects within each other; a record takes three per level.
MAX_JSON_DEPTH: Final = 3 * MAX_DEPTH + 20
MAX_FIXED_SIZE: Final = 2**31 - 1
MAX_NUMBER_BITS: Final = 4096

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})
_PLAIN: Final[Mapping[str, Primitive]] = {
    "null": NULL,
    "boolean": Primitive("boolean"),
    "int": Primitive("int"),
    "long": Primitive("long"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "bytes": Primitive("bytes"),
    "string": Primitive("string"),
}
#: logical type -> the types that may carry it (Avro 1.12, "Logical Types").
_CARRIERS: Final[Mapping[str, frozenset[str]]] = {
    "decimal": frozenset({"bytes", "fixed"}),
    "big-decimal": frozenset({"bytes"}),
    "uuid": frozenset({"string", "fixed"}),
    "date": frozenset({"int"}),
    "time-millis": frozenset({"int"}),
    "time-micros": frozenset({"long"}),
    "timestamp-millis": frozenset({"long"}),
    "timestamp-micros": frozenset({"long"}),
    "timestamp-nanos": frozenset({"long"}),
    "local-timestamp-millis": frozenset({"long"}),
    "local-timestamp-micros": frozenset({"long"}),
    "local-timestamp-nanos": frozenset({"long"}),
    "duration": frozenset({"fixed"}),
}
_SIZES: Final = {"uuid": 16, "duration": 12}

_RECORD_KEYS: Final = frozenset({"type", "name", "namespace", "aliases", "doc", "fields"})
_FIELD_KEYS: Final = frozenset({"name", "type", "default", "doc", "aliases", "order"})
_ENUM_KEYS: Final = frozenset({"type", "name", "namespace", "aliases", "doc", "symbols", "default"})
_FIXED_KEYS: Final = frozenset({"type", "name", "namespace", "aliases", "doc", "size"})

_N = TypeVar("_N", Fixed, Enum, Record)


def parse(
    source: str | bytes | dict[str, Any] | list[Any], *, source_name: str | None = None, lenient: bool = False
) -> Schema:
    """Read an Avro schema.

    Parameters
    ----------
    source:
        Avro JSON as text or UTF-8 bytes (a bare primitive name is accepted too), or the parsed JSON. A list of which
        all elements are definitions of named types and at least one refers to another is a file of named types: its
        last record is the schema. Every other list is a union.
    source_name:
        Where the text came from, for messages and ``Schema.source``.
    lenient:
        Turn what does not change how data is read into a warning: names that are not Avro names, duplicate symbols,
        an enum default that is no symbol, the same definition twice, a type used before its definition in a list.

    Returns
    -------
    Schema
        With line numbers where *source* was text, and with warnings (invalid logical types, ...).

    Raises
    ------
    SchemaError
        The text is not JSON (``where`` holds line and column) or not a schema (``where`` holds the JSON path).

    Examples
    --------
    >>> parse('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}').record.name
    'Order'
    """
    text: str | None = None
    if isinstance(source, (bytes, bytearray, memoryview)):
        try:
            source = bytes(source).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SchemaError(
                f"not UTF-8 text: byte {error.start}", where=source_name, hint="save the schema as UTF-8"
            ) from None
    parser = _Parser(source_name, lenient)
    try:
        if isinstance(source, str):
            text = source.removeprefix("\ufeff")
            name = text.strip()
            document: Json = name if name in PRIMITIVES else parser.load(text)
            parser.text = text
        else:
            document = source
        document = parser.clean(document, "$", 0)
        root = parser.root(document)
    except RecursionError:
        raise SchemaError("the schema is nested too deep", where=source_name) from None
    if lenient:
        parser.check_defaults(root)
    lines = Lines(text, root, parser.origins) if text is not None else {}
    return Schema(root, source=source_name, lines=lines, warnings=tuple(parser.warnings))


class _Parser:
    """The state of one parse: what is defined, what is being defined, and what to warn of."""

    def __init__(self, source_name: str | None, lenient: bool) -> None:
        self.source_name = source_name
        self.lenient = lenient
        self.text: str | None = None
        self.warnings: list[str] = []
        self.names: dict[str, NamedType] = {}
        self.open: set[str] = set()
        #: Full name -> levels and number of types beneath a named type, itself included.
        self.extents: dict[str, tuple[int, int]] = {}
        self.origins: dict[str, str] = {}
        #: For a list of named types: its elements, those that are parsed, and the names of those that are not.
        self.elements: list[Json] = []
        self.parsed: dict[int, AvroType] = {}
        self.later: dict[str, int] = {}

    # Messages

    def fail(self, path: str, what: str, hint: str | None = None) -> NoReturn:
        line = json_lines(self.text).get(path) if self.text is not None else None
        where = path if line is None else f"{path}, line {line}"
        raise SchemaError(what, where=where if self.source_name is None else f"{self.source_name}: {where}", hint=hint)

    def warn(self, path: str, what: str) -> None:
        self.warnings.append(f"{what} ({path})")

    def tolerate(self, path: str, what: str, hint: str | None = None) -> None:
        """An error, or in lenient mode a warning."""
        if not self.lenient:
            self.fail(path, what, hint)
        self.warn(path, what)

    # JSON

    def load(self, text: str) -> Json:
        try:
            return json.loads(text, object_pairs_hook=self.members)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise SchemaError(
                f"not valid JSON: {error.msg}",
                where=where if self.source_name is None else f"{self.source_name}: {where}",
            ) from None
        except ValueError:  # a whole number of more digits than Python converts
            raise SchemaError("not valid JSON: a number has too many digits", where=self.source_name) from None

    def members(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.warnings.append(f"{_quote(key)} is given twice in one JSON object; the last one counts")
                seen.add(key)
        return found

    def clean(self, value: Json, path: str, depth: int) -> Json:
        """A copy that is JSON and nothing else, so that the schema shares no state with its source."""
        if depth > MAX_JSON_DEPTH:
            self.fail("$", f"the JSON is nested more than {MAX_JSON_DEPTH} levels deep")
        if isinstance(value, dict):
            found = {}
            for key, item in value.items():
                if type(key) is not str:
                    self.fail(path, f"not JSON: a key is of the type {type(key).__name__}")
                if type(item) is str:
                    found[key] = item if item.isascii() else self.text_of(item, json_child(path, key))
                else:
                    found[key] = self.clean(item, json_child(path, key), depth + 1)
            return found
        if isinstance(value, list):
            items = []
            for index, item in enumerate(value):
                items.append(self.clean(item, f"{path}[{index}]", depth + 1))
            return items
        if isinstance(value, str):
            return self.text_of(value, path)
        if value is None or isinstance(value, bool):
            return value
        if type(value) is int:
            if value.bit_length() > MAX_NUMBER_BITS:
                self.fail(path, "the number is too large")
            return value
        if type(value) is float:
            if not math.isfinite(value):
                self.fail(path, "the number is not finite", "JSON has neither NaN nor Infinity")
            return value
        return self.fail(path, f"not JSON: a value of the type {type(value).__name__}")

    def text_of(self, value: str, path: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail(path, "the text holds half of a surrogate pair, which is not Unicode")
        return str.__str__(value)

    # Types

    def root(self, document: Json) -> AvroType:
        if not isinstance(document, list) or not _refer_to_each_other(document):
            found = self.type_of(document, "$", "", 0)
            self.bound(self.extent(found), "$")
            return found
        self.elements = document
        for index in reversed(range(len(document))):
            self.later[_declared(document[index])] = index
        types = [self.element(index, 0) for index in range(len(document))]
        root = next((t for t in reversed(types) if isinstance(t, Record)), types[-1])
        used = {id(t) for t in walk(root)}
        if unused := sum(id(t) not in used for t in types):
            self.warn("$", f"{unused} of the {len(types)} types of the list are not part of the last record")
        return root

    def element(self, index: int, depth: int) -> AvroType:
        if index not in self.parsed:
            node = self.elements[index]
            if self.later.get(_declared(node)) == index:
                del self.later[_declared(node)]
            self.parsed[index] = self.type_of(node, f"$[{index}]", "", depth)
        return self.parsed[index]

    def type_of(self, node: Json, path: str, namespace: str, depth: int) -> AvroType:
        if isinstance(node, str):
            return _PLAIN.get(node) or self.reference(node, path, namespace, depth)
        if depth > MAX_DEPTH:
            self.fail(path, f"the types are nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, list):
            return self.union(node, path, namespace, depth)
        if not isinstance(node, dict):
            self.fail(path, f"a schema is a name, an object or a list, not {_json_kind(node)}")
        if "type" not in node:
            self.fail(path, 'the attribute "type" is missing')
        match node["type"]:
            case "record" | "error":
                return self.record(node, path, namespace, depth)
            case "enum":
                return self.enum(node, path, namespace)
            case "fixed":
                return self.fixed(node, path, namespace)
            case "array":
                items = self.type_of(self.required(node, "items", path), f"{path}.items", namespace, depth + 1)
                props = self.no_logical(node, path, {"type", "items"})
                return _array(items) if not props and _shareable(items) else Array(items, props)
            case "map":
                values = self.type_of(self.required(node, "values", path), f"{path}.values", namespace, depth + 1)
                props = self.no_logical(node, path, {"type", "values"})
                return _map(values) if not props and _shareable(values) else Map(values, props)
            case str() as word if word in PRIMITIVES:
                if len(node) == 1:
                    return _PLAIN[word]
                logical = self.logical(node, word, 0, path)
                props = _rest(node, {"type", *_consumed(logical)})
                return Primitive(_PLAIN[word].name, logical, props) if props else _primitive(word, logical)
            case str() | dict() | list() as inner:
                if others := _rest(node, {"type"}):
                    self.warn(path, f"{', '.join(others)} beside the use of another type is ignored")
                return self.type_of(inner, f"{path}.type", namespace, depth + 1)
            case other:
                return self.fail(f"{path}.type", f"a type is a name, an object or a list, not {_json_kind(other)}")

    def reference(self, name: str, path: str, namespace: str, depth: int) -> AvroType:
        # A plain name that the enclosing namespace does not hold is looked for in the null namespace.
        candidates = (_qualify(name, namespace), name)
        for full in candidates:
            if full in self.open:
                return NamedRef(full)
            if full in self.names:
                return self.names[full]
        for full in candidates:
            if full in self.later:
                index = self.later[full]
                self.tolerate(
                    path, f"the type {full} is used before its definition", f"move its definition, $[{index}], up"
                )
                return self.element(index, depth + 1)
        known = [*PRIMITIVES, *_NAMED, "array", "map", *self.names, *self.open]
        near = difflib.get_close_matches(name, known, n=1) if len(name) < 200 else []
        hint = f"did you mean {near[0]}?" if near else "define a type before its first use"
        self.tolerate(path, f"unknown type {_quote(name)}", hint)
        return NamedRef(candidates[0])

    def union(self, node: list[Json], path: str, namespace: str, depth: int) -> Union:
        branches = []
        seen: set[str] = set()
        for index, item in enumerate(node):
            at = f"{path}[{index}]"
            branch = self.type_of(item, at, namespace, depth + 1)
            if isinstance(branch, Union):
                self.fail(at, "a union may not hold a union", "list its branches in the outer one")
            name = branch.name if isinstance(branch, (Record, Enum, Fixed, NamedRef)) else kind(branch)
            if name in seen:
                self.fail(at, f"the union has the branch {name} twice")
            seen.add(name)
            branches.append(branch)
        if all(_shareable(branch) for branch in branches):
            return _union(tuple(branches))
        return Union(tuple(branches))

    def record(self, node: dict[str, Json], path: str, namespace: str, depth: int) -> AvroType:
        name = self.define(node, path, namespace)
        inner = name.rpartition(".")[0]
        fields: list[Field] = []
        seen: set[str] = set()
        levels, count = 0, 1
        for index, item in enumerate(self.required(node, "fields", path, list)):
            at = f"{path}.fields[{index}]"
            if not isinstance(item, dict):
                self.fail(at, f"a field is an object, not {_json_kind(item)}")
            short = self.plain_name(item, at)
            if short in seen:
                self.fail(f"{at}.name", f"the record {name} has the field {short} twice")
            seen.add(short)
            below = self.type_of(self.required(item, "type", at), f"{at}.type", inner, depth + 1)
            fields.append(self.field(item, at, short, below))
            extent = self.extent(below)
            levels = max(levels, extent[0])
            count += extent[1]
        self.extents[name] = self.bound((levels + 1, count), path)
        props = self.no_logical(node, path, _RECORD_KEYS)
        aliases = self.aliases(node, path, inner, props)
        doc = self.doc(node, path, props)
        return self.close(Record(name, tuple(fields), aliases, doc, node["type"] == "error", props), path)

    def field(self, item: dict[str, Json], path: str, name: str, type_: AvroType) -> Field:
        default = item.get("default", NO_DEFAULT)
        if len(item) == 2 + (default is not NO_DEFAULT):
            return Field(name, type_, default)
        props = _rest(item, _FIELD_KEYS)
        if "logicalType" in props:
            self.warn(path, "a logical type on the field has no effect: it belongs inside the field's type")
        aliases = self.aliases(item, path, None, props)
        order = item.get("order")
        if order is not None and order not in _ORDERS:
            self.tolerate(f"{path}.order", 'the order of a field is "ascending", "descending" or "ignore"')
            props["order"], order = order, None
        return Field(name, type_, default, self.doc(item, path, props), aliases, order, props)

    def enum(self, node: dict[str, Json], path: str, namespace: str) -> AvroType:
        name = self.define(node, path, namespace)
        symbols = self.required(node, "symbols", path, list)
        seen: set[str] = set()
        for index, symbol in enumerate(symbols):
            at = f"{path}.symbols[{index}]"
            if not isinstance(symbol, str):
                self.fail(at, f"a symbol is text, not {_json_kind(symbol)}")
            if not _NAME.match(symbol):
                self.tolerate(at, f"the symbol {_quote(symbol)} is not an Avro name")
            if symbol in seen:
                self.tolerate(at, f"the enum {name} has the symbol {_quote(symbol)} twice")
            seen.add(symbol)
        props = self.no_logical(node, path, _ENUM_KEYS)
        default = node.get("default")
        if default is not None and (not isinstance(default, str) or default not in seen):
            self.tolerate(f"{path}.default", f"the default of the enum {name} is not one of its symbols")
            props["default"], default = default, None
        aliases = self.aliases(node, path, name.rpartition(".")[0], props)
        self.extents[name] = (1, 1)
        return self.close(Enum(name, tuple(symbols), default, aliases, self.doc(node, path, props), props), path)

    def fixed(self, node: dict[str, Json], path: str, namespace: str) -> AvroType:
        name = self.define(node, path, namespace)
        size = self.required(node, "size", path)
        if type(size) is not int or not 0 <= size <= MAX_FIXED_SIZE:
            self.fail(f"{path}.size", f"the size of a fixed is a whole number from 0 to {MAX_FIXED_SIZE}")
        logical = self.logical(node, "fixed", size, path)
        props = _rest(node, _FIXED_KEYS | _consumed(logical))
        aliases = self.aliases(node, path, name.rpartition(".")[0], props)
        self.extents[name] = (1, 1)
        return self.close(Fixed(name, size, logical, aliases, self.doc(node, path, props), props), path)

    # Names

    def define(self, node: dict[str, Json], path: str, namespace: str) -> str:
        """The full name of a definition that begins."""
        name = self.required(node, "name", path, str)
        own = node.get("namespace")
        if own is not None and not isinstance(own, str):
            self.fail(f"{path}.namespace", f"a namespace is text, not {_json_kind(own)}")
        full = _qualify(name, namespace if own is None else own)
        self.check_name(full, path, f"{path}.name")
        if full.rpartition(".")[2] in PRIMITIVES:
            self.fail(f"{path}.name", f"a type may not have the name of the primitive {full.rpartition('.')[2]}")
        if full in self.open or (full in self.names and not self.lenient):
            self.fail(f"{path}.name", f"the type {full} is defined twice", "use its name after the first definition")
        self.open.add(full)
        self.origins.setdefault(full, path)
        return full

    def close(self, found: _N, path: str) -> NamedType:
        """The definition is complete; a second one of the same name has to be the same."""
        self.open.discard(found.name)
        earlier = self.names.setdefault(found.name, found)
        if earlier is not found:
            if earlier != found:
                self.fail(f"{path}.name", f"the type {found.name} is defined twice, and differently")
            self.warn(path, f"the type {found.name} is defined twice")
        return earlier

    def plain_name(self, item: dict[str, Json], path: str) -> str:
        name: str = self.required(item, "name", path, str)
        if not _NAME.match(name):
            self.bad_name(f"{path}.name", name)
        return name

    def check_name(self, full: str, namespace_path: str, name_path: str) -> None:
        namespace, _, short = full.rpartition(".")
        if not _NAME.match(short):
            self.bad_name(name_path, short)
        if namespace and not all(_NAME.match(part) for part in namespace.split(".")):
            if not all(namespace.split(".")):
                self.bad_name(namespace_path, full)
            # Avro Java does not look at namespaces, and names match without them.
            self.warn(namespace_path, f"the namespace {_quote(namespace)} is not made of Avro names")

    def bad_name(self, path: str, name: str) -> None:
        if not name.rpartition(".")[2]:
            self.fail(path, "a name is empty")
        self.tolerate(
            path,
            f"{_quote(name)} is not an Avro name",
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
            self.tolerate(f"{path}.aliases", "aliases are a list of names")
            props["aliases"] = names
            return ()
        found = []
        for index, name in enumerate(names):
            at = f"{path}.aliases[{index}]"
            if namespace is None and not _NAME.match(name):
                self.bad_name(at, name)
            elif namespace is not None:
                name = _qualify(name, namespace)
                self.check_name(name, at, at)
            found.append(name)
        return tuple(found)

    # Attributes

    def required(
        self, node: dict[str, Json], key: str, path: str, of: type[str] | type[list[Json]] | None = None
    ) -> Any:
        value = node.get(key)
        if value is None and key not in node:
            self.fail(path, f'the attribute "{key}" is missing')
        if of is not None and not isinstance(value, of):
            wanted = "text" if of is str else "a list"
            self.fail(f"{path}.{key}", f'"{key}" has to be {wanted}, not {_json_kind(value)}')
        return value

    def doc(self, node: dict[str, Json], path: str, props: dict[str, Json]) -> str | None:
        doc = node.get("doc")
        if doc is None or isinstance(doc, str):
            return doc
        self.warn(f"{path}.doc", "a doc that is not text is ignored")
        props["doc"] = doc
        return None

    def no_logical(self, node: dict[str, Json], path: str, known: Collection[str]) -> dict[str, Json]:
        if "logicalType" in node:
            self.warn(path, f"a logical type is not valid on {node['type']} and is ignored")
        return _rest(node, known)

    def logical(self, node: dict[str, Json], carrier: str, size: int, path: str) -> Logical | None:
        """The logical type, or None and a warning where it is not valid: a reader must then ignore it."""
        name = node.get("logicalType")
        if name is None:
            return None
        reason = None
        carriers = _CARRIERS.get(name) if isinstance(name, str) else None
        if carriers is None:
            reason = "is not known"
        elif carrier not in carriers:
            reason = f"is not valid on {carrier}"
        elif carrier == "fixed" and size != _SIZES.get(name, size):
            reason = f"needs a fixed of {_SIZES[name]} bytes"
        elif name == "decimal":
            precision, scale = node.get("precision"), node.get("scale", 0)
            if type(precision) is not int or precision < 1:
                reason = "needs a precision of 1 or more"
            elif type(scale) is not int or not 0 <= scale <= precision:
                reason = "needs a scale from 0 to its precision"
            elif carrier == "fixed" and precision > math.floor((8 * size - 1) * math.log10(2)):
                reason = f"has more digits than {size} bytes hold"
            else:
                return Logical(name, precision, scale)
        if reason is None:
            return Logical(name)
        self.warn(path, f"the logical type {_quote(name)} {reason} and is ignored")
        return None

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
            self.fail(path, f"the types are nested more than {MAX_DEPTH} levels deep")
        if extent[1] > MAX_TYPES:
            self.fail(path, f"the schema stands for more than {MAX_TYPES} types once the uses of names are followed")
        return extent

    def check_defaults(self, root: AvroType) -> None:
        from lakeevolve.avro.defaults import check_default

        for type_ in walk(root):
            if isinstance(type_, Record):
                for index, field in enumerate(type_.fields):
                    if field.has_default and (reason := check_default(field.type, field.default)):
                        at = f"{self.origins[type_.name]}.fields[{index}].default"
                        self.warn(at, f"the default of {field.name} is not valid: {reason}")


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


# Types that hold no names and no attributes are one object wherever they occur, so that what compares schemas finds most
# fields unchanged at a glance.


def _shareable(type_: AvroType) -> bool:
    return isinstance(type_, Primitive) and not type_.props


@functools.lru_cache(4096)
def _primitive(name: str, logical: Logical | None) -> Primitive:
    return _PLAIN[name] if logical is None else Primitive(_PLAIN[name].name, logical)


@functools.lru_cache(4096)
def _union(branches: tuple[AvroType, ...]) -> Union:
    return Union(branches)


@functools.lru_cache(4096)
def _array(items: AvroType) -> Array:
    return Array(items)


@functools.lru_cache(4096)
def _map(values: AvroType) -> Map:
    return Map(values)


def _refer_to_each_other(nodes: list[Json]) -> bool:
    """Whether a list is a file of named types: only definitions, and one uses the name of another."""
    if len(nodes) < 2 or not all(isinstance(n, dict) and _defines(n) for n in nodes):
        return False
    declared = {_declared(node) for node in nodes}
    for node in nodes:
        own = _declared(node)
        todo: list[tuple[Json, str]] = [(node, "")]
        while todo:
            item, namespace = todo.pop()
            if isinstance(item, str):
                if {item, _qualify(item, namespace)} & (declared - {own}):
                    return True
            elif isinstance(item, list):
                todo.extend((below, namespace) for below in item)
            elif isinstance(item, dict):
                inner = _declared(item, namespace).rpartition(".")[0] if _defines(item) else namespace
                todo.extend((item[key], inner) for key in ("type", "items", "values", "fields") if key in item)
    return False


def _defines(node: dict[str, Json]) -> bool:
    return isinstance(node.get("type"), str) and node["type"] in _NAMED


def _declared(node: dict[str, Json], namespace: str = "") -> str:
    """The full name that a definition gives itself; empty where it is not valid."""
    name, own = node.get("name"), node.get("namespace")
    if not isinstance(name, str):
        return ""
    return _qualify(name, own if isinstance(own, str) else namespace)


def _qualify(name: str, namespace: str) -> str:
    if "." in name:
        return name.removeprefix(".")
    return f"{namespace}.{name}" if namespace else name


def _rest(node: Mapping[str, Json], known: Collection[str]) -> dict[str, Json]:
    return {key: value for key, value in node.items() if key not in known}


def _consumed(logical: Logical | None) -> frozenset[str]:
    """The attributes that a valid logical type takes in."""
    if logical is None:
        return frozenset()
    return frozenset({"logicalType", "precision", "scale"} if logical.name == "decimal" else {"logicalType"})


def _quote(name: Json) -> str:
    text = json.dumps(name)
    return text if len(text) <= 80 else text[:77] + "..."


def _json_kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
