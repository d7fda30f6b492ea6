"""From text, or from what another program parsed, to JSON that is only JSON."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from lakeevolve.avro.parse.messages import Messages, quote
from lakeevolve.avro.parse.positions import json_child
from lakeevolve.model.types import Json

#: JSON arrays and objects within each other. A record takes three per level of types.
MAX_JSON_DEPTH: Final = 320
#: JSON values in one schema. Parsed JSON may share objects, and then a few lists can stand for 2**60 values.
MAX_JSON_VALUES: Final = 1_000_000
MAX_NUMBER_BITS: Final = 4096
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def load(text: str, messages: Messages) -> Json:
    """Parse JSON text to what :func:`checked_copy` would make of it."""
    try:
        if _plain(text):
            return _decoded(text)
    except _Odd:
        pass
    except json.JSONDecodeError as error:
        messages.fail_at(f"line {error.lineno}, column {error.colno}", f"not valid JSON: {error.msg}")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        messages.fail_at(f"line {error.lineno}, column {error.colno}", f"not valid JSON: {error.msg}")
    except ValueError:  # a whole number of more digits than Python converts
        messages.fail_at("$", "not valid JSON: a number has too many digits")
    messages.text = text
    return checked_copy(document, messages)


class _Odd(Exception):
    """A number that is to be looked at more closely."""


def _whole(digits: str) -> int:
    if len(digits) > MAX_NUMBER_BITS // 4:
        raise _Odd
    return int(digits)


def _fraction(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _Odd
    return number


def _constant(name: str) -> float:
    raise _Odd(name)


_STRICT: Final = json.JSONDecoder(parse_int=_whole, parse_float=_fraction, parse_constant=_constant)
_scan: Final[Any] = _STRICT.scan_once  # type: ignore[attr-defined]


def _decoded(text: str) -> Json:
    """What ``_STRICT.decode`` gives, without its search for space that is seldom there."""
    try:
        document, end = _scan(text, 0)
    except StopIteration:
        return _STRICT.decode(text)
    return _STRICT.decode(text) if text[end:].strip(" \t\n\r") else document


def _plain(text: str) -> bool:
    """Whether nothing but a number can be wrong with what a text holds: its values need no look of their own."""
    return (
        text.isascii()
        and ("\\" not in text or "\\u" not in text)
        and len(text) <= MAX_JSON_VALUES  # a value takes a character, and a comma or a bracket
        and _flat(text)
    )


def _flat(text: str) -> bool:
    """Whether brackets are surely nested no deeper than is allowed."""
    if text.count("{") + text.count("[") <= MAX_JSON_DEPTH:
        return True
    # Each turn takes away the innermost ones.
    brackets = text.encode("ascii").translate(None, _NO_BRACKETS)
    for _ in range(MAX_JSON_DEPTH // 2):
        if not brackets:
            return True
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return not brackets


def may_repeat(text: str, members: int) -> bool:
    """Whether an attribute may be given twice in one object of a text, of which *members* attributes are known."""
    return (
        text.count('":') != members
        or " :" in text
        or ("\n" in text and "\n:" in text)
        or ("\t" in text and "\t:" in text)
        or ("\r" in text and "\r:" in text)
    )


def repeated(text: str) -> list[str]:
    """Warnings of attributes that are given twice in one object, since parsers differ in which one counts."""
    warnings: list[str] = []

    def members(pairs: list[tuple[str, Json]]) -> None:
        if len(dict(pairs)) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    warnings.append(f"{quote(key)} is given twice in one JSON object; the last one counts")
                seen.add(key)

    json.loads(text, object_pairs_hook=members)
    return warnings


def checked_copy(document: Json, messages: Messages) -> Json:
    """A copy that is JSON and nothing else, so that a schema shares no state with its source.

    Without recursion: what other programs pass may be nested to any depth, or hold itself.
    """
    holder: list[Json] = []
    todo: list[tuple[Any, Any, str, int]] = [([document], holder, "", 0)]
    count = 0
    while todo:
        source, target, path, depth = todo.pop()
        members = source.items() if isinstance(source, dict) else enumerate(source)
        count += len(source)
        if count > MAX_JSON_VALUES:
            messages.fail("$", f"the JSON holds more than {MAX_JSON_VALUES} values")
        for key, value in members:
            if isinstance(target, dict) and not (type(key) is str and _is_text(key)):
                messages.fail(path, "not JSON: a key is not Unicode text")
            kind = type(value)
            if kind is str and value.isascii():
                made = value
            elif isinstance(value, (dict, list)):
                if depth == MAX_JSON_DEPTH:
                    messages.fail("$", f"the JSON is nested more than {MAX_JSON_DEPTH} levels deep")
                made = {} if isinstance(value, dict) else []
                todo.append((value, made, _path(path, key), depth + 1))
            elif value is None or kind is bool:
                made = value
            else:
                made = _scalar(value, _path(path, key), messages)
            if isinstance(target, dict):
                target[key] = made
            else:
                target.append(made)
    return holder[0]


def _scalar(value: Json, path: str, messages: Messages) -> Json:
    if isinstance(value, str):
        if not _is_text(value):
            messages.fail(path, "the text holds half of a surrogate pair, which is not Unicode")
        return str.__str__(value)
    if type(value) is int:
        if value.bit_length() > MAX_NUMBER_BITS:
            messages.fail(path, "the number is too large")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            messages.fail(path, "the number is not finite", "JSON has neither NaN nor Infinity")
        return value
    return messages.fail(path, f"not JSON: a value of the type {type(value).__name__}")


def _path(parent: str, key: str | int) -> str:
    if not parent:
        return "$"
    return f"{parent}[{key}]" if isinstance(key, int) else json_child(parent, key)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
