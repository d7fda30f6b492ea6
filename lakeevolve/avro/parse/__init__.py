"""Avro schema JSON to the model (Avro 1.12, "Schema Declaration").

The parser is strict about everything that two readers might understand differently, and names the JSON path of what
is wrong. ``lenient`` exists for old versions that were accepted elsewhere and cannot be mended any more: what does not
change how data is read becomes a warning. A field's default is not judged here: an unusable one matters only to a
reader that needs it (:mod:`lakeevolve.avro.resolution`).
"""

from __future__ import annotations

from typing import Any

from lakeevolve.avro.parse.document import MAX_JSON_DEPTH, checked_copy, load, may_repeat, repeated
from lakeevolve.avro.parse.messages import Messages
from lakeevolve.avro.parse.positions import Lines
from lakeevolve.avro.parse.types import MAX_DEPTH, MAX_TYPES, Parser
from lakeevolve.avro.parse.walk import walk
from lakeevolve.errors import SchemaError
from lakeevolve.model.schema import Schema
from lakeevolve.model.types import PRIMITIVES, Json

__all__ = ["MAX_DEPTH", "MAX_TYPES", "parse", "walk"]


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
        an enum default that is no symbol, a second definition of a type that differs in docs and properties at most
        (the first one counts), a type used before its definition in a list.

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
    messages = Messages(source_name, lenient)
    parser = Parser(messages)
    try:
        if isinstance(source, str):
            text = source.removeprefix("\ufeff")
            name = "" if text.startswith(("{", "[")) else text.strip()
            document: Json = name if name in PRIMITIVES else load(text, messages)
            messages.text = text
        else:
            document = checked_copy(source, messages)
        root = parser.root(document)
    except RecursionError:
        messages.fail("$", f"the JSON is nested more than {MAX_JSON_DEPTH} levels deep")
    if text is not None and may_repeat(text, parser.members):
        messages.warnings[:0] = repeated(text)
    if lenient:
        parser.check_defaults(root)
    lines = Lines(text, root, parser.origins) if text is not None else {}
    return Schema(root, source=source_name, lines=lines, warnings=tuple(messages.warnings))
