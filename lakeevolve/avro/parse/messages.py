"""What a parse has to say: errors with their place, and warnings."""

from __future__ import annotations

import json
from typing import NoReturn

from lakeevolve.avro.parse.positions import json_lines
from lakeevolve.errors import SchemaError
from lakeevolve.model.types import Json


class Messages:
    """Errors and warnings of one parse. Paths are JSON paths; ``text`` is the JSON, once it is known to be valid."""

    def __init__(self, source_name: str | None, lenient: bool) -> None:
        self.source_name = source_name
        self.lenient = lenient
        self.text: str | None = None
        self.warnings: list[str] = []

    def fail(self, path: str, what: str, hint: str | None = None) -> NoReturn:
        line = json_lines(self.text).get(path) if self.text is not None else None
        short = path if len(path) <= 200 else f"{path[:90]} ... {path[-90:]}"
        self.fail_at(short if line is None else f"{short}, line {line}", what, hint)

    def fail_at(self, where: str, what: str, hint: str | None = None) -> NoReturn:
        raise SchemaError(what, where=where if self.source_name is None else f"{self.source_name}: {where}", hint=hint)

    def warn(self, path: str, what: str) -> None:
        self.warnings.append(f"{what} ({path})")

    def tolerate(self, path: str, what: str, hint: str | None = None) -> None:
        """An error, or in lenient mode a warning."""
        if not self.lenient:
            self.fail(path, what, hint)
        self.warn(path, what)


def quote(name: Json) -> str:
    """A JSON value for a message, of bounded length."""
    text = json.dumps(name)
    return text if len(text) <= 80 else text[:77] + "..."


def json_kind(value: Json) -> str:
    """What a JSON value is, for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
