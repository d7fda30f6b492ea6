"""Where things stand in a schema's text: line numbers by JSON path and by schema path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from lakeevolve.model import path as paths
from lakeevolve.model.types import Array, AvroType, Map, Record, Union, branch_names

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|\n|[^\s\[\]{},:"]+')
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


def json_child(parent: str, key: str) -> str:
    """The JSON path of an object's member: ``$.fields``, or ``$["odd key"]``."""
    return f"{parent}.{key}" if _IDENTIFIER.match(key) else f"{parent}[{json.dumps(key)}]"


def json_lines(text: str) -> dict[str, int]:
    """The line (from 1) on which each value of a valid JSON text begins, by JSON path."""
    found: dict[str, int] = {}
    line = 1
    outer: list[tuple[str, str | None, int]] = []
    at, key, index = "", None, -1
    for match in _TOKEN.finditer(text):
        token = match.group()
        first = token[0]
        if first == "\n":
            line += 1
        elif first in "}]":
            at, key, index = outer.pop()
        elif first == ",":
            key = None
            index += index >= 0
        elif first == ":":
            pass
        elif at and index < 0 and key is None:
            key = json.loads(token)
        else:
            here = "$" if not at else f"{at}[{index}]" if key is None else json_child(at, key)
            found[here] = line
            if first in "{[":
                outer.append((at, key, index))
                at, key, index = here, None, 0 if first == "[" else -1
    return found


class Lines(Mapping[str, int]):
    """Line numbers by schema path, found when first asked for.

    Parameters
    ----------
    text:
        The JSON text that was parsed.
    root:
        What it was parsed to.
    origins:
        The JSON path of each record's definition, by full name.
    """

    __slots__ = ("_found", "_origins", "_root", "_text")

    def __init__(self, text: str, root: AvroType, origins: Mapping[str, str]) -> None:
        self._text = text
        self._root = root
        self._origins = origins
        self._found: dict[str, int] | None = None

    def __getitem__(self, path: str) -> int:
        return self._all()[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, int]:
        if self._found is None:
            found: dict[str, int] = {}
            self._walk(self._root, paths.ROOT, json_lines(self._text), found)
            self._found = found
        return self._found

    def _walk(self, type_: AvroType, path: str, lines: Mapping[str, int], found: dict[str, int]) -> None:
        match type_:
            case Record():
                origin = self._origins[type_.name]
                found.setdefault(path, lines[origin])
                for index, field in enumerate(type_.fields):
                    below = paths.child(path, field.name)
                    found[below] = lines[f"{origin}.fields[{index}]"]
                    self._walk(field.type, below, lines, found)
            case Array():
                self._walk(type_.items, paths.items(path), lines, found)
            case Map():
                self._walk(type_.values, paths.values(path), lines, found)
            case Union() if type_.optional:
                self._walk(type_.values[0], path, lines, found)
            case Union():
                for name, branch in zip(branch_names(type_), type_.values, strict=True):
                    self._walk(branch, paths.branch(path, name), lines, found)
