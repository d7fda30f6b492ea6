"""YAML as plain values that know their lines.

The types are those of YAML 1.2: ``off``, ``no`` and ``2027-01-31`` are texts, as they look. Nothing is filled in from
the environment and nothing is constructed but mappings, lists, texts, numbers, booleans and null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from lakeevolve.config.find import shown
from lakeevolve.errors import ConfigError, InvalidConfig
from lakeevolve.redaction import without_secrets

#: Where a value stands: keys and positions from the root on.
Place: TypeAlias = tuple[str | int, ...]

LARGEST: Final = 16 * 1024 * 1024
#: Aliases may name one value many times over; more values than this are no configuration.
MOST: Final = 500_000

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Plain scalars as the core schema of YAML 1.2 has them (section 10.3.2)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _form, _first in (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_form})\Z"), ["" if c == "\0" else c for c in _first]
    )


@dataclass(slots=True)
class Document:
    """A YAML file's content.

    ``value`` is the root, ``lines`` the line of each key and item, ``empty`` the places that have a key and no value
    (which is null, as ``null`` written out is), ``numbers`` each number as it is written.
    """

    file: str
    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    empty: set[Place] = field(default_factory=set)
    numbers: dict[Place, str] = field(default_factory=dict)

    def line(self, place: Place) -> int:
        """The line of a place, or of the innermost place around it that is there."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def digits_as_text(self, key: str) -> None:
        """Take what stands at every such key as it is written: of hex digits, some are a number by chance."""
        for place, text in self.numbers.items():
            if place[-1:] == (key,):
                around = self.value
                for part in place[:-1]:
                    around = around[part]
                around[key] = text


def read(path: str | Path) -> Document:
    """Read a YAML file.

    Raises
    ------
    InvalidConfig
        The file is no YAML, or has a key twice.
    ConfigError
        The file cannot be read, or is too large to be a configuration.
    """
    file = shown(path)
    try:
        size = Path(path).stat().st_size
        if size > LARGEST:
            raise ConfigError(
                f"the file has {size:,} bytes, which is no configuration", where=file, hint="check which file it is"
            )
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError("there is no such file", where=file, hint="check the path") from without_secrets(error)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].count(b"\n") + 1
        raise InvalidConfig(file, [(before, "the file is not UTF-8 text", "save it as UTF-8")]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ConfigError(f"the file cannot be read: {reason}", where=file) from without_secrets(error)
    return parse(text, file)


def parse(text: str, file: str) -> Document:
    """Read YAML from a text; *file* is what faults call it."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        # libyaml puts a text that ends too early on the line after its last.
        line = 1 if mark is None else min(mark.line + 1, max(len(text.splitlines()), 1))
        raise InvalidConfig(file, [(line, f"the file is not YAML: {said}", None)]) from None
    except yaml.YAMLError as error:
        # The reader's own error: a character that YAML does not allow.
        at = getattr(error, "position", None)
        line = text.count("\n", 0, at) + 1 if isinstance(at, int) else 1
        raise InvalidConfig(file, [(line, "the file holds a character that YAML does not allow", None)]) from None
    except (RecursionError, ValueError):
        raise InvalidConfig(file, [(1, "the file is nested too deeply, or is not YAML", None)]) from None
    made = _Maker(file)
    try:
        made.document.value = None if root is None else made.value(root, (), frozenset())
    except RecursionError:
        raise InvalidConfig(file, [(1, "the file is nested too deeply", None)]) from None
    if made.faults:
        raise InvalidConfig(file, made.faults)
    return made.document


class _Maker:
    def __init__(self, file: str) -> None:
        self.document = Document(file)
        self.faults: list[tuple[int, str, str | None]] = []
        self.count = 0

    def value(self, node: yaml.Node, place: Place, above: frozenset[int]) -> Any:
        line = node.start_mark.line + 1
        self.document.lines.setdefault(place, line)
        self.count += 1
        if id(node) in above or self.count > MOST:
            reason = "a value contains itself" if id(node) in above else f"the file holds more than {MOST:,} values"
            raise InvalidConfig(self.document.file, [(line, reason, "write the value out")])
        match node:
            case yaml.MappingNode():
                return self._mapping(node, place, above | {id(node)})
            case yaml.SequenceNode():
                inside = above | {id(node)}
                return [self.value(item, (*place, at), inside) for at, item in enumerate(node.value)]
        if node.value == "" and not node.style:
            self.document.empty.add(place)
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
            self.document.numbers[place] = node.value
        return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode, place: Place, above: frozenset[int]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.faults.append((line, "a key is a text", "quote the key"))
                continue
            name = key.value
            if name in found:
                first = self.document.lines[(*place, name)]
                self.faults.append((line, f"the key {name!r} is there twice, first on line {first}", "keep one"))
                continue
            if name == "<<" and not key.style:
                self.faults.append((line, "merging with << is not part of YAML 1.2", "write the keys out"))
                continue
            self.document.lines[(*place, name)] = line
            found[name] = self.value(value, (*place, name), above)
        return found

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        text = node.value
        if not text.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in text):
            self.faults.append((line, "a text holds half a character", "write the character out"))
            return ""
        match node.tag.rpartition(":")[2]:
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int":
                return self._number(lambda: int(text, 0 if text[:2] in ("0o", "0x") else 10), text, line)
            case "float":
                return self._number(lambda: float(text), text, line)
            case "str":
                return text
        self.faults.append((line, f"a value of the type {node.tag} cannot stand here", "leave out the tag"))
        return text

    def _number(self, read: Any, text: str, line: int) -> Any:
        try:
            return read()
        except ValueError:
            self.faults.append((line, f"{text[:40]!r} is no number", "quote it if it is a text"))
            return 0
